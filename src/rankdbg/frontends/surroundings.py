"""Where a job runs: how its nodes do, and what their kernels have said meanwhile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.logs.patterns import FileScan, Hit, Pattern
from rankdbg.logs.places import LogFile
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.verdicts.log_lines import CLOCK, read_stamp, year_of

Told = dict[str, dict[str, Any] | RankdbgError]

# Killed process 4711 (python); oom-kill: …,pid=4711; Xid (…): 31, pid=4711; python[4711]: segfault
_PID = re.compile(r"(?:Killed process |\bpid[= ]'?|kernel: [\w.:/-]+\[)(\d+)")


def kernel_scans(health: Mapping[str, Any], ranks: Sequence[Rank]) -> list[FileScan]:
    """Messages of kernels as those of log files, each of the rank that it is about."""
    made = []
    for node, told in health.items():
        if isinstance(told, RankdbgError):
            continue
        numbers = {rank.pid: rank.number for rank in ranks if rank.host == node}
        by_pid: dict[int | None, list[Hit]] = {}
        for pid, hit in _with_pids(told["kernel"]):
            ours = pid if told["own_pids"] and pid in numbers else None
            by_pid.setdefault(ours, []).append(hit)
        for pid, hits in by_pid.items():
            number = numbers.get(pid) if pid is not None else None
            path = f"kernel log of {node}" + (f", pid {pid}" if pid is not None else "")
            whose = () if number is None else (number,)
            file = LogFile(node, path, "kernel", ranks=whose, pid=pid)
            made.append(FileScan(path, tuple(hits), file=file))
    return made


def _with_pids(hits: Sequence[Hit]) -> list[tuple[int | None, Hit]]:
    """Whom each message is about. What is said in the same second before the process is named
    is about that process: that the OOM killer was called comes pages before whom it chose."""
    made: list[tuple[int | None, Hit]] = []
    pid, stamp = None, ""
    for hit in reversed(hits):
        if found := _PID.search(hit.text):
            pid, stamp = int(found[1]), hit.stamp
        made.append((pid if hit.stamp == stamp else None, hit))
    return made[::-1]


def while_written(kernel: FileScan, scans: Sequence[FileScan], slack: float) -> FileScan:
    """What a kernel said `slack` seconds before the first line of all logs was about another job."""
    year = year_of([*scans, kernel])
    stamps = [hit.stamp for scan in scans for hit in scan.hits if hit.stamp]
    stamps += [found[0] for scan in scans if (found := re.search(CLOCK, scan.beginning))]
    times = [read_stamp(stamp, year) for stamp in stamps]
    first = min((time for time in times if time is not None), default=0.0) - slack
    hits = [hit for hit in kernel.hits if (read_stamp(hit.stamp, year) or 0.0) >= first]
    return replace(kernel, hits=tuple(hits))


def look_around(
    session: Session, patterns: Sequence[Pattern], within: float, places: Sequence[str]
) -> tuple[Told, Told]:
    """Of each node what Session.health() and Session.gpus() tell."""
    failures = [pattern for pattern in patterns if not pattern.name.startswith("phase:")]
    return session.health(failures, within, places), session.gpus()
