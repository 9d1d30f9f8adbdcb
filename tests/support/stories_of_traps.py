"""Small jobs in which something else looks like the cause, or in which nothing has failed: errors
that were caught, retried or quoted, other jobs' files, ranks whose lines stand between each other's."""

from __future__ import annotations

import json

from stories import GPUS, Story

ONE = ("node-1",)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.1 GiB"


def _job(*modes: str, rank: int | None = None, host: str = "", until: float = 160.0) -> Story:
    story = Story(modes, rank, host, hosts=ONE)
    story.steps(until)
    return story


def _lost(story: Story, rank: int, second: float) -> Story:
    for other in story.others(rank):
        story.closed(other, second + other * 0.1, story.host_of(rank))
    return story


def write_that_was_repeated() -> Story:
    """A full disk, of which the program says that it tries again; a quota ends the job."""
    story = Story(("disk_quota",), 6, hosts=ONE)
    story.put(story.err(0), 90, f"{story.clock(90)} wandb: ERROR [Errno 28] No space left on device, retrying")  # fmt: skip
    story.traceback(6, 150, "OSError: [Errno 122] Disk quota exceeded")
    for rank in story.others(6):
        story.timeout(rank, 751)
    return story


def gradients_that_were_numbers_again() -> Story:
    """A norm of inf that was skipped long before hides none that a rank finds later."""
    story = _job("nan_grad_norm", rank=3)
    story.put(story.out(7), 80.5, f"{story.clock(80.5)} [rank7] step 5 | loss 2.9 | grad_norm: inf")
    story.traceback(3, 161, "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication collective.")  # fmt: skip
    return _lost(story, 3, 163)


def loader_of_a_known_rank() -> Story:
    """The kernel kills a child of a rank: its pid is in the rank's own error."""
    story = _job("host_oom_kernel", rank=3, host="node-1")
    story.nccl_init()
    story.dmesg("node-1", (160.0, "Out of memory: Killed process 8871 (pt_data_worker) total-vm:6849kB, anon-rss:3398kB, file-rss:0kB, shmem-rss:0kB, UID:1001"))  # fmt: skip
    story.traceback(3, 161, "RuntimeError: DataLoader worker (pid 8871) is killed by signal: Killed. ")  # fmt: skip
    return _lost(story, 3, 163)


def _ended_together(story: Story, before: str, error: str, odd: int) -> Story:
    """All ranks write to one file, one line of each at a time."""
    path = "slurm-81.out"
    for rank in range(GPUS):
        for step in range(1, 12):
            story.put(
                path, 50 + step, f"{rank}: {story.clock(50 + step)} step {step} loss 2.{step}"
            )
    lines = [
        before,
        "Traceback (most recent call last):",
        '  File "/v/torch/utils/data/dataloader.py", line 1604, in __del__',
        "    self._shutdown_workers()",
        error,
    ]
    for number, line in enumerate(lines):
        for rank in range(GPUS):
            said = line if rank == odd or odd < 0 else f"{story.clock(70 + number)} waiting"
            story.put(path, 70 + number, f"{rank}: {said}")
    return story


def destructors_at_the_end() -> Story:
    """Python ignores an exception of a destructor, whoever writes between its lines."""
    ignored = "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f1>"
    return _ended_together(Story((), hosts=ONE), ignored, "AssertionError: can only test a child process", -1)  # fmt: skip


def exception_between_the_lines_of_others() -> Story:
    story = Story(("python_error",), 5, hosts=ONE)
    return _ended_together(story, f"{story.clock(70)} saving", "ShardError: shard 12 is gone", 5)


def earlier_job_in_the_same_folder() -> Story:
    """The last job's file begins with lines that have no clock: it is still the last one."""
    story = Story(("checkpoint_corrupt",), 5, hosts=ONE)
    for step in range(1, 12):
        story.put("slurm-80.out", step - 39_600.0, f"0: {story.clock(step - 39_600.0)} step {step} loss 2.1")  # fmt: skip
    story.put("slurm-80.out", -39_500.0, "0: [rank0]: OSError: [Errno 28] No space left on device", f"slurmstepd: error: *** STEP 80.0 ON node-1 CANCELLED AT {story.at(-39_499):%Y-%m-%dT%H:%M:%S} ***")  # fmt: skip
    for rank in range(GPUS):
        story.put("slurm-81.out", 1, *[f"{rank}: node-1:{story.pid(rank)}:9 [{rank}] NCCL INFO Channel {n:02d}/0 : {rank}[{rank}] -> 1[1] via P2P/CUMEM/read" for n in range(200)])  # fmt: skip
        story.put("slurm-81.out", 30, f"{rank}: {story.clock(30)} INFO loading shard {rank}")
    story.put("slurm-81.out", 41, "5: [rank5]: RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory")  # fmt: skip
    story.put("slurm-81.out", 60, "srun: error: node-1: task 5: Exited with exit code 1", f"slurmstepd: error: *** STEP 81.0 ON node-1 CANCELLED AT {story.at(60):%Y-%m-%dT%H:%M:%S} ***")  # fmt: skip
    return story


