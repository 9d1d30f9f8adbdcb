"""Breaks in files that lie elsewhere on the ranks' side than here."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rankdbg.frontends import local_files
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank, Silence


def set_break(
    session: Session, ranks: Sequence[Rank], file: str, line: int, condition: str, log: str
) -> list[Answer | Silence]:
    """A path of this machine that the ranks do not have may be a file of theirs with the same
    content: then that is meant."""
    what = line, condition, log
    answers = session.set_break(ranks, session.maps.remote(file), *what)
    found: dict[ProcessKey, Answer | Silence] = {}
    for theirs, those in _same_content(session, answers, file).items():
        found.update({a.rank.process: a for a in session.set_break(those, theirs, *what)})
    return [found.get(answer.rank.process, answer) for answer in answers]


def clear_breaks(
    session: Session, ranks: Sequence[Rank], file: str | None, line: int | None
) -> list[Answer | Silence]:
    if file is None:
        return session.clear_breaks(ranks)
    answers = session.clear_breaks(ranks, session.maps.remote(file), line)
    if not os.path.isabs(file) or any(
        isinstance(a, Answer) and a.value["cleared"] for a in answers
    ):
        return answers
    # It was set by its path here, and is known there by another: the one with that name.
    theirs = {
        entry["file"]
        for answer in session.breaks(ranks)
        if isinstance(answer, Answer)
        for entry in answer.value["breaks"]
        if entry["line"] == line and os.path.basename(entry["file"]) == os.path.basename(file)
    }
    return session.clear_breaks(ranks, theirs.pop(), line) if len(theirs) == 1 else answers


def _same_content(
    session: Session, answers: Sequence[Answer | Silence], file: str
) -> dict[str, list[Rank]]:
    """The files of ranks, by ranks that have no such file, which are the one that is here."""
    if not (os.path.isabs(file) and os.path.isfile(file)):
        return {}
    lost = [a for a in answers if isinstance(a, Answer) and a.value["state"] == "no file"]
    candidates: dict[str, list[Rank]] = defaultdict(list)
    for answer in lost:
        for theirs in answer.value["files"]:
            if os.path.basename(theirs) == os.path.basename(file):
                candidates[theirs].append(answer.rank)
    ours = local_files.digest(Path(file)) if candidates else ""
    same: dict[str, list[Rank]] = {}
    for theirs, ranks in candidates.items():
        digests = session.source_digests(ranks, theirs)
        equal = [a.rank for a in digests if isinstance(a, Answer) and a.value["digest"] == ours]
        if equal:
            same[theirs] = equal
    return same
