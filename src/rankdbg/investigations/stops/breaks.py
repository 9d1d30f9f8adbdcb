"""Breaks in files whose path on the nodes differs from the local path."""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rankdbg.investigations import local_files
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank, Reply, Silence
from rankdbg.wire.answers import BreakCounts, BreakPlace, ClearedBreaks

# Counters that show the progress of ranks, the best first.
COUNTS = ("step", "collective")
# How much longer than the last time it may take to tell all ranks a count, and how often that is
# tried again, each time with twice as much.
SPARE = 4
LEAST_SECONDS = 0.2
ATTEMPTS = 5


def set_break(
    session: Session, ranks: Sequence[Rank], file: str, line: int, condition: str, log: str
) -> list[Reply[BreakPlace]]:
    """If the ranks do not have a file with a local path, their file with the same content is
    used."""
    what = line, condition, log, True
    answers = session.set_break(ranks, session.maps.remote(file), *what)
    found: dict[ProcessKey, Reply[BreakPlace]] = {}
    for theirs, those in _same_content(session, answers, file).items():
        found.update({a.rank.process: a for a in session.set_break(those, theirs, *what)})
    answers = [found.get(answer.rank.process, answer) for answer in answers]
    _open_together(session, answers)
    return [_without_counts(answer) for answer in answers]


def open_gates(session: Session, ranks: Sequence[Rank], at_once: bool) -> None:
    """All ranks have the breakpoints of an editor now: open them at a count that none of the ranks
    has reached yet. At once if the ranks have no counter, or make no progress."""
    answers = [] if at_once or len(ranks) < 2 else _counts(session, ranks)
    kind = _common_count(answers) if answers else ""
    if kind:
        before, since = _farthest(answers, kind), time.monotonic()
        time.sleep(LEAST_SECONDS)  # to see whether the count increases
        if _farthest(_counts(session, ranks), kind) > before:
            return _open_at_count(session, ranks, kind, before, since)
    session.open_breaks(ranks, "", 0)


def _counts(session: Session, ranks: Sequence[Rank]) -> list[Reply[BreakCounts]]:
    return session.open_breaks(ranks, COUNTS[0], 0, measuring=True)


def _common_count(answers: Sequence[Reply[BreakPlace] | Reply[BreakCounts]]) -> str:
    """The best count that all ranks have, or ''."""
    told = [answer.value.counts or {} for answer in answers if isinstance(answer, Answer)]
    return next((kind for kind in COUNTS if all(kind in each for each in told)), "")


def _open_together(session: Session, answers: Sequence[Reply[BreakPlace]]) -> None:
    """All ranks have the break now; arm it at a count that none of them has reached yet. At once
    if a rank is already stopped or has no counter."""
    told = [a for a in answers if isinstance(a, Answer) and a.value.state in ("set", "waits")]
    armed = [answer for answer in told if answer.value.counts is not None]
    ranks = [answer.rank for answer in armed]
    if not ranks:
        return
    kind = _common_count(told) if len(ranks) > 1 else ""
    if kind:
        _open_at_count(session, ranks, kind, _farthest(armed, kind), time.monotonic())
    else:
        session.open_breaks(ranks, "", 0)


def _open_at_count(
    session: Session, ranks: Sequence[Rank], kind: str, before: int, since: float
) -> None:
    """`before`: the count at the time `since`."""
    begun = time.monotonic()
    now = _farthest(session.open_breaks(ranks, kind, 0, measuring=True), kind, before)
    seconds = time.monotonic() - begun
    rate = (now - before) / (time.monotonic() - since)
    for attempt in range(ATTEMPTS):
        spare = max(SPARE * seconds, LEAST_SECONDS) * 2**attempt
        count = now + 2**attempt + math.ceil(rate * spare)
        now = _farthest(session.open_breaks(ranks, kind, count), kind, now)
        if now < count:
            break
    session.confirm_breaks(ranks)


def _farthest(
    answers: Sequence[Reply[BreakPlace] | Reply[BreakCounts]], kind: str, at_least: int = 0
) -> int:
    counts = [answer.value.counts or {} for answer in answers if isinstance(answer, Answer)]
    return max([at_least, *(count.get(kind, 0) for count in counts)])


def _without_counts(answer: Reply[BreakPlace]) -> Reply[BreakPlace]:
    """Counts differ between ranks, and equal answers are grouped."""
    if isinstance(answer, Silence):
        return answer
    return replace(answer, value=replace(answer.value, counts=None))


def clear_breaks(
    session: Session, ranks: Sequence[Rank], file: str | None, line: int | None
) -> list[Reply[ClearedBreaks]]:
    if file is None:
        return session.clear_breaks(ranks)
    answers = session.clear_breaks(ranks, session.maps.remote(file), line)
    if not os.path.isabs(file) or any(isinstance(a, Answer) and a.value.cleared for a in answers):
        return answers
    # It was set by its local path, and has another path on the node: match by name.
    theirs = {
        entry.file
        for answer in session.breaks(ranks)
        if isinstance(answer, Answer)
        for entry in answer.value.breaks
        if entry.line == line and os.path.basename(entry.file) == os.path.basename(file)
    }
    return session.clear_breaks(ranks, theirs.pop(), line) if len(theirs) == 1 else answers


def _same_content(
    session: Session, answers: Sequence[Reply[BreakPlace]], file: str
) -> dict[str, list[Rank]]:
    """For ranks without that path: their file with the same content as the local one."""
    if not (os.path.isabs(file) and os.path.isfile(file)):
        return {}
    lost = [a for a in answers if isinstance(a, Answer) and a.value.state == "no file"]
    candidates: dict[str, list[Rank]] = defaultdict(list)
    for answer in lost:
        for theirs in answer.value.files:
            if os.path.basename(theirs) == os.path.basename(file):
                candidates[theirs].append(answer.rank)
    ours = local_files.digest(Path(file)) if candidates else ""
    same: dict[str, list[Rank]] = {}
    for theirs, ranks in candidates.items():
        digests = session.source_digests(ranks, theirs)
        equal = [a.rank for a in digests if isinstance(a, Answer) and a.value.digest == ours]
        if equal:
            same[theirs] = equal
    return same
