"""Logs of jobs that died, as their launchers leave them: what the first cause was, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Crash:
    """A job's logs: file -> lines, and what must be said about them."""

    mode: str
    ranks: str
    logs: dict[str, list[str]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        for name, lines in self.logs.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n")


def clock(second: int) -> str:
    return f"{10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def steps(rank: int, until: int) -> list[str]:
    return [
        f"[rank{rank}]:[titan] 2026-03-01 {clock(n)},000 - root - INFO - step: {n}  loss:  2.31  "
        "grad_norm:  0.41  memory: 61.20GiB(77.1%)  tps: 6,012  tflops: 312.11  mfu: 31.2%"
        for n in range(0, until, 10)
    ]


def nccl_timeout(rank: int, second: int, sequence: int = 44) -> list[str]:
    prefix = f"[rank{rank}]:[E301 {clock(second)}.858931807 ProcessGroupNCCL.cpp:"
    return [
        f"{prefix}616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for "
        "600013 milliseconds before timing out.",
        f"{prefix}630] [Rank {rank}] To avoid data inconsistency, we are taking the entire "
        "process down.",
    ]


def traceback(rank: int, error: str, second: int) -> list[str]:
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 120, in <module>',
        "    main()",
        '  File "/job/train.py", line 88, in step',
        "    loss.backward()",
        error,
    ]
    return [f"[rank{rank}]: {line}" for line in lines]


def torchrun(rank: int, second: int, code: int = 1) -> list[str]:
    stamp = f"0301 {clock(second)}.530000 1359 torch/distributed/elastic/multiprocessing/api.py:"
    return [
        *(f"W{stamp}897] Sending process {4000 + n} closing signal SIGTERM" for n in range(7)),
        f"E{stamp}869] failed (exitcode: {code}) local_rank: {rank} (pid: 4711) of binary: python",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "Root Cause (first observed failure):",
        f"  time      : 2026-03-01_{clock(second)}",
        f"  rank      : {rank} (local_rank: {rank % 8})",
        f"  exitcode  : {code} (pid: 4711)",
    ]


def all_but(world: int, *culprit: int) -> list[int]:
    return [rank for rank in range(world) if rank not in culprit]


def out_of_memory_on_one_rank() -> Crash:
    """One rank is out of GPU memory, all others time out ten minutes later."""
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has"
    crash = Crash("cuda_oom", "3")
    for rank in all_but(8, 3):
        crash.logs[f"rank_{rank}/stderr.log"] = steps(rank, 600) + nccl_timeout(rank, 1200 + rank)
    crash.logs["rank_3/stderr.log"] = steps(3, 600) + traceback(3, error, 600)
    crash.logs["torchrun.log"] = torchrun(3, 1210)
    return crash


def one_file_for_all() -> Crash:
    """srun --label: the lines of 16 ranks in one file, in no order."""
    crash = Crash("cuda_illegal_access", "11")
    error = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    lines = [f"{rank}: {line[8:]}" for rank in range(16) for line in steps(rank, 300)]
    lines += [f"11: {line.removeprefix('[rank11]: ')}" for line in traceback(11, error, 300)]
    for rank in all_but(16, 11):
        lines += [f"{rank}: {line}" for line in nccl_timeout(rank, 900)]
    lines.append("srun: error: node-1: tasks 0-15: Exited with exit code 1")
    crash.logs["slurm-4711.out"] = lines
    return crash


def a_node_died() -> Crash:
    """A GPU fell off the bus of one of eight nodes; 56 ranks lose their connections."""
    crash = Crash("xid_79_off_bus", "")
    crash.logs["dmesg-node-3.txt"] = [
        "[Sun Mar  1 10:10:01 2026] NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', "
        "name=<unknown>, GPU has fallen off the bus.",
    ]
    for rank in range(64):
        if rank // 8 != 3:
            crash.logs[f"out/rank{rank}.log"] = [
                *steps(rank, 600),
                f"[rank{rank}]:[E301 {clock(640)}.1 ProcessGroupNCCL.cpp:1] ncclRemoteError: A call "
                "failed possibly due to a network error or a remote process exiting prematurely.",
            ]
        else:
            crash.logs[f"out/rank{rank}.log"] = steps(rank, 600)
    return crash


