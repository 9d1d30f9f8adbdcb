"""Small jobs in which something happens again and again, and each time the job goes on, or in vain;
and what is beside a job and not of it."""

from __future__ import annotations

from stories import GPUS, Story

ONE = ("node-1",)
SAMPLE = "slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks have been OOM Killed."
TEMPLATE = "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user"
CORRUPT = "OSError: ZSTD decompression failed: Corrupted block detected (part-00019.parquet, row group 37)"


# --- that a job survives -----------------------------------------------------------------------------


def _samples(story: Story) -> Story:
    """Every twenty minutes the driver prints what the model has answered."""
    path = "driver.log"
    for second in range(60, 3700, 20):
        story.put(path, second, f"{story.clock(second)} [rank0] step {second // 20} | loss 2.1 | gnorm 0.5")  # fmt: skip
        if second % 1200 == 60:
            story.put(path, second + 5, "──────── sample (reward 1.0) ────────", SAMPLE)
    story.put(path, 3670, SAMPLE)
    return story


def answers_that_look_like_failures() -> Story:
    """After the last one the log ends within a step."""
    story = _samples(Story((), hosts=ONE))
    story.put("driver.log", 3685, f"{story.clock(3685)} [rank0] step 185 | loss 2.1 | gnorm 0.5")
    return story


def failure_after_answers_that_look_like_it() -> Story:
    story = _samples(Story(("cgroup_oom_slurm",), 3, "node-1", hosts=ONE))
    story.put("driver.log", 3672, "srun: error: node-1: task 3: Out Of Memory")
    return story


def _requests(story: Story, last: int) -> Story:
    """A server that refuses a request now and then, and serves the others."""
    path = "vllm-1.log"

    def put(second: float, level: str, place: str, text: str, process: str = "APIServer pid=1") -> None:  # fmt: skip
        clock = f"{story.at(second):%m-%d %H:%M:%S}"
        story.put(path, second, f"({process}) {level} {clock} [{place}] {text}")

    for second in range(60, last, 10):
        put(second, "INFO", "loggers.py:127", "Engine 000: Avg prompt throughput: 812.1 tokens/s, Avg generation throughput: 231.4 tokens/s")  # fmt: skip
    for second in (205, 1505, 3005, last - 15):
        for text in ("Traceback (most recent call last):", '  File "/v/serving_chat.py", line 210, in create', TEMPLATE):  # fmt: skip
            put(second, "ERROR", "serving_chat.py:231", text)
    return story


def requests_that_a_server_refuses() -> Story:
    """Seconds before its end, too, which has another reason."""
    story = _requests(Story(("cuda_oom",), hosts=ONE), 3600)
    clock = f"{story.at(3600):%m-%d %H:%M:%S}"
    story.put("vllm-1.log", 3600, f"(EngineCore_DP0 pid=181) ERROR {clock} [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", f"(EngineCore_DP0 pid=181) ERROR {clock} [core.py:710] EngineCore encountered a fatal error.")  # fmt: skip
    return story


def requests_that_a_healthy_server_refuses() -> Story:
    return _requests(Story((), hosts=ONE), 3600)


def start_of_ranks_that_write_no_more() -> Story:
    """The driver does the steps: what launchers have said of the ranks at the start is long over."""
    story = Story((), hosts=ONE)
    for rank in range(GPUS):
        story.put("driver.log", 10, f"(Worker pid={7000 + rank}) node-1:{7000 + rank}:7 [{rank}] NCCL INFO Bootstrap: Using eth0:10.9.0.1<0>")  # fmt: skip
    for second in range(60, 3700, 20):
        story.put("driver.log", second, f"[titan] {story.clock(second)} - root - INFO - step: {second // 20:2}  loss:  8.1000  memory:  4.80GiB(6.00%)  tps: 20")  # fmt: skip
    return story


# --- in vain --------------------------------------------------------------------------------------


