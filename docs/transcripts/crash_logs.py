"""Logs of jobs that have ended, as torchrun and torchtitan leave them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

BEGUN = datetime(2026, 3, 1, 10, 30)
RANKS, STEPS, OUT_OF_MEMORY = 8, 599, 3
TIMEOUT = 601.0  # seconds, from the last step to what NCCL says

TRACEBACK = """\
Traceback (most recent call last):
  File "/job/train.py", line 120, in <module>
    main()
  File "/job/train.py", line 88, in step
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity \
of 79.11 GiB of which 1.12 GiB is free. Process 41231 has 77.98 GiB memory in use."""


def write_crash(folder: Path) -> None:
    """Eight ranks train for ten minutes; then one runs out of memory, and the others wait for it."""
    for rank in range(RANKS):
        lines = [_titan(0, "Building 1-D device mesh with ['dp_shard'], [8]")]
        lines += [_titan(60 + step, _step(step)) for step in range(STEPS + 1)]
        end = 60 + STEPS
        lines += [_out_of_memory(end)] if rank == OUT_OF_MEMORY else _watchdog(rank, end + TIMEOUT)
        _write(folder / f"attempt_0/{rank}/stderr.log", lines)
    _write(folder / "torchrun.log", _torchrun())


def _titan(second: float, text: str) -> str:
    return f"[titan] {_time(second)},000 - root - INFO - {text}"


def _step(step: int) -> str:
    return f"step: {step:2}  loss:  2.31  memory: 61.20GiB(77.4%)  tps: 4,012  mfu: 38.12%"


def _time(second: float) -> str:
    return (BEGUN + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S")


def _out_of_memory(second: float) -> str:
    return f"[rank{OUT_OF_MEMORY}]: {_time(second)} {TRACEBACK}"


def _watchdog(rank: int, second: float) -> list[str]:
    now = (BEGUN + timedelta(seconds=second)).strftime("%m%d %H:%M:%S")
    begin = f"[rank{rank}]:[E{now}.858"
    return [
        f"{begin} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=7213, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, "
        "Timeout(ms)=600000) ran for 600858 milliseconds before timing out.",
        f"{begin} ProcessGroupNCCL.cpp:630] [Rank {rank}] To avoid data inconsistency, we are "
        "taking the entire process down.",
    ]


def _torchrun() -> list[str]:
    begun, ended = "W0301 10:29:58.000000 812", "E0301 10:51:05.000000 812"
    return [
        f"{begun} torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for "
        "each process to be 1 in default",
        f"{ended} torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) "
        "local_rank: 3 (pid: 904) of binary: /usr/bin/python3",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ]


def write_stall(folder: Path) -> None:
    """Eight ranks train; one does not log the last step of the others. A monitor writes on."""
    for rank in range(RANKS):
        done = STEPS - (rank == 2)
        lines = [_titan(60 + step, _step(step)) for step in range(1, done + 1)]
        _write(folder / f"attempt_0/{rank}/stderr.log", [f"[rank{rank}]:{line}" for line in lines])
    minutes = [f"{_time(60.0 * minute)} INFO gpu util 100" for minute in range(71)]
    _write(folder / "monitor.log", minutes)


def write_spans(folder: Path) -> None:
    """Structured logs of four ranks; rank 2 has not returned from its fifth step."""
    begun = datetime(2026, 3, 1, 8, 0, tzinfo=timezone.utc).timestamp()
    for rank in range(4):
        spans = [(0, "torch_distributed_init_start", {}), (25, "fwd_bwd_start", {"step": 5})]
        if rank != 2:
            spans += [(26, "fwd_bwd_end", {"step": 5}), (27, "Optimizer_end", {"step": 5})]
        records = [
            {
                "rank": rank,
                "source": "training",
                "pid": 100 + rank,
                **step,
                "time": begun + second,
                "time_us": int((begun + second) * 1_000_000),
                "log_type_name": name,
            }
            for second, name, step in spans
        ]
        name = f"training.global_rank_{rank}.20260301-080000-AB12CD.jsonl"
        _write(folder / "structured_logs" / name, [json.dumps(record) for record in records])


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
