"""Small jobs in which it is hard to say where something has failed: labels that only number the ranks
of one host, hosts that only fields, folders or parts of names tell."""

from __future__ import annotations

import json

from stories import GPUS, Story

ONE = ("node-1",)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.1 GiB"


def closed(story: Story, path: str, rank: int, second: float, peer: str, label: str = "") -> None:
    host, pid = story.host_of(rank), story.pid(rank)
    story.put(path, second, f"{label}{host}:{pid}:{pid + 9} [{rank % GPUS}] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer {peer}<48123>")  # fmt: skip


# --- labels of the ranks of one host ----------------------------------------------------------------


def _tee(story: Story, failed: int) -> Story:
    """As torchrun --tee writes it: the workers' numbers on their host before each line."""
    for rank in range(story.world):
        path, label = f"{story.host_of(rank)}.log", f"[default{rank % GPUS}]:"
        for step in range(1, 12):
            story.put(path, 50 + step, f"{label}{story.clock(50 + step)} step {step} loss 2.{step}")
        if rank == failed:
            story.put(path, 70, f"{label}Traceback (most recent call last):", f'{label}  File "/w/t.py", line 3, in <module>', f"{label}{OOM}")  # fmt: skip
        else:
            closed(story, path, rank, 72, story.host_of(failed), label)
    return story


def labels_that_the_agent_explains() -> Story:
    story = Story(("cuda_oom",), 11, "node-2")
    for number, host in enumerate(story.hosts):
        ranks = [*range(number * GPUS, number * GPUS + GPUS)]
        story.put(f"{host}.log", 1, "I0504 09:30:01.000000 7 torch/distributed/elastic/agent/server/api.py:525] [default] Rendezvous complete for workers. Result:", "  restart_count=0", f"  group_rank={number}", "  local_ranks=[0, 1, 2, 3, 4, 5, 6, 7]", f"  role_ranks={ranks}", f"  global_ranks={ranks}")  # fmt: skip
    return _tee(story, 11)


def labels_that_other_lines_explain() -> Story:
    """torch names the rank in some lines, behind the label of the launcher."""
    story = Story(("cuda_oom",), 11, "node-2")
    for rank in range(story.world):
        story.put(f"{story.host_of(rank)}.log", 73, f"[default{rank % GPUS}]:[rank{rank}]:[E{story.glog(73)} ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error")  # fmt: skip
    return _tee(story, 11)


def labels_that_the_box_explains() -> Story:
    story = Story(("cuda_oom",), 11, "node-2")
    for host, rank in (("node-1", 2), ("node-2", 13)):
        story.torchrun(host, 80, rank, code=-6)
        story.lines[f"{host}.log"] = story.lines.pop(f"{host}/torchrun.log")
    return _tee(story, 11)


def labels_of_one_host() -> Story:
    return _tee(Story(("cuda_oom",), 3, hosts=ONE), 3)


# --- hosts -------------------------------------------------------------------------------------------


def _records(story: Story, path: str, more: str = "") -> Story:
    """One file of a collector for all hosts: the rank is in the text, the host in a field."""

    def put(rank: int, second: float, message: str) -> None:
        fields = {"timestamp": f"{story.at(second):%Y-%m-%dT%H:%M:%S}Z", "severity": "INFO"}
        place = {"host": story.host_of(rank), "message": f"[rank{rank}]: {message}"}
        story.put(path, second, json.dumps({**fields, **place}))

    for rank in range(story.world):
        for step in range(1, 12):
            put(rank, 50.0 + step, f"step {step} loss 2.{step}{more}")
    put(12, 70, "OSError: [Errno 28] No space left on device")
    return story


def records_of_all_hosts() -> Story:
    return _records(Story(("disk_full",), 12, "node-2"), "export.jsonl")


def records_that_quote_a_host() -> Story:
    """What a message says of a host is not where it was written."""
    quoted = ' request={"host": "node-1"}'
    return _records(Story(("disk_full",), 12, "node-2"), "export.jsonl", quoted)


