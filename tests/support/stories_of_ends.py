"""Small jobs that go on, end or are ended in ways that are easily mistaken: attempts, servers, pods,
exceptions that another process prints."""

from __future__ import annotations

from stories import GPUS, Story
from stories_of_places import closed

ONE = ("node-1",)


# --- what goes on ------------------------------------------------------------------------------------


def _agent_is_stopped(story: Story) -> Story:
    for rank in range(story.world):
        path = f"{story.host_of(rank)}.log"
        for step in range(1, 30):
            story.put(path, 50 + step, f"{story.clock(50 + step)} rank={rank} step={step} loss=2.{step}")  # fmt: skip
        if rank < GPUS:
            closed(story, path, rank, 82, "node-2")
    story.put("node-2.log", 81, f"W0504 {story.at(81):%H:%M:%S}.000000 77 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers", "Traceback (most recent call last):", '  File "/usr/local/bin/torchrun", line 8, in <module>', "torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15")  # fmt: skip
    return story


def host_that_left_an_elastic_job() -> Story:
    """The others have started again without it, and do their steps."""
    story = _agent_is_stopped(Story(()))
    story.put("node-1.log", 100, f"I0504 {story.at(100):%H:%M:%S}.000000 77 torch/distributed/elastic/agent/server/api.py:879] [default] Worker group FAILED. 2/3 attempts left; will restart worker group")  # fmt: skip
    for rank in range(GPUS):
        for step in range(20, 90):
            second = 150 + 3 * step
            story.put("node-1.log", second, f"{story.clock(second)} rank={rank} step={step} loss=2.{step}")  # fmt: skip
    return story


def host_that_ended_a_job() -> Story:
    return _agent_is_stopped(Story(("torchrun_sigterm_external",), host="node-2"))


def _attempts(story: Story, first: int) -> Story:
    for rank in range(first, story.world):
        host = story.host_of(rank)
        path = f"{host}/{rank}.log"
        story.put(path, 1, f"{story.clock(1)} INFO starting rank {rank}")
        for second in (10, 70, 130):
            story.put(path, second, f"[W{story.glog(second)} socket.cpp:759] [c10d] The client socket has failed to connect to [node-1]:29500 (errno: 111 - Connection refused).")  # fmt: skip
    return story


def attempts_while_the_master_loads() -> Story:
    """torch tries to connect again and again; rank 0 is not ready yet, and goes on."""
    story = _attempts(Story(()), 1)
    for number in range(30):
        story.put("node-1/0.log", 5 + 10 * number, f"{story.clock(5 + 10 * number)} INFO model-{number:05d}-of-00061.safetensors: {number}%")  # fmt: skip
    return story


def attempts_that_nothing_answers() -> Story:
    """No process of the job does anything else."""
    return _attempts(Story(("rendezvous_connect_timeout",)), 0)


def kills_of_two_kernels() -> Story:
    """Both print local time: the one that killed a rank tells the zone, not the one that killed
    somebody else's process hours later."""
    story = Story(("host_oom_kernel",), 9, "node-2")
    story.nccl_init()
    story.steps(600)
    killed = "Out of memory: Killed process {} ({}) total-vm:412331122kB, anon-rss:380112233kB, file-rss:0kB, shmem-rss:0kB, UID:1001"
    story.dmesg("node-2", (601, killed.format(story.pid(9), "python3")), zone=-7 * 3600)
    story.dmesg("node-1", (601 + 5 * 3600, killed.format(881, "restic")), zone=-7 * 3600)
    for rank in story.others(9):
        story.closed(rank, 603, "node-2")
    story.torchrun("node-2", 605, 9, code=-9)
    return story


def _import(story: Story, until: float) -> Story:
    for rank in range(GPUS):
        path = f"rank{rank}.log"
        story.put(path, 3, f"{story.clock(3)} INFO starting", "Traceback (most recent call last):", '  File "/v/builder.py", line 77, in is_compatible', "    import triton.ops", "ModuleNotFoundError: No module named 'triton.ops'")  # fmt: skip
        if until:
            story.put(path, until, f"{story.clock(until)} INFO compiling the model")
    return story


def module_that_is_not_needed() -> Story:
    """The processes went on without it."""
    return _import(Story((), hosts=ONE), 40)


def module_that_is_missing() -> Story:
    return _import(Story(("import_failed",), hosts=ONE), 0)


def _versions(story: Story, *versions: str) -> Story:
    for rank in range(story.world):
        story.traceback(rank, 6, f"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, internal error - please report this issue to the NCCL developers, NCCL version {versions[rank // GPUS]}", "ncclInternalError: Internal check failed.")  # fmt: skip
    return story


