"""Log messages as values: sent by nodes and merged by the client."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rankdbg.errors import BadInput, shortened
from rankdbg.logs.expressions import BadExpression, Expression, expression
from rankdbg.logs.places import LogFile
from rankdbg.logs.positions import Position

TAIL = 10_000
# Of one answer of a node.
MOST_CHARACTERS = 24 << 20


# Ray's driver prints the lines of its workers, torchrun --tee those of its ranks' files.
Printer = Literal["ray", "torchrun", ""]


class Entry(NamedTuple):
    """One message."""

    order: float  # for sorting: its timestamp, never after that of the next message
    time: float | None  # its own timestamp, or the last one before it of the same writer
    file: int  # among the files of the question
    rank: int | None
    pid: int | None
    name: str  # the role or the actor
    text: str
    repeated: int = 0  # equal lines of other workers that Ray has omitted
    copied: Printer = ""  # who has printed it, if not the process that wrote it


@dataclass(frozen=True)
class RankProcess:
    """A rank of the roster, to map pids in lines to ranks."""

    host: str
    pid: int
    rank: int | None
    role: str


@dataclass(frozen=True)
class LogQuery:
    """What to read from which files."""

    files: Sequence[LogFile] = ()
    since: float | None = None
    until: float | None = None
    grep: str = ""
    limit: int = TAIL
    ranks: Container[int] | None = None  # None: all, also processes that are not ranks
    pids: frozenset[int] = frozenset()  # ranks that have no number
    known: Sequence[RankProcess] = ()
    follow: bool = False  # reading continues later: complete lines only
    kinds: bool = False  # return the kinds of messages of each rank, not the messages

    def as_json(self) -> dict[str, Any]:
        assert self.ranks is None or isinstance(self.ranks, frozenset)
        return {
            "files": [file.as_json() for file in self.files],
            "since": self.since,
            "until": self.until,
            "grep": self.grep,
            "limit": self.limit,
            "ranks": None if self.ranks is None else sorted(self.ranks),
            "pids": sorted(self.pids),
            "known": [[k.host, k.pid, k.rank, k.role] for k in self.known],
            "follow": self.follow,
            "kinds": self.kinds,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> LogQuery:
        ranks = value["ranks"]
        return LogQuery(
            files=[LogFile.from_json(file, str(file["node"])) for file in value["files"]],
            since=value["since"],
            until=value["until"],
            grep=value["grep"],
            limit=int(value["limit"]),
            ranks=None if ranks is None else frozenset(ranks),
            pids=frozenset(value["pids"]),
            known=[RankProcess(*entry) for entry in value["known"]],
            follow=bool(value["follow"]),
            kinds=bool(value["kinds"]),
        )


@dataclass
class Reading:
    """What was read."""

    entries: list[Entry] = field(default_factory=list)  # oldest first
    counts: list[int] = field(default_factory=list)  # of kinds: how often each was written
    older: bool = False  # whether older ones were omitted
    late: bool = False  # whether the time limit was reached
    # Also of what was not wanted.
    speakers: set[tuple[int | None, str]] = field(default_factory=set)
    errors: dict[int, str] = field(default_factory=dict)  # files that could not be read
    clockless: set[int] = field(default_factory=set)  # files with no clock in them
    positions: dict[int, Position] = field(default_factory=dict)  # by file
    slow: bool = False  # whether --grep took too long: nothing was read

    def as_json(self) -> dict[str, Any]:
        return {
            "entries": [list(entry) for entry in self.entries],
            "counts": self.counts,
            "older": self.older,
            "late": self.late,
            "speakers": [list(speaker) for speaker in self.speakers],
            "errors": [list(pair) for pair in self.errors.items()],
            "clockless": sorted(self.clockless),
            "positions": [[file, *position] for file, position in self.positions.items()],
            "slow": self.slow,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Reading:
        return Reading(
            entries=[Entry(*entry) for entry in value["entries"]],
            counts=[int(count) for count in value["counts"]],
            older=bool(value["older"]),
            late=bool(value["late"]),
            speakers={(rank, str(name)) for rank, name in value["speakers"]},
            errors={int(file): str(why) for file, why in value["errors"]},
            clockless=set(value["clockless"]),
            positions={file: Position(*position) for file, *position in value["positions"]},
            slow=bool(value.get("slow")),
        )


def parse_grep(text: str) -> Expression:
    try:
        return expression(text, "--grep", re.MULTILINE)
    except BadExpression as error:
        raise BadInput(
            f"invalid regular expression {shortened(text)!r} for --grep: {error}",
            hint="put a backslash before ( [ * + ? . to match the character itself",
        ) from None
