"""Small jobs whose processes write two files each, and have clocks in only one of them."""

from __future__ import annotations

from collections.abc import Callable

from stories import GPUS, Story

ONE = ("node-1",)
LOGS = "session_latest/logs"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79.1 GiB"
SEGFAULT = (
    "Fatal Python error: Segmentation fault",
    "",
    "Thread 0x00007f11 (most recent call first):",
    '  File "/v/threading.py", line 359 in wait',
    "",
    "Current thread 0x00007f00 (most recent call first):",
    '  File "/work/decode.py", line 88 in decode',
)
RAISED = ("Traceback (most recent call last):", '  File "/work/train.py", line 88, in step', OOM)
Name = Callable[[int], str]  # of a rank's files, with {} for the stream


def _ray(rank: int, run: int = 0) -> str:
    return f"{LOGS}/worker-{rank:02x}{run}{'0' * 53}-01000000-{7000 + 1000 * run + rank}.{{}}"


def _slurm(rank: int) -> str:
    return f"logs/sft-88-{rank}.{{}}"


def _supervisor(rank: int) -> str:
    return f"logs/sampler{rank}.{{}}.log"


def _steps(story: Story, name: str, rank: int, begin: int, end: int) -> None:
    """On stdout with a clock; what goes to stderr has none."""
    story.put(name.format("err"), begin, "warnings.warn(old option, FutureWarning)")
    for number, second in enumerate(range(begin, end, 5)):
        story.put(name.format("out"), second, f"{story.clock(second)} [rank{rank}] step {begin // 5 + number} | loss 2.1 | gnorm 0.5")  # fmt: skip


def _with_restart(story: Story) -> Story:
    """An actor crashed at 200 s, and Ray has started it again; the others waited for it."""
    for rank in range(GPUS):
        _steps(story, _ray(rank), rank, 60, 200)
        if rank == 3:
            story.put(_ray(rank).format("err"), 200, *SEGFAULT)
            _steps(story, _ray(rank, 1), rank, 230, 600)
        else:
            _steps(story, _ray(rank), rank, 230, 600)
    return story


def crash_that_ray_has_overcome() -> Story:
    """Nothing has failed since."""
    return _with_restart(Story((), hosts=ONE))


def crash_that_ray_has_overcome_and_another_error() -> Story:
    story = _with_restart(Story(("cuda_oom",), 5, hosts=ONE))
    story.put(_ray(5).format("err"), 601, *RAISED)
    for rank in (0, 1, 2, 4, 6, 7):
        story.put(_ray(rank).format("err"), 603, f"node-1:{7000 + rank}:7 [{rank}] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer node-1<43121>")  # fmt: skip
    return story


def _beside_a_clock(name: Name) -> Story:
    """A rank that raised an exception has printed it without a clock. What another lost by it, and
    a file server that was away minutes before, have one."""
    story = Story(("cuda_oom",), 5, hosts=ONE)
    for rank in range(GPUS):
        _steps(story, name(rank), rank, 60, 500)
    story.put(name(5).format("err"), 500, *RAISED)
    for rank in (1, 2):
        story.put(name(rank).format("err"), 500, *SEGFAULT[:1])
        story.put(name(rank).format("out"), 520, f"{story.clock(520)} [rank{rank}] closing")
    return story


def exception_without_a_clock_of_slurm() -> Story:
    """srun says where a task was: the name of its file is that of the job."""
    story = _beside_a_clock(_slurm)
    story.host = "node-1"
    story.put("logs/sft-88.out", 503, "srun: error: node-1: task 5: Exited with exit code 1")
    return story


def exception_without_a_clock_of_a_supervisor() -> Story:
    return _beside_a_clock(_supervisor)


def exception_without_a_clock_of_torchrun() -> Story:
    return _beside_a_clock(lambda rank: f"run_x/attempt_0/{rank}/std{{}}.log")


STORIES_OF_OUTPUTS = [
    crash_that_ray_has_overcome,
    crash_that_ray_has_overcome_and_another_error,
    exception_without_a_clock_of_slurm,
    exception_without_a_clock_of_a_supervisor,
    exception_without_a_clock_of_torchrun,
]
