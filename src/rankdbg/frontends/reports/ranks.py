"""From options to ranks, and from ranks to text: what most verbs begin and end with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rankdbg import selection
from rankdbg.frontends.terminal import Terminal
from rankdbg.session import Session, check_job
from rankdbg.types import Frame, Rank, Silence
from rankdbg.user_code import short_name


def choose(session: Session, options: argparse.Namespace) -> tuple[list[Rank], list[Rank]]:
    """The selected ranks, and all ranks of their job."""
    parsed = selection.parse(options.ranks)
    if options.everything:
        roster = session.roster(where=False)
        jobs = roster.jobs(everything=True)
        check_job(roster, jobs, options.job)
        members = [r for job, ranks in jobs.items() if options.job in (None, job) for r in ranks]
    else:
        members = session.job(options.job)
    warn_of_silent_nodes(session)
    return selection.pick(parsed, members), members


def warn_of_silent_nodes(session: Session) -> None:
    """Who runs there is not known, and so cannot be said to be silent."""
    for node, reason in session.silent_nodes.items():
        Terminal(sys.stderr).print(f"silent: node {node}  ({reason})")


def label(ranks: Iterable[Rank], among: Sequence[Rank], most: int = 30) -> str:
    """A set of ranks in few characters."""
    some = list(ranks)
    text = selection.format_ranks(some, among)
    if len(text) <= most:
        return text
    return f"{text[: most - 8].rpartition(',')[0]},… ({len(some)})"


def silent_lines(silent: Sequence[Silence], among: Sequence[Rank]) -> list[tuple[str, str]]:
    """Silences with the same reason on one line."""
    reasons: dict[str, list[Rank]] = {}
    for silence in silent:
        reasons.setdefault(silence.reason, []).append(silence.rank)
    return [(label(ranks, among), reason) for reason, ranks in reasons.items()]


def print_silent(terminal: Terminal, silent: Sequence[Silence], among: Sequence[Rank]) -> None:
    for ranks, reason in silent_lines(silent, among):
        terminal.print(f"silent: {terminal.bold(ranks)}  ({reason})")


def silent_json(silent: Sequence[Silence]) -> list[dict[str, Any]]:
    return [
        {"rank": s.rank.number, "pid": s.rank.pid, "host": s.rank.host, "reason": s.reason}
        for s in silent
    ]


def frame_json(frame: Frame | None) -> dict[str, Any] | None:
    return frame._asdict() if frame else None


class Paths:
    """File names as short as they can be without two files looking the same."""

    def __init__(self, files: Iterable[str]) -> None:
        distinct = sorted(set(files))
        names: dict[str, list[str]] = {}
        for file in distinct:
            names.setdefault(short_name(file), []).append(file)
        self._short = {
            file: name if len(same) == 1 else _two_parts(file)
            for name, same in names.items()
            for file in same
        }

    def line(self, frame: Frame) -> str:
        if not frame.file:
            return ""
        short = self._short.get(frame.file, short_name(frame.file))
        return f"{short}:{frame.line}" if frame.line else short

    def text(self, frame: Frame) -> str:
        return f"{frame.function} {self.line(frame)}".rstrip()


def _two_parts(file: str) -> str:
    return "/".join(file.split("/")[-2:])


def marked(terminal: Terminal, text: str, mark: str) -> str:
    return f"{text}   {terminal.red(f'<- {mark}')}" if mark else text