def steps_after_very_many_other_lines() -> Story:
    """What NCCL says of its start is more than all steps: that the job did them is still known."""
    story = Story(("python_error",), 5, hosts=ONE)
    prefix = "slurm-82.out"
    for rank in range(GPUS):
        story.put(prefix, 1, *[f"{rank}: node-1:{story.pid(rank)}:9 [{rank}] NCCL INFO NET/IB : Using [{n}]mlx5_{n}:1/IB" for n in range(60)])  # fmt: skip
        for step in range(1, 40):
            story.put(prefix, 20 + step * 5, f"{rank}: {story.clock(20 + step * 5)} step {step} loss 2.1")  # fmt: skip
    story.put(prefix, 41, f"2: {story.clock(41)} [rank2]: OSError: [Errno 28] No space left on device")  # fmt: skip
    story.put(prefix, 230, "5: Traceback (most recent call last):", '5:   File "/w/t.py", line 9, in f', "5: ShardError: shard 12 is gone")  # fmt: skip
    return story


def clients_of_a_server_that_hangs() -> Story:
    """SGLang's watchdog ends the server; the trainers say only that it has gone."""
    story = _job("sglang_watchdog_timeout", rank=3)
    story.put("sglang.log", 100, f"[{story.at(100):%Y-%m-%d %H:%M:%S} TP0] Decode batch. #running-req: 9, gen throughput (token/s): 812.1")  # fmt: skip
    story.put("sglang.log", 460, f"[{story.at(460):%Y-%m-%d %H:%M:%S} TP3] Watchdog timeout (self.watchdog_timeout=300)", f"[{story.at(465):%Y-%m-%d %H:%M:%S}] Received sigquit from a child process. It usually means the child failed.")  # fmt: skip
    for rank in range(GPUS):
        story.traceback(rank, 466, "aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected")  # fmt: skip
    return story


def client_whose_server_refuses() -> Story:
    """The same kind of error where no server has failed in the logs: it is the cause."""
    story = _job("python_error", rank=5)
    story.traceback(5, 161, "ConnectionRefusedError: [Errno 111] Connection refused")
    for rank in story.others(5):
        story.timeout(rank, 761)
    return story


def _push(story: Story, until: float) -> Story:
    story.steps(until)
    error = "ConnectionRefusedError: [Errno 111] Connection refused"
    story.put(story.err(2), 100, f"{story.clock(100)} ERROR metrics: push failed: {error}")
    story.traceback(2, 100, error)
    lines = story.lines[story.err(2)]
    story.lines[story.err(2)] = [(at, line.removeprefix("[rank2]: ")) for at, line in lines]
    return story


def logged_exception() -> Story:
    """A logger writes an exception below its line: the line's clock is the exception's."""
    return _push(Story((), hosts=ONE), 400)


def logged_exception_that_was_the_last() -> Story:
    return _push(Story(("python_error",), 2, hosts=ONE), 101)


def samples_that_quote_errors() -> Story:
    """What a model is asked, and answers, is nothing that the job says of itself."""
    story = Story((), hosts=ONE)
    for rank in range(GPUS):
        story.put(story.out(rank), 60, f"{story.clock(60)} [rank{rank}] sample 1: prompt='Why RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB?' answer='Too little memory.'")  # fmt: skip
        story.put(story.out(rank), 61, f"{story.clock(61)} [rank{rank}] sample 2: question=\"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\"")  # fmt: skip
    return story


def error_that_names_its_prompt() -> Story:
    story = Story(("cuda_oom",), 4, hosts=ONE)
    story.put(story.err(4), 60, f"{story.clock(60)} [rank4] ERROR generation failed: {OOM} prompt='hello'")  # fmt: skip
    return story