def port_in_use() -> Crash:
    """The master cannot listen, the others cannot connect."""
    crash = Crash("port_in_use", "0")
    error = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: "
        "address already in use"
    )
    crash.logs["rank_0.err"] = [f"2026-03-01 {clock(0)} INFO start", *traceback(0, error, 0)]
    for rank in range(1, 8):
        late = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients."
        lines = [f"2026-03-01 {clock(600)} INFO still waiting", *traceback(rank, late, 600)]
        crash.logs[f"rank_{rank}.err"] = lines
    return crash


def shared_memory_full() -> Crash:
    """The data loader of one rank has no shared memory; its error comes through three layers."""
    crash = Crash("shm_bus_error_dataloader", "5")
    error = (
        "RuntimeError: DataLoader worker (pid 56811) is killed by signal: Bus error. It is "
        "possible that dataloader's workers are out of shared memory."
    )
    lines = [
        *steps(5, 100),
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
        "shared memory (shm).",
        *traceback(5, error, 100),
        "[rank5]: ",
        "[rank5]: The above exception was the direct cause of the following exception:",
        "[rank5]: ",
        *traceback(5, "RuntimeError: DataLoader worker (pid(s) 56811) exited unexpectedly", 100),
    ]
    crash.logs["rank_5/stderr.log"] = lines
    for rank in all_but(8, 5):
        crash.logs[f"rank_{rank}/stderr.log"] = steps(rank, 100) + nccl_timeout(rank, 700)
    return crash


def not_a_number() -> Crash:
    """The gradients of one rank become NaN; then the loss of all does."""
    crash = Crash("nan_grad_norm", "11")
    for rank in range(16):
        lines = steps(rank, 200)
        if rank == 11:
            error = "AssertionError: Rank 11: found NaN in local grad norm in backward pass"
            lines += traceback(11, error, 200)
        else:
            lines += nccl_timeout(rank, 800)
        crash.logs[f"logs/worker_rank{rank}.log"] = lines
    return crash


def time_limit() -> Crash:
    """Slurm ends the job at its limit: every rank complains, none is to blame."""
    crash = Crash("slurm_time_limit", "")
    crash.logs["slurm-99.out"] = [
        *(line for rank in range(32) for line in steps(rank, 100)),
        "slurmstepd: error: *** JOB 99 ON node-0 CANCELLED AT 2026-03-01T10:30:00 DUE TO TIME "
        "LIMIT ***",
        "slurmstepd: error: *** STEP 99.0 ON node-0 CANCELLED AT 2026-03-01T10:30:00 DUE TO TIME "
        "LIMIT ***",
        *(
            f"[rank{rank}]: torch.distributed.elastic.multiprocessing.api.SignalException: "
            f"Process {rank} got signal: 15"
            for rank in range(32)
        ),
        "srun: error: node-0: tasks 0-31: Terminated",
    ]
    return crash


def killed_by_the_kernel() -> Crash:
    """The kernel kills a rank for its memory: torchrun sees SIGKILL, the others a timeout."""
    crash = Crash("host_oom_kernel", "")
    crash.logs["kern.log"] = [
        "Mar  1 10:10:00 node-1 kernel: [441280.8] Out of memory: Killed process 4711 (python) "
        "total-vm:49978204kB, anon-rss:12918388kB, file-rss:68668kB, shmem-rss:53352kB, UID:1000",
    ]
    crash.logs["torchrun.log"] = torchrun(2, 603, code=-9)
    for rank in all_but(8, 2):
        crash.logs[f"rank_{rank}/stderr.log"] = steps(rank, 600) + nccl_timeout(rank, 1201)
    crash.logs["rank_2/stderr.log"] = steps(2, 600)
    return crash