def _three_attempts(story: Story, third: float) -> Story:
    """Two attempts end with the same error of one rank, the third with a kill of another."""
    for attempt, begin, until in ((0, 60.0, 400.0), (1, 500.0, 840.0), (2, 940.0, third)):
        story.steps(until, begin, attempt)
        if attempt < 2:
            for other in story.others(5):
                retry = f"{story.clock(begin + 50)} WARNING rank{other} read took 9 s (retry 1/3): OSError: [Errno 5] Input/output error"  # fmt: skip
                story.put(story.err(other, attempt), begin + 50, retry)
            story.traceback(5, until + 1, CORRUPT, attempt=attempt)
            story.torchrun("node-1", until + 3, 5, attempt=attempt, left=2 - attempt)
    story.traceback(2, third + 1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", attempt=2)  # fmt: skip
    story.torchrun("node-1", third + 3, 2, attempt=2)
    return story


def error_of_two_attempts() -> Story:
    """The last one has not come as far."""
    return _three_attempts(Story(("python_error",), 5, "node-1", hosts=ONE), 1050.0)


def error_that_the_last_attempt_has_passed() -> Story:
    return _three_attempts(Story(("cuda_oom",), 2, "node-1", hosts=ONE), 1700.0)


# --- whose it is ------------------------------------------------------------------------------------


def monitor_that_the_kernel_has_killed() -> Story:
    """Half an hour before the session of the launcher was closed."""
    story = Story(("torchrun_sighup",), host="node-1")
    story.steps(2400, ranks=range(16))
    story.put("node-2/kern.log", 600, f"{story.at(600):%b %e %H:%M:%S} node-2 kernel: [917279.200000] Memory cgroup out of memory: Killed process 51877 (node_exporter) total-vm:1240012kB, anon-rss:65120kB, file-rss:0kB, shmem-rss:0kB, UID:65534")  # fmt: skip
    story.put("node-1/torchrun.log", 2402, f"W{story.at(2402):%m%d %H:%M:%S}.120000 611 torch/distributed/elastic/agent/server/api.py:723] Received 1 death signal, shutting down workers")  # fmt: skip
    for rank in range(8, 16):
        story.closed(rank, 2404, "node-1")
    return story


def limit_of_a_step_that_names_no_host() -> Story:
    """The one rank that has lost a child says where; the launcher has killed the others."""
    story = Story(("cgroup_oom_slurm",), 11, "node-2")
    story.steps(300)
    story.traceback(11, 301, "RuntimeError: DataLoader worker (pid 91877) is killed by signal: Killed. ")  # fmt: skip
    for rank in range(8):
        story.closed(rank, 303, "node-2")
    story.put("slurm-7.out", 310, "srun: error: node-1: tasks 0-7: Killed", "srun: error: node-2: tasks 8-15: Killed", SAMPLE)  # fmt: skip
    return story


def host_with_another_nccl() -> Story:
    """Each rank prints its own version and that of one that differs."""
    hosts = ("node-1", "node-2", "node-3", "node-4")
    story = Story(("nccl_version_mismatch",), host="node-3", hosts=hosts)
    for rank in range(story.world):
        host, pid = story.host_of(rank), story.pid(rank)
        own, other = ("22602", "rank 0 version 22703") if host == "node-3" else ("22703", "rank 16 version 22602")  # fmt: skip
        story.put(story.err(rank), 30, f"{host}:{pid}:{pid + 9} [{rank % GPUS}] init.cc:1003 NCCL WARN Mismatched NCCL version detected : rank {rank} version {own} {other}")  # fmt: skip
        story.traceback(rank, 31, "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:94, invalid usage, NCCL version 2.27.3")  # fmt: skip
    return story


STORIES_OF_REPEATS = [
    answers_that_look_like_failures,
    failure_after_answers_that_look_like_it,
    requests_that_a_server_refuses,
    requests_that_a_healthy_server_refuses,
    start_of_ranks_that_write_no_more,
    error_of_two_attempts,
    error_that_the_last_attempt_has_passed,
    monitor_that_the_kernel_has_killed,
    limit_of_a_step_that_names_no_host,
    host_with_another_nccl,
]