def one_host_with_an_older_nccl() -> Story:
    hosts = ("node-1", "node-2", "node-3", "node-4")
    story = Story(("nccl_version_mismatch",), host="node-3", hosts=hosts)
    return _versions(story, "2.21.5", "2.21.5", "2.19.3", "2.21.5")


def hosts_with_the_same_nccl() -> Story:
    return _versions(Story(("nccl_error",)), "2.21.5", "2.21.5")


# --- servers ------------------------------------------------------------------------------------------


def _server(story: Story, begin: float, end: float) -> Story:
    for second in range(int(begin), int(end), 10):
        story.put("vllm.log", second, f"(APIServer pid=801) INFO {story.at(second):%m-%d %H:%M:%S} [loggers.py:123] Engine 000: Avg prompt throughput: 811.2 tokens/s, Avg generation throughput: 2911.0 tokens/s, Running: 64 reqs, Waiting: 0 reqs")  # fmt: skip
    return story


def _no_block(story: Story, begin: float) -> Story:
    for second in range(int(begin), int(begin) + 180, 60):
        story.put("vllm.log", second, f"(EngineCore_DP0 pid=850) INFO {story.at(second):%m-%d %H:%M:%S} [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work.")  # fmt: skip
    return story


def server_that_compiles() -> Story:
    """Its workers took no message for minutes before it had started."""
    story = _no_block(Story((), hosts=ONE), 60)
    story.put("vllm.log", 299, "(APIServer pid=801) INFO:     Application startup complete.")
    return _server(story, 300, 600)


def server_that_hangs() -> Story:
    return _no_block(_server(Story(("vllm_worker_hang",), hosts=ONE), 60, 300), 360)


def _requests(story: Story, pids: list[int]) -> Story:
    for number, pid in enumerate(pids):
        second = 100.0 + 100 * number
        label = f"(APIServer pid={pid})"
        story.put("vllm.log", second, f"{label} ERROR {story.at(second):%m-%d %H:%M:%S} [serving_chat.py:201] Error in preprocessing prompt inputs", f"{label} Traceback (most recent call last):", f'{label}   File "/opt/vllm/serving_chat.py", line 188, in create', f"{label} ValueError: This model's maximum context length is 32768 tokens.")  # fmt: skip
    return story


def requests_that_a_server_refuses() -> Story:
    """The same process has raised it again and again."""
    return _requests(_server(Story((), hosts=ONE), 60, 510), [801] * 5)


def server_that_is_started_again() -> Story:
    """Another process has raised it each time: it has ended the one before."""
    return _requests(Story(("python_error",), hosts=ONE), [801, 811, 821, 831, 841])


# --- what another process prints of a rank ------------------------------------------------------------


def _in_one_file(story: Story) -> str:
    for step in range(1, 12):
        story.put("train.log", 50 + step, f"{story.clock(50 + step)} step {step} loss 2.{step}")
    return "train.log"


def _boxed(story: Story, second: float, rank: int, code: int) -> None:
    story.torchrun("node-1", second, rank, code=code)
    lines = story.lines.pop("node-1/torchrun.log")
    story.lines["train.log"] += lines


UNKNOWN = [
    "Traceback (most recent call last):",
    '  File "/w/main.py", line 22, in main',
    "    text = tokenizer.decode(ids)",
    "OverflowError: out of range integral type conversion attempted",
]


def exception_without_a_label() -> Story:
    """The launcher says below it which rank has ended with an exit code."""
    story = Story(("python_error",), 5, hosts=ONE)
    story.put(_in_one_file(story), 70, *UNKNOWN)
    _boxed(story, 73, 5, 1)
    return story


def exception_beside_a_signal() -> Story:
    """The rank in the box was ended by a signal: the exception may be any other's."""
    story = Story(("python_error",), hosts=ONE)
    story.put(_in_one_file(story), 70, *UNKNOWN)
    _boxed(story, 73, 2, -15)
    return story


def exception_that_lightning_reports() -> Story:
    story = Story(("python_error",), 3, hosts=ONE)
    told = "[rank: 3] Child process with PID 771 terminated with code 1. Forcefully terminating all other processes to avoid zombies"
    story.put(_in_one_file(story), 70, *UNKNOWN, told)
    return story


def exception_of_a_spawned_process() -> Story:
    story = Story(("python_error",), 2, hosts=ONE)
    path = _in_one_file(story)
    story.put(path, 70, "Traceback (most recent call last):", '  File "/w/main.py", line 30, in <module>', "    mp.spawn(run, nprocs=8)", "torch.multiprocessing.spawn.ProcessRaisedException: ", "", "-- Process 2 terminated with the following error:", *UNKNOWN)  # fmt: skip
    return story


