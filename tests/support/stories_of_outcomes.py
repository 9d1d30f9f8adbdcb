"""Small jobs in which it matters what became of something: who has finished, given up, recovered or
only waits; and whose line, step, pod or attempt it was."""

from __future__ import annotations

import json

from stories import GPUS, Story

ONE = ("node-1",)
CORRUPT = (
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
)


def _job(*modes: str, rank: int | None = None, host: str = "", until: float = 160.0) -> Story:
    story = Story(modes, rank, host, hosts=ONE)
    story.steps(until)
    return story


def _store_is_gone(story: Story, second: float) -> None:
    for rank in story.others(0):
        story.put(
            story.err(rank), second,
            f"[rank{rank}]:[W{story.glog(second)} TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=83, addr=[node-1]:53930, remote=[node-1]:29500): Connection reset by peer",
        )  # fmt: skip
        story.closed(rank, second, "node-1")


# --- the end ------------------------------------------------------------------------------------


def ranks_that_are_done() -> Story:
    """What ranks lose when the first of them has left, after all have said that they are done."""
    story = _job()
    for rank in range(GPUS):
        story.put(story.out(rank), 170, f"{story.clock(170)}: rank{rank}: INFO: train: Done.")
    _store_is_gone(story, 172)
    return story


def work_that_was_done_before_the_steps() -> Story:
    """A part of the start is done on all ranks. The job is not: a rank has left it."""
    story = _job("nccl_remote_closed")
    for rank in range(GPUS):
        story.put(story.out(rank), 40, f"{story.clock(40)}: rank{rank}: INFO: compile: Done.")
    _store_is_gone(story, 172)
    return story


