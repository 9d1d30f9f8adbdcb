"""Ranks, frames and silences in few characters, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rankdbg.process.user_code import short_name
from rankdbg.selection import format_ranks
from rankdbg.text.escapes import visible_line
from rankdbg.types import Frame, ProcessKey, Rank, Silence, actor_names


def label(ranks: Iterable[Rank], among: Sequence[Rank], most: int = 30) -> str:
    """A set of ranks in few characters."""
    some = list(ranks)
    text = visible_line(format_ranks(some, among))
    if len(text) <= most:
        return text
    cut = text[: most - 8]
    return f"{cut.rpartition(',')[0] or cut},… ({len(some)})"


def with_noun(text: str, count: int) -> str:
    """rank 3, ranks 0-3; a role or another term says by itself what it is: driver, Rollout 0-3."""
    if not text[:1].isdigit():
        return text
    return f"{'rank' if count == 1 else 'ranks'} {text}"


def named(ranks: Iterable[Rank], among: Sequence[Rank], most: int = 40) -> str:
    """rank 3; ranks 0-3; driver, Rollout 0-3"""
    some = list(ranks)
    return with_noun(label(some, among, most), len(some))


def single_names(ranks: Sequence[Rank]) -> dict[ProcessKey, str]:
    """A name of its own for each process: its number where that is enough, else role and number,
    else host and pid."""
    several = len({rank.role for rank in ranks}) > 1
    candidates = {rank.process: _short_name(rank, several) for rank in ranks}
    alike = Counter(candidates.values())
    return {
        process: name if alike[name] == 1 else f"{process.host}/{process.pid}"
        for process, name in candidates.items()
    }


def _short_name(rank: Rank, with_role: bool) -> str:
    if rank.number is None:
        return rank.role if with_role and rank.role else str(rank.pid)
    return f"{rank.role} {rank.number}".strip() if with_role else str(rank.number)


def process_json(rank: Rank) -> dict[str, Any]:
    """Which process a report is about, so that nothing is ambiguous. A rank that no process has
    taken has neither a host nor a pid."""
    return {
        "rank": rank.number,
        "role": rank.role,
        "actor": next(iter(actor_names(rank)), ""),
        "generation": rank.generation,
        "host": rank.host,
        "pid": rank.pid or None,
    }


def silent_lines(silent: Sequence[Silence], among: Sequence[Rank]) -> list[tuple[str, str]]:
    """Silences with the same reason on one line."""
    return [(label(ranks, among), reason) for reason, ranks in silent_groups(silent).items()]


def silent_groups(silent: Sequence[Silence]) -> dict[str, list[Rank]]:
    """The ranks without a response, by reason."""
    reasons: dict[str, list[Rank]] = {}
    for silence in silent:
        reasons.setdefault(silence.reason, []).append(silence.rank)
    return reasons


def silent_json(silent: Sequence[Silence]) -> list[dict[str, Any]]:
    return [
        {
            "rank": s.rank.number,
            "role": s.rank.role,
            "pid": s.rank.pid,
            "host": s.rank.host,
            "reason": s.reason,
        }
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