def exception_that_all_ranks_print() -> Story:
    """A distributed checkpoint raises on all ranks what one of them has met."""
    story = Story(("disk_full",), 3, "node-1")
    story.steps(100)
    for rank in range(story.world):
        story.traceback(rank, 101 + rank * 0.01, "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([3])", "Traceback (most recent call last): (RANK 3)", '  File "/v/torch/distributed/checkpoint/filesystem.py", line 430, in _write_files', "    torch.save(tensor, stream)", "OSError: [Errno 28] No space left on device")  # fmt: skip
    return story


# --- pods ---------------------------------------------------------------------------------------------


def _ended_pod(story: Story, section: str, main: tuple[str, int]) -> Story:
    def state(name: str, reason: str, code: int, second: float) -> list[str]:
        return [f"  {name}:", "    State:          Terminated", f"      Reason:       {reason}", f"      Exit Code:    {code}", f"      Finished:     {story.at(second):%a, %d %b %Y %H:%M:%S} +0000"]  # fmt: skip

    story.steps(200)
    story.put("describe.txt", 0, "Name:             node-1", f"{section}:", *state("first", "Completed", 0, 20 if section[0] == "I" else 205), *(["Containers:"] if section[0] == "I" else []), *state("second", *main, 235))  # fmt: skip
    return story


def side_car_that_is_killed_at_the_end() -> Story:
    return _ended_pod(Story((), hosts=ONE), "Containers", ("Error", 137))


def pod_that_was_prepared() -> Story:
    """What runs before the containers of a pod says nothing of their work."""
    return _ended_pod(Story(("k8s_container_killed",), hosts=ONE), "Init Containers", ("Error", 137))  # fmt: skip


BACK_OFF = "Warning   BackOff   pod/node-1   Back-off restarting failed container metrics in pod node-1_ml(77)"


def side_car_that_restarts() -> Story:
    """The job does its steps."""
    story = Story((), hosts=ONE)
    story.steps(200)
    story.put("events.txt", 0, "LAST SEEN   TYPE      REASON    OBJECT       MESSAGE", f"1m          {BACK_OFF}")  # fmt: skip
    return story


def container_that_restarts() -> Story:
    """Nothing else is known."""
    story = Story(("k8s_container_restarts",), host="node-1", hosts=ONE)
    story.put("events.txt", 0, "LAST SEEN   TYPE      REASON    OBJECT       MESSAGE", f"1m          {BACK_OFF}")  # fmt: skip
    return story


def _verl(story: Story, last: str) -> Story:
    for step in range(1, 12):
        story.put("driver.log", 50 + step, f"(TaskRunner pid=301) {story.clock(50 + step)} step:{step} - actor/pg_loss:0.01 - actor/grad_norm:0.2 - timing_s/step:29.1")  # fmt: skip
    story.put("driver.log", 63, last)
    story.put("driver.log", 65, "(raylet, ip=10.9.0.3) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.9.0.3 Worker port: 10009 Worker PID: 881 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.")  # fmt: skip
    return story


def workers_that_end_after_the_last_step() -> Story:
    said = "(TaskRunner pid=301) (\"Final validation metrics: {'val-core/gsm8k/reward/mean@1': 0.81}\")"
    return _verl(Story((), hosts=ONE), said)


def workers_that_end_during_validation() -> Story:
    said = "(TaskRunner pid=301) validation generation end"
    return _verl(Story(("ray_worker_died_sigkill",), host="10.9.0.3", hosts=ONE), said)


STORIES_OF_ENDS = [
    host_that_left_an_elastic_job,
    host_that_ended_a_job,
    attempts_while_the_master_loads,
    attempts_that_nothing_answers,
    kills_of_two_kernels,
    module_that_is_not_needed,
    module_that_is_missing,
    one_host_with_an_older_nccl,
    hosts_with_the_same_nccl,
    server_that_compiles,
    server_that_hangs,
    requests_that_a_server_refuses,
    server_that_is_started_again,
    exception_without_a_label,
    exception_beside_a_signal,
    exception_that_lightning_reports,
    exception_of_a_spawned_process,
    exception_that_all_ranks_print,
    side_car_that_is_killed_at_the_end,
    pod_that_was_prepared,
    side_car_that_restarts,
    container_that_restarts,
    workers_that_end_after_the_last_step,
    workers_that_end_during_validation,
]