def one_rank_that_is_done() -> Story:
    """Seven others trained like it, and are not."""
    story = _job("cuda_oom", rank=5)
    story.put(story.out(0), 170, f"{story.clock(170)}: rank0: INFO: eval: Done.")
    story.traceback(5, 171, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79.1 GiB")  # fmt: skip
    for rank in story.others(5):
        story.closed(rank, 173, "node-1")
    return story


def monitor_that_is_ended_with_the_job() -> Story:
    """Slurm cancels a step of a job that has finished; the last of its lines have no clock."""
    story = _job()
    story.put("train.out", 170, f"{story.clock(170)} 0: {{'train_runtime': 4680.0, 'train_loss': 1.04, 'epoch': 2.0}}")  # fmt: skip
    story.put(
        "train.err", 175, f"slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT {story.at(175):%Y-%m-%dT%H:%M:%S} ***",
        "srun: error: node-1: task 0: Terminated",
    )  # fmt: skip
    return story


def cancelled_by_its_user() -> Story:
    """A port that came back hours before, steps, the user's scancel, and the noise of the end, which
    is longer than what is read of a file's end."""
    story = Story(("slurm_step_cancelled",), host="node-1", hosts=ONE)
    path = "slurm-81.out"
    for step in range(1, 1600):
        second = 60.0 + step
        story.put(path, second, f"0: Epoch 0:   2%|▏         | {step}/40000 [00:19<25:31:20, 0.43it/s, v_num=2310, train/loss=2.6]")  # fmt: skip
        if step % 20 == 0:
            story.put(
                path, second, f"0: {story.clock(second)} stats rank=0 step={step} tok/s=21561"
            )
    story.put(path, 600.5, "3: node-1:61403:62353 [3] transport/net_ib.cc:117 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error")  # fmt: skip
    story.put(path, 1665, f"slurmstepd: error: *** STEP 81.0 ON node-1 CANCELLED AT {story.at(1665):%Y-%m-%dT%H:%M:%S} ***")  # fmt: skip
    for rank in range(GPUS):
        story.put(path, 1667, f"{rank}: [rank{rank}]: RuntimeError: DataLoader worker (pid(s) {64000 + rank}) exited unexpectedly")  # fmt: skip
        frame = f"{rank}: frame #7: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x1591 (0x7f00 in /v/torch/lib/libtorch_cuda.so)"  # fmt: skip
        story.put(path, 1668, *[frame] * 200)
    return story


# --- given up, or not -----------------------------------------------------------------------------


def _logged(story: Story, rank: int, second: float, line: str, *errors: str) -> None:
    """As a logger writes an exception that was caught: the message above it."""
    frames = ["Traceback (most recent call last):", '  File "/work/data.py", line 141, in _decode', "    item = sample[key]"]  # fmt: skip
    story.put(story.err(rank), second, f"{story.clock(second)} {line}", *frames, *errors)


def samples_that_were_skipped_and_one_error() -> Story:
    """All ranks log exceptions of samples that they skip, up to the end; one rank has another."""
    story = _job("python_error", rank=5, until=400)
    for rank in range(GPUS):
        for second in (90 + rank, 240 + rank, 385 + rank):
            _logged(story, rank, second, f"WARNING data: rank={rank} sample 5681486 skipped (1 of max 1000)", "KeyError: 'caption'")  # fmt: skip
    story.traceback(5, 399, "KeyError: 'image_grid_thw'")
    for rank in story.others(5):
        story.timeout(rank, 1000)
    return story


def load_that_was_given_up() -> Story:
    """Two ranks read a file that is not complete: one has it at its second try, one gives up."""
    story = Story(("checkpoint_corrupt",), 6, hosts=ONE)
    for rank, tries in ((2, 1), (6, 3)):
        for number in range(1, tries + 1):
            _logged(story, rank, 60 + 20 * number, f"rank{rank}: WARNING: ckpt: load of rank{rank}.pt failed (try {number}/3), will retry in 20 s", CORRUPT)  # fmt: skip
    story.put(story.err(2), 120, f"{story.clock(120)} rank2: INFO: ckpt: waiting for all ranks")
    story.put(story.err(6), 122, f"{story.clock(122)} rank6: ERROR: ckpt: giving up after 3 tries")
    story.traceback(6, 122, "work.ckpt.LocalCheckpointError: /local/ckpt/rank6.pt")
    story.put(story.err(6), 123, f"{story.clock(123)} rank6: INFO: waiting for 3 uploads")
    for rank in story.others(6):
        story.timeout(rank, 1022)
    return story


def hosts_whose_ranks_time_out_hours_apart() -> Story:
    """No steps tie the clocks, and a file beside them is in a third zone: the collective does in
    which they gave up."""
    story = Story(("disk_full",), 12, "node-2", zones={"node-2": 18_000.0})
    story.put("node-1/ls.txt", 0, f"# taken {story.at(18_900):%Y-%m-%d %H:%M:%S} UTC")
    for rank in range(16):
        host = story.host_of(rank)
        story.put(story.out(rank), 30, f"{story.clock(30, host)} [rank{rank}] building")
    path = story.err(12)
    story.put(path, 60, f"{story.clock(60, 'node-2')} [rank12] writing the index")
    story.traceback(12, 61, "OSError: [Errno 28] No space left on device: '/local/index.tmp'")
    for rank in story.others(12):
        story.timeout(rank, 700)
    return story


def overflow_in_a_file_of_two_hosts() -> Story:
    """One host's clock is three minutes behind: what it writes next is not earlier."""
    story = Story(("fp16_loss_scale_exhausted",), zones={"node-2": -183.0})
    path = "run.log"
    for step in range(1, 30):
        story.put(path, 60.0 + 5 * step, f"node-1: {story.clock(60 + 5 * step)} [rank0] step {step} | loss 2.1 | gnorm 0.5")  # fmt: skip
    for rank in range(16):
        story.put(path, 212, f"{story.host_of(rank)}: [rank{rank}]: Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.")  # fmt: skip
    story.put(path, 214, f"node-2: [{story.clock(214, 'node-2')}] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 28801")  # fmt: skip
    return story


def retried_beside_the_newest_steps() -> Story:
    """The last lines of two ranks say that they try again, and all ranks do their steps."""
    story = _job(until=400)
    for rank in (2, 7):
        story.put(story.err(rank), 398, f"{story.clock(398)} [rank{rank}] WARNING eval: CUDA out of memory. Tried to allocate 6.00 GiB. GPU {rank} has a total capacity of 79.11 GiB of which 3.21 GiB is free. -> micro batch 16 -> 8, retrying")  # fmt: skip
    return story


def replica_whose_worker_hangs() -> Story:
    """One of two servers hangs; the other had died an hour before, and was started again."""
    story = Story(("vllm_worker_hang",), hosts=ONE)

    def put(name: str, second: float, line: str) -> None:
        story.put(f"logs/{name}.log", second, f"{name}-1  | {line}")

    def clock(second: float) -> str:
        return f"{story.at(second):%m-%d %H:%M:%S}"

    put("vllm-a", 60, f"(EngineCore_DP0 pid=270) ERROR {clock(60)} [multiproc_executor.py:154] Worker proc VllmWorker-3 died unexpectedly, shutting down executor.")  # fmt: skip
    put("vllm-a", 160, f"(APIServer pid=1) INFO {clock(160)} Application startup complete.")
    for name in ("vllm-a", "vllm-b"):
        for second in (
            0,
            *range(200, 3600, 60),
            *(range(3600, 4000, 60) if name == "vllm-a" else ()),
        ):
            put(name, second, f"(APIServer pid=1) INFO {clock(second)} [loggers.py:116] Engine 000: Running: 64 reqs, Waiting: 0 reqs")  # fmt: skip
    put("vllm-b", 3600, f"(EngineCore_DP0 pid=291) INFO {clock(3600)} [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging")  # fmt: skip
    put("vllm-b", 3900, f"(EngineCore_DP0 pid=291) ERROR {clock(3900)} [core.py:710] EngineCore encountered a fatal error.")  # fmt: skip
    put("vllm-b", 3900, f"(APIServer pid=1) ERROR {clock(3900)} [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.")  # fmt: skip
    return story


# --- whose it was -----------------------------------------------------------------------------------


def link_of_one_host() -> Story:
    """The host that has lost its link blames all others, and each of them blames it; what was flushed
    blames anybody."""
    story = Story(("nccl_ib_completion_error",), 12, "node-2", hosts=("node-1", "node-2", "node-3"))
    story.nccl_init()
    story.steps(300)

    def completion(rank: int, second: float, peer: str, status: int) -> None:
        host, pid = story.host_of(rank), story.pid(rank)
        story.put(story.err(rank), second, f"{host}:{pid}:{pid + 400} [{rank % GPUS}] transport/net_ib.cc:2237 NCCL WARN NET/IB : Got completion from peer {peer}<41840> with status={status} opcode=0 len=0 vendor err 129 (Recv)")  # fmt: skip

    for rank in (4, 20):
        completion(rank, 331, "10.9.0.2", 12)
    for peer in ("10.9.0.1", "10.9.0.3"):
        completion(12, 334, peer, 12)
    for rank in (1, 3, 17, 18, 19, 22):
        completion(rank, 336, "10.9.0.3" if rank < GPUS else "10.9.0.1", 5)
    return story


def loss_that_json_calls_infinity() -> Story:
    """One rank's loss, and in the same step the gradients of all; its clock is ahead."""
    story = Story(("nan_loss",), 6, hosts=ONE)
    for rank in range(GPUS):
        for step in range(1, 40):
            bad = step >= 25
            loss = float("inf") if bad and rank == 6 else float("nan") if step > 25 else 2.3
            record = {"ts": 1_783_554_000.0 + 4 * step + 3 * (rank == 6), "rank": rank, "step": step, "loss": loss, "grad_norm": float("nan") if bad else 0.5}  # fmt: skip
            story.put(f"metrics/rank_{rank:03d}.jsonl", step, json.dumps(record))
    return story


def ranks_behind_a_file_server() -> Story:
    """A file server does not respond to one host, whose ranks say nothing; to another it did, 40
    seconds later. Lines of the audit quote times that are not the boot's."""
    story = Story(("nfs_not_responding",), host="node-2", hosts=("node-1", "node-2", "node-3"))
    story.steps(300)
    story.dmesg("node-1", (100.0, "nfs: server nas2 not responding, still trying"), (140.0, "nfs: server nas2 OK"))  # fmt: skip
    audits = ((1_777_349_171, 900_000), (1_777_312_853, 900_100), (1_777_389_940, 900_200))
    for quoted, boot in audits:
        story.put("node-2/dmesg.txt", 1, f"[{boot}.146103] audit: type=1400 audit({quoted}.221:61): apparmor=STATUS")  # fmt: skip
    story.put(
        "node-2/dmesg.txt", 310, "[986147.210413] nfs: server nas2 not responding, still trying"
    )
    for rank in story.others(*range(8, 16)):
        story.timeout(rank, 2200)
    return story


def file_server_that_holds_nobody_up() -> Story:
    """By itself it is no failure."""
    story = _job(until=600)
    story.dmesg("node-1", (300.0, "nfs: server nas2 not responding, still trying"))
    return story


def earlier_step_of_a_slurm_job() -> Story:
    """The step before had the same trouble, and the script went on."""
    story = Story(("cgroup_oom_slurm",), 11, "node-2")
    path = "slurm-7.err"
    story.put(
        path, 10, "slurmstepd: error: Detected 2 oom_kill events in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "srun: error: node-1: tasks 2,7: Out Of Memory", "srun: Terminating StepId=7.0",
    )  # fmt: skip
    story.steps(400)
    story.put(path, 401, "slurmstepd: error: Detected 1 oom_kill event in StepId=7.2. Some of the step tasks have been OOM Killed.", "srun: error: node-2: task 11: Out Of Memory")  # fmt: skip
    for rank in story.others(11):
        story.closed(rank, 402, "node-2")
    return story


def evictions_in_a_shared_namespace() -> Story:
    """Events list all pods of a namespace. The description of the job's own has no order of time."""
    pods = ("sft-master-0", "sft-worker-0")
    story = Story(("k8s_evicted_ephemeral_storage",), host="sft-worker-0", hosts=pods)
    for rank in range(16):
        pod = story.host_of(rank)
        for step in range(1, 20):
            story.put(f"pods/{pod}.log", 60.0 + 5 * step, f"[rank{rank}]: {story.clock(60 + 5 * step)} step {step} | loss 2.1 | gnorm 0.5")  # fmt: skip
    story.put(
        "kubectl/events.txt", 0,
        "LAST SEEN   TYPE      REASON    OBJECT                       MESSAGE",
        "121m        Warning   Evicted   pod/embed-batch-6fd94-xk2q   The node was low on resource: memory. Threshold quantity: 100Mi, available: 71Mi.",
        "95m         Warning   Evicted   pod/notebook-liwei-0         The node was low on resource: ephemeral-storage. Threshold quantity: 322122547200.",
        "14m         Warning   Evicted   pod/sft-worker-0             The node was low on resource: ephemeral-storage. Threshold quantity: 322122547200.",
        f"{story.at(0):%a %b %e %H:%M:%S} UTC {story.at(0):%Y}",
    )  # fmt: skip
    story.put(
        "kubectl/describe.txt", 0,
        *(line for pod in pods for line in (f"Name:             {pod}", "Containers:", "  pytorch:", "    State:          Running", f"      Started:      {story.at(0):%a, %d %b %Y %H:%M:%S} +0000")),
    )  # fmt: skip
    for rank in range(8):
        story.put("pods/sft-master-0.log", 165, f"[rank{rank}]:[E{story.glog(165)} ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.26.2")  # fmt: skip
    return story


def server_that_was_started_again() -> Story:
    """Its first start failed of memory; it served for an hour, until a scheduler hung."""
    story = Story(("sglang_watchdog_timeout",), host="", hosts=ONE)
    path = "node-1/compose.log"

    def put(second: float, line: str, rank: str = "") -> None:
        story.put(path, second, f"sglang-0  | [{story.at(second):%Y-%m-%d %H:%M:%S}{rank}] {line}")

    put(60, "Scheduler hit an exception: Traceback (most recent call last):", " TP3")
    story.put(path, 60, '  File "/v/graph.py", line 3, in capture', "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.1 GiB", "sglang-0 exited with code 137 (restarting)")  # fmt: skip
    put(400, "The server is fired up and ready to roll!")
    for number in range(40):
        put(420 + number, "Decode batch. #running-req: 4, #token: 900, token usage: 0.2", " TP0")
    for rank in range(GPUS):
        put(3600 + rank, "Watchdog timeout (self.watchdog_timeout=300)", f" TP{rank}")
    return story


def pods_as_a_kubelet_keeps_them() -> Story:
    """pods/NAMESPACE_POD_UID/container/0.log, of two pods that are not called alike."""
    story = Story(("thread_limit",), 9, "ft-workers-0-1-bq9zd", hosts=ONE)
    pods = ("ft-workers-0-0-x7k2p", "ft-workers-0-1-bq9zd")
    for rank in range(16):
        pod = pods[rank // GPUS]
        path = f"var/log/pods/ml_{pod}_{'1f0c' if pod == pods[0] else '5b7a'}/train/0.log"
        for step in range(1, 12):
            story.put(path, 60.0 + 5 * step, f"[rank{rank}]: {story.clock(60 + 5 * step)} step {step} | loss 2.1 | gnorm 0.5")  # fmt: skip
        if rank == 9:
            story.put(
                path, 130, f"[rank9]: {story.clock(130)} RuntimeError: can't start new thread"
            )
    return story


STORIES_OF_OUTCOMES = [
    ranks_that_are_done,
    work_that_was_done_before_the_steps,
    one_rank_that_is_done,
    monitor_that_is_ended_with_the_job,
    cancelled_by_its_user,
    samples_that_were_skipped_and_one_error,
    load_that_was_given_up,
    hosts_whose_ranks_time_out_hours_apart,
    overflow_in_a_file_of_two_hosts,
    retried_beside_the_newest_steps,
    replica_whose_worker_hangs,
    link_of_one_host,
    loss_that_json_calls_infinity,
    ranks_behind_a_file_server,
    file_server_that_holds_nobody_up,
    earlier_step_of_a_slurm_job,
    evictions_in_a_shared_namespace,
    server_that_was_started_again,
    pods_as_a_kubelet_keeps_them,
]
