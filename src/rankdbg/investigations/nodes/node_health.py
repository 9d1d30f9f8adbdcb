"""Node health: the state of a job's nodes, and the messages of their kernels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.logs.patterns import FileScan, Hit, Pattern, PatternSet
from rankdbg.logs.places import LogFile
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.verdicts.failures import oom_kills
from rankdbg.verdicts.failures.log_lines import CLOCK, read_stamp, year_of
from rankdbg.wire.decoding import BadField, decode
from rankdbg.wire.node_answers import GpuFigures, NodeFigures

Healths = Mapping[str, NodeFigures | RankdbgError]
Gpus = Mapping[str, GpuFigures | RankdbgError]

DAY = 86_400.0  # seconds
_PID_IN_LOG = re.compile(r"\bpid[:= ]{1,3}'?(\d+)")
# Killed process 4711 (python); oom-kill: …,pid=4711; Xid (…): 31, pid=4711; python[4711]: segfault
_PID = re.compile(r"(?:Killed process |\bpid[= ]'?|kernel: [\w.:/-]+\[)(\d+)")


class KernelMessages(NamedTuple):
    scans: list[FileScan]  # like those of log files, each with the rank that it concerns
    hints: list[str]  # OOM kills that may belong to another job, a line for each node


def read_kernels(
    health: Healths, ranks: Sequence[Rank], scans: Sequence[FileScan] = ()
) -> KernelMessages:
    """Without OOM kills of other jobs. `scans`: of the logs, which may name more processes of the
    job."""
    made, hints = [], []
    logged = _pids_in(scans)
    by_host: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        by_host[rank.host].append(rank)
    for node, told in health.items():
        if isinstance(told, RankdbgError):
            continue
        numbers = {rank.pid: rank.number for rank in by_host.get(node, ())}
        ours, unknown = _of_this_job(told, {*numbers} | logged)
        if unknown:
            hints.append(f"{node}: {_hint([*unknown.values()])}")
        by_pid: dict[int | None, list[Hit]] = {}
        for pid, hit in ours:
            known = pid if told.own_pids and pid in numbers else None
            by_pid.setdefault(known, []).append(hit)
        for pid, hits in by_pid.items():
            number = numbers.get(pid) if pid is not None else None
            path = f"kernel log of {node}" + (f", pid {pid}" if pid is not None else "")
            whose = () if number is None else (number,)
            file = LogFile(node, path, "kernel", ranks=whose, pid=pid)
            made.append(FileScan(path, tuple(hits), file=file))
    return KernelMessages(made, hints)


_Message = tuple[int | None, Hit]  # the process that it concerns


def _of_this_job(
    told: NodeFigures, pids: Collection[int]
) -> tuple[list[_Message], dict[int | None, list[Hit]]]:
    """Messages that do not concern other jobs, and kills for which that is unknown, by pid."""
    messages = _with_pids(told.kernel)
    kills: dict[int | None, list[Hit]] = {}
    for pid, hit in messages:
        if oom_kills.is_kill(hit.text):
            kills.setdefault(pid, []).append(hit)
    visible = pids if told.own_pids else ()
    whose = {
        pid: oom_kills.whose_kill([hit.text for hit in hits], pid, visible, told.job)
        for pid, hits in kills.items()
    }
    ours = [
        (pid, hit)
        for pid, hit in messages
        if whose.get(pid, "ours") == "ours" or not oom_kills.is_kill(hit.text)
    ]
    return ours, {pid: kills[pid] for pid, who in whose.items() if who == "unknown"}


def _hint(kills: Sequence[Sequence[Hit]]) -> str:
    """Of one, or of the last of several."""
    hits = max(kills, key=lambda hits: hits[-1].stamp)
    told = next((hit for hit in hits if "Killed process" in hit.text), hits[-1]).text.strip()
    if len(kills) == 1:
        return f"an OOM kill that may belong to another job: {told}"
    return f"{len(kills)} OOM kills that may belong to other jobs, the last: {told}"


def _pids_in(scans: Sequence[FileScan]) -> set[int]:
    """Processes that launchers report as dead."""
    texts = [hit.text for scan in scans for hit in scan.hits]
    return {int(found[1]) for text in texts for found in _PID_IN_LOG.finditer(text)}


def _with_pids(hits: Sequence[Hit]) -> list[tuple[int | None, Hit]]:
    """Adds the process that each message concerns. Messages in the same second before the process
    is named concern it too: an OOM report is many lines long and names its victim at the end."""
    made: list[tuple[int | None, Hit]] = []
    pid, stamp = None, ""
    for hit in reversed(hits):
        if found := _PID.search(hit.text):
            pid, stamp = int(found[1]), hit.stamp
        made.append((pid if hit.stamp == stamp else None, hit))
    return made[::-1]


def while_written(kernel: FileScan, scans: Sequence[FileScan], slack: float) -> FileScan:
    """Kernel messages more than `slack` seconds before the first log line concern another job."""
    year = year_of([*scans, kernel])
    stamps = [hit.stamp for scan in scans for hit in scan.hits if hit.stamp]
    stamps += [found[0] for scan in scans if (found := re.search(CLOCK, scan.beginning))]
    times = [read_stamp(stamp, year) for stamp in stamps]
    first = min((time for time in times if time is not None), default=0.0) - slack
    hits = [hit for hit in kernel.hits if (read_stamp(hit.stamp, year) or 0.0) >= first]
    return replace(kernel, hits=tuple(hits))


def look_around(
    session: Session,
    patterns: Sequence[Pattern],
    within: float,
    places: Sequence[str],
    ranks: Sequence[Rank],
) -> tuple[Healths, Gpus]:
    failures = [pattern for pattern in patterns if not pattern.name.startswith("phase:")]
    asked = [_by_literals(pattern) if pattern.foreign else pattern for pattern in failures]
    health = session.health(asked, within, places, ranks)
    known = PatternSet(pattern for pattern in failures if pattern.foreign)
    by_name = {pattern.name: pattern for pattern in failures if pattern.foreign}

    def read(node: str, told: NodeFigures | RankdbgError) -> NodeFigures | RankdbgError:
        if isinstance(told, RankdbgError):
            return told
        try:
            hits = [decode(Hit, hit, ".kernel") for hit in told.kernel]
        except BadField as error:
            return NodeFailed(f"invalid answer of {node} about its health: {error}")
        ours = (
            hit
            for hit in hits
            if hit.pattern not in by_name or _knows(known, by_name[hit.pattern], hit.text)
        )
        return replace(told, kernel=tuple(ours))

    return {node: read(node, told) for node, told in health.items()}, session.gpus()


def read_health(
    session: Session, patterns: Sequence[Pattern], ranks: Sequence[Rank]
) -> tuple[Healths, Gpus]:
    """Of the nodes alone, without logs: with the kernels' messages of the last day."""
    return look_around(session, patterns, DAY, (), ranks)


def read_figures(session: Session, ranks: Sequence[Rank]) -> tuple[Healths, Gpus]:
    """Of the nodes alone, without the messages of their kernels: cheap enough for every few seconds."""
    return session.health((), 0.0, (), ranks), session.gpus()


def _by_literals(pattern: Pattern) -> Pattern:
    """A user's expression may never finish, and a node cannot confine it: expressions are applied
    to kernel messages locally."""
    return replace(pattern, match=tuple((literal, "") for literal, _ in pattern.match), unless=())


def _knows(known: PatternSet, pattern: Pattern, text: str) -> bool:
    literals = [literal.encode() for literal, _ in pattern.match if literal in text]
    return known.matches(pattern, literals, text)