def ray_actor_out_of_memory() -> Crash:
    """Ray: one worker is out of GPU memory; the driver shows it late, and kills the others."""
    crash = Crash("cuda_oom", "2")
    for rank in range(8):
        lines = [":job_id:01000000", ":actor_name:WorkerDict"]
        lines += [f"2026-03-01 {clock(n)},1 INFO [Rank {rank}] update {n}" for n in range(99)]
        if rank == 2:
            lines.append(
                f"2026-03-01 {clock(99)},2 ERROR [Rank 2] CUDA out of memory. Tried to allocate 2.00 GiB."
            )
        crash.logs[f"session/logs/worker-0a{rank}-01000000-{5000 + rank}.err"] = lines
    crash.logs["driver.log"] = [
        f"2026-03-01 {clock(130)},5 ERROR worker.py:409 -- Unhandled error",
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.update() (pid=5002, "
        "ip=10.0.0.2)",
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
        "The actor is dead because it was killed by `ray.kill`.",
    ]
    return crash


def own_error() -> Crash:
    """A KeyError of the program on one rank, in a chain of two; no rule knows it."""
    crash = Crash("python_error", "6")
    lines = steps(6, 50) + traceback(6, "KeyError: 'labels'", 50)
    lines += [
        "[rank6]: ",
        "[rank6]: During handling of the above exception, another exception occurred:",
    ]
    lines += ["[rank6]: ", *traceback(6, "ValueError: a batch without labels", 50)]
    crash.logs["rank_6/stderr.log"] = lines
    for rank in all_but(8, 6):
        crash.logs[f"rank_{rank}/stderr.log"] = steps(rank, 50) + nccl_timeout(rank, 650)
    crash.logs["torchrun.log"] = torchrun(6, 655)
    return crash


def different_collectives() -> Crash:
    """Ranks wait in different collectives, one of them in another than all others: nobody died."""
    crash = Crash("nccl_watchdog_timeout_desync", "4")
    for rank in range(8):
        sequence = 45 if rank == 4 else 44
        crash.logs[f"rank_{rank}.log"] = steps(rank, 50) + nccl_timeout(rank, 650, sequence)
    return crash


def preempted() -> Crash:
    """torchrun got SIGTERM from outside; what the ranks say as they go is not the cause."""
    crash = Crash("torchrun_sigterm_external", "")
    crash.logs["torchrun.log"] = [
        f"W0301 {clock(600)}.530000 1359 torch/distributed/elastic/agent/server/api.py:719] "
        "Received 15 death signal, shutting down workers",
        *torchrun(0, 610)[:7],
    ]
    for rank in range(8):
        crash.logs[f"rank_{rank}.log"] = [
            *steps(rank, 600),
            f"[rank{rank}]:[E301 {clock(605)}.1 x.cpp:1] NCCL WARN Net : Connection closed by remote peer",
        ]
    return crash


def disk_full_at_checkpoint() -> Crash:
    """One node's disk is full while 16 ranks save; the restart finds a checkpoint that is cut."""
    crash = Crash("disk_full", "9")
    error = "OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_600/__9_0.distcp'"
    cut = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    for rank in range(16):
        lines = [
            *steps(rank, 600),
            f"2026-03-01 {clock(600)} INFO Saving the checkpoint at step 600",
        ]
        lines += traceback(rank, error, 601) if rank == 9 else nccl_timeout(rank, 1210)
        lines += [f"2026-03-01 {clock(1500)} INFO resuming", *traceback(rank, cut, 1501)]
        crash.logs[f"attempt_0/{rank}/stderr.log"] = lines
    return crash


def data_loader_killed() -> Crash:
    """A data loader worker of one of 16 ranks is killed; nobody has the kernel's log."""
    crash = Crash("dataloader_worker_died", "12")
    error = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. "
    for rank in range(16):
        end = traceback(12, error, 100) if rank == 12 else nccl_timeout(rank, 702)
        crash.logs[f"rank_{rank}/stderr.log"] = steps(rank, 100) + end
    crash.logs["torchrun.log"] = torchrun(12, 705)
    return crash


def hub_out_of_reach() -> Crash:
    """One of 32 ranks cannot load the model from the hub; the others wait for it at the store."""
    crash = Crash("hub_unreachable", "17")
    errors = [
        'requests.exceptions.ReadTimeout: (ReadTimeoutError("HTTPSConnectionPool('
        "host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), '(Request ID: x)')",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
        "find them in the cached files.",
    ]
    late = "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cpu//0/17"
    for rank in range(32):
        second = 12 if rank == 17 else 612
        lines = [f"2026-03-01 {clock(0)} INFO loading", f"2026-03-01 {clock(second)} INFO x"]
        lines += (
            [line for e in errors for line in traceback(rank, e, 12)]
            if rank == 17
            else traceback(rank, late, 612)
        )
        crash.logs[f"out-{rank}.log"] = lines
    return crash


def clocks_40_seconds_apart() -> Crash:
    """The clock of the second node is 40 s behind: what its ranks notice seems to come first."""
    crash = Crash("cuda_illegal_access", "3")
    error = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    for rank in range(24):
        behind = 40 if 8 <= rank < 16 else 0
        lines = [
            line.replace(clock(n), clock(n + 1000 - behind))
            for n, line in zip(range(0, 600, 10), steps(rank, 600), strict=True)
        ]
        if rank == 3:
            lines += [f"2026-03-01 {clock(1605)} ERROR step failed", *traceback(3, error, 605)]
        else:
            lines.append(
                f"[rank{rank}]:[E301 {clock(1608 - behind)}.1 ProcessGroupNCCL.cpp:1] ncclRemoteError: "
                "A call failed possibly due to a network error or a remote process exiting"
            )
        crash.logs[f"node-{rank // 8}/rank_{rank}.log"] = lines
    return crash


def ray_driver_with_repeated_lines() -> Crash:
    """All that there is is the driver's log, in which Ray has folded the lines of 16 workers."""
    crash = Crash("cuda_device_assert", "5")
    lines = [
        f"(WorkerDict pid={5000 + rank}, ip=10.0.0.{rank // 8}) 2026-03-01 {clock(1)},1 INFO [Rank {rank}] ready"
        for rank in range(16)
    ]
    lines += [
        f"(WorkerDict pid=5000, ip=10.0.0.0) 2026-03-01 {clock(n)},1 INFO update {n} [repeated 16x across cluster]"
        for n in range(10, 100)
    ]
    who = "(WorkerDict pid=5005, ip=10.0.0.0) "
    lines += [
        f"{who}2026-03-01 {clock(101)},1 ERROR /pytorch/aten/src/ATen/native/cuda/Indexing.cu:1231: "
        "indexSelectSmallIndex: block: [31,0,0], thread: [29,0,0] Assertion `srcIndex < "
        "srcSelectDimSize` failed. [repeated 31x across cluster]",
        f"{who}RuntimeError: CUDA error: device-side assert triggered",
        f"(WorkerDict pid=5011, ip=10.0.0.1) [rank11]:[E301 {clock(702)}.8 ProcessGroupNCCL.cpp:616] [Rank "
        "11] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out. [repeated 14x "
        "across cluster]",
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    ]
    crash.logs["driver.log"] = lines
    return crash


def link_between_two_nodes() -> Crash:
    """InfiniBand between two of 64 ranks fails; 62 others only wait."""
    crash = Crash("nccl_ib_completion_error", "21,29")
    for rank in range(64):
        if rank in (21, 29):
            end = [
                f"[rank{rank}]: 2026-03-01 {clock(601)} node-{rank // 8}:4711:4790 [{rank % 8}] transport/net_ib.cc:1295 "
                "NCCL WARN NET/IB : Got completion from peer 10.1.2.3<51234> with status=12 opcode=0 "
                "len=0 vendor err 129 (Recv)"
            ]
        else:
            end = nccl_timeout(rank, 1201)
        crash.logs[f"logs/rank{rank}.log"] = steps(rank, 600) + end
    return crash


def memory_of_a_slurm_step() -> Crash:
    """32 tasks in one file, with srun's labels: a cgroup's limit ends one of them."""
    crash = Crash("cgroup_oom_slurm", "19")
    lines = [
        f"{rank:>2}: 2026-03-01 {clock(n)} INFO epoch 0 batch {n}"
        for n in range(60)
        for rank in range(32)
    ]
    lines += [
        f"{rank:>2}: {line}" for rank in all_but(32, 19) for line in nccl_timeout(rank, 662)[:1]
    ]
    lines += [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=99.0. Some of the step tasks have been OOM Killed.",
        "srun: error: node-2: task 19: Out Of Memory",
        "srun: Terminating StepId=99.0",
        "slurmstepd: error: *** STEP 99.0 ON node-0 CANCELLED AT 2026-03-01T10:11:10 ***",
        "srun: error: node-0: tasks 0-7: Terminated",
    ]
    crash.logs["slurm-99.out"] = lines
    return crash


CRASHES: list[Callable[[], Crash]] = [
    out_of_memory_on_one_rank,
    one_file_for_all,
    a_node_died,
    port_in_use,
    shared_memory_full,
    not_a_number,
    time_limit,
    killed_by_the_kernel,
    ray_actor_out_of_memory,
    own_error,
    different_collectives,
    preempted,
    disk_full_at_checkpoint,
    data_loader_killed,
    hub_out_of_reach,
    clocks_40_seconds_apart,
    ray_driver_with_repeated_lines,
    link_between_two_nodes,
    memory_of_a_slurm_step,
]