def same_failure_in_each_attempt() -> Story:
    """Restarted from its checkpoint, the job fails at the same step again: since the first time."""
    story = Story(("cuda_oom",), 3, "node-1", hosts=ONE)
    for attempt in range(3):
        begin = 60.0 + 400 * attempt
        story.steps(begin + 100, begin=begin, attempt=attempt)
        story.traceback(3, begin + 101, OOM, attempt=attempt)
        for rank in story.others(3):
            story.closed(rank, begin + 103, "node-1", attempt=attempt)
        story.torchrun("node-1", begin + 110, 1, code=-6, left=2 - attempt, attempt=attempt)
    return story


def batches_that_were_skipped() -> Story:
    """Three ranks have caught the error that ends the job on a fourth."""
    story = _job("cuda_oom", rank=6, until=300)
    for rank in (1, 2, 4):
        story.traceback(rank, 100 + rank, OOM)
        story.put(story.err(rank), 101 + rank, f"[rank{rank}]: {story.clock(101 + rank)} WARNING out of memory: skipping the batch")  # fmt: skip
    story.traceback(6, 301, OOM)
    for rank in story.others(6):
        story.timeout(rank, 901)
    return story


def watchdog_that_is_stuck() -> Story:
    """It ends its own process; the others have lost a peer."""
    story = _job("nccl_heartbeat_stuck", rank=5)
    story.put(story.err(5), 640, f"[rank5]:[E{story.glog(640)} ProcessGroupNCCL.cpp:1537] [PG ID 0 PG GUID 0(default_pg) Rank 5] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.")  # fmt: skip
    return _lost(story, 5, 702)


def workers_that_are_replaced() -> Story:
    """Ray kills workers now and then, and the job does its steps in spite of that."""
    story = _job(until=400)
    for second in (100, 250, 399):
        story.put("driver.log", second, f"(raylet, ip=10.9.0.1) [{story.clock(second)} E 99 99] (raylet) node_manager.cc:3219: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: ab12, IP: 10.9.0.1)")  # fmt: skip
    return story


def pod_that_has_finished_since() -> Story:
    """The last state but one was OOMKilled, before the job began anew and finished."""
    story = _job(until=200)
    for rank in range(GPUS):
        story.put(story.out(rank), 210, f"{story.clock(210)} [rank{rank}] training finished")
    story.put(
        "describe.txt", 0, "Name:             node-1", "Containers:", "  pytorch:",
        "    State:          Terminated", "      Reason:       Completed", "      Exit Code:    0",
        f"      Finished:     {story.at(215):%a, %d %b %Y %H:%M:%S} +0000",
        "    Last State:     Terminated", "      Reason:       OOMKilled", "      Exit Code:    137",
        f"      Finished:     {story.at(-300):%a, %d %b %Y %H:%M:%S} +0000",
    )  # fmt: skip
    return story


def record_with_the_name_of_its_host() -> Story:
    """Structured logs: the rank and the host are fields."""
    story = Story(("cuda_oom",), 5, "js1", hosts=ONE)

    def put(rank: int, second: float, message: str) -> None:
        fields = {"ts": f"{story.at(second):%Y-%m-%dT%H:%M:%S}Z", "rank": rank, "host": "js1"}
        story.put(f"logs/rank-{rank:03d}.jsonl", second, json.dumps({**fields, "msg": message}))

    for rank in range(GPUS):
        for step in range(1, 10):
            put(rank, 60.0 + step, f"step {step} loss 2.{step}")
    put(5, 80, OOM)
    return story


STORIES_OF_TRAPS = [
    write_that_was_repeated,
    gradients_that_were_numbers_again,
    loader_of_a_known_rank,
    destructors_at_the_end,
    exception_between_the_lines_of_others,
    earlier_job_in_the_same_folder,
    steps_after_very_many_other_lines,
    clients_of_a_server_that_hangs,
    client_whose_server_refuses,
    logged_exception,
    logged_exception_that_was_the_last,
    samples_that_quote_errors,
    error_that_names_its_prompt,
    same_failure_in_each_attempt,
    batches_that_were_skipped,
    watchdog_that_is_stuck,
    workers_that_are_replaced,
    pod_that_has_finished_since,
    record_with_the_name_of_its_host,
]