def records_in_files_of_pods() -> Story:
    """The ending of a file is not part of the name of its pod."""
    story = Story(("cuda_oom",), host="llm-worker-1")
    for pod in range(2):
        for rank in range(pod * GPUS, pod * GPUS + GPUS):
            for step in range(1, 12):
                story.put(f"llm-worker-{pod}.jsonl", 50 + step, json.dumps({"log": f"[rank{rank}] step {step} loss 2.{step}\n", "time": f"{story.at(50 + step):%Y-%m-%dT%H:%M:%S}Z"}))  # fmt: skip
    story.put("llm-worker-1.jsonl", 70, json.dumps({"log": f"[rank12]: {OOM}\n", "time": f"{story.at(70):%Y-%m-%dT%H:%M:%S}Z"}))  # fmt: skip
    return story


def files_with_numbers_of_ranks() -> Story:
    """node-2-3.log is of the fourth rank of node-2, as NCCL's lines tell."""
    story = Story(("nccl_duplicate_gpu",), host="node-2")
    for rank in range(story.world):
        host, pid = story.host_of(rank), story.pid(rank)
        path = f"{host}-{rank % GPUS}.log"
        story.put(path, 1, f"[rank{rank}]: {story.clock(1)} cuda:{rank % GPUS}")
        if rank in (10, 11):
            story.put(path, 6, f"{host}:{pid}:{pid + 70} [2] init.cc:943 NCCL WARN Duplicate GPU detected : rank {rank} and rank {21 - rank} both on CUDA device 52000")  # fmt: skip
        else:
            closed(story, path, rank, 7, "node-2")
    return story


def files_with_names_of_ranks() -> Story:
    """No line names a host: what stands before the rank in the name of a file is one."""
    story = Story(("cuda_oom",), 12, "x2")
    for rank in range(story.world):
        path = f"x{1 + rank // GPUS}-r{rank}.txt"
        for step in range(1, 12):
            story.put(path, step, f"rank {rank} step {step}/1000 loss 2.{step}")
        error = OOM if rank == 12 else "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."  # fmt: skip
        story.put(path, 60, f"[rank{rank}]: {error}")
    return story


def _numbered_files(story: Story, name: str) -> Story:
    """One file for each node, called after its number."""
    for rank in range(story.world):
        path = f"node_{rank // GPUS}.log"
        for step in range(1, 12):
            story.put(path, 50 + step, f"[rank{rank}] {story.clock(50 + step)} step {step} loss 2.{step}")  # fmt: skip
        if rank != 12:
            line = f"{name or story.host_of(rank)}:{story.pid(rank)}:9 [{rank % GPUS}] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer 10.9.0.2<48123>"
            story.put(path, 72, line)
    story.put("node_1.log", 70, f"[rank12]: {OOM}")
    return story


def files_called_after_numbers_of_nodes() -> Story:
    """What NCCL calls the host is its name."""
    return _numbered_files(Story(("cuda_oom",), 12, "cn-22", hosts=("cn-07", "cn-22")), "")


def containers_that_have_one_name() -> Story:
    """Then only the names of the files tell hosts apart."""
    return _numbered_files(Story(("cuda_oom",), 12, "node_1", hosts=("cn-07", "cn-22")), "trainer")


def folders_called_after_addresses() -> Story:
    story = Story(("thread_limit",), host="10.8.0.4")
    story.put("10.8.0.3/raylet.out", 5, f"[{story.clock(5)} I 9 9] (raylet) main.cc:171: Raylet started")  # fmt: skip
    story.put("10.8.0.4/raylet.out", 5, f"[{story.clock(5)} I 9 9] (raylet) main.cc:171: Raylet started")  # fmt: skip
    story.put("10.8.0.4/raylet.err", 9, "terminate called after throwing an instance of 'std::system_error'", "  what():  Resource temporarily unavailable")  # fmt: skip
    return story


def _faulted(story: Story, path: str) -> Story:
    for rank in range(GPUS):
        host, pid = story.host_of(rank), story.pid(rank)
        story.put("crash7/train.log", 1, f"{host}:{pid}:{pid + 9} [{rank}] NCCL INFO ncclCommInitRankConfig comm 0x55 rank {rank} nranks {GPUS} cudaDev {rank} nvmlDev {rank} busId {rank + 1}b000 commId 0x1 - Init COMPLETE")  # fmt: skip
        for step in range(1, 12):
            story.put("crash7/train.log", 50 + step, f"[rank{rank}]: {story.clock(50 + step)} step {step} loss 2.{step}")  # fmt: skip
        if rank != 3:
            closed(story, "crash7/train.log", rank, 72, host)
    story.put(path, 70, f"[{story.at(70):%a %b %e %H:%M:%S %Y}] NVRM: Xid (PCI:0000:4b:00): 79, pid={story.pid(3)}, name=python3, GPU has fallen off the bus.")  # fmt: skip
    return story


def kernel_log_in_the_folder_of_the_job() -> Story:
    """The folder in which all files are is not called after a host."""
    return _faulted(Story(("xid_79_off_bus",), 3, "node-1", hosts=ONE), "crash7/dmesg.log")


def kernel_log_in_the_folder_of_a_host() -> Story:
    """Of two hosts, and only one of them has a kernel log."""
    story = Story(("xid_79_off_bus",), host="node-1")
    story.nccl_init()
    story.steps(70)
    story.dmesg("node-1", (70, "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."))  # fmt: skip
    for rank in story.others(3):
        story.closed(rank, 72, "node-1")
    return story


STORIES_OF_PLACES = [
    labels_that_the_agent_explains,
    labels_that_other_lines_explain,
    labels_that_the_box_explains,
    labels_of_one_host,
    records_of_all_hosts,
    records_that_quote_a_host,
    records_in_files_of_pods,
    files_with_numbers_of_ranks,
    files_with_names_of_ranks,
    files_called_after_numbers_of_nodes,
    containers_that_have_one_name,
    folders_called_after_addresses,
    kernel_log_in_the_folder_of_the_job,
    kernel_log_in_the_folder_of_a_host,
]


# --- names without numbers --------------------------------------------------------------------------


def _servers(story: Story, names: dict[str, str], failed: str) -> Story:
    """`names`: of servers, and the files into which they write."""
    for name, path in names.items():
        story.put(path, 1, f"INFO {story.at(1):%m-%d %H:%M:%S} [api_server.py:1287] vLLM API server version 0.9.1")  # fmt: skip
        for second in range(60, 400 if name == failed else 600, 20):
            story.put(path, second, f"INFO {story.at(second):%m-%d %H:%M:%S} [loggers.py:116] Engine 000: Avg prompt throughput: 812.1 tokens/s, Avg generation throughput: 231.4 tokens/s, Running: 4 reqs, Waiting: 0 reqs")  # fmt: skip
    moment = f"{story.at(400):%m-%d %H:%M:%S}"
    story.put(names[failed], 400, f"(EngineCore_0 pid=212) ERROR {moment} [core.py:396] EngineCore encountered a fatal error.", f"(EngineCore_0 pid=212) ERROR {moment} [core.py:396] {OOM}")  # fmt: skip
    return story


def replicas_with_letters() -> Story:
    names = {f"vllm-{letter}": f"logs/vllm-{letter}.log" for letter in "abc"}
    return _servers(Story(("cuda_oom",), host="vllm-b"), names, "vllm-b")


def servers_called_after_their_roles() -> Story:
    names = {role: f"logs/{role}.log" for role in ("prefill", "decode", "router")}
    return _servers(Story(("cuda_oom",), host="decode"), names, "decode")


def folders_called_after_roles() -> Story:
    names = {role: f"logs/{role}/server.log" for role in ("prefill", "decode")}
    return _servers(Story(("cuda_oom",), host="prefill"), names, "prefill")


def pods_with_random_ends() -> Story:
    pods = ("sampler-7c9f8d-x2xkq", "sampler-7c9f8d-b8kzw", "sampler-7c9f8d-mmrtc")
    return _servers(
        Story(("cuda_oom",), host=pods[2]), {pod: f"{pod}.log" for pod in pods}, pods[2]
    )


def file_that_is_called_after_the_job() -> Story:
    """Beside files of what watches the job: a name that says no place."""
    story = _servers(Story(("cuda_oom",), host=""), {"x": "logs/grpo.log"}, "x")
    story.put("logs/collector.log", 60, "exporter: listening on :9400")
    story.unplaced = True
    return story


STORIES_OF_PLACES += [
    file_that_is_called_after_the_job,
    replicas_with_letters,
    servers_called_after_their_roles,
    folders_called_after_roles,
    pods_with_random_ends,
]
