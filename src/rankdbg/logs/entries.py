"""What is read out of logs: values that travel from a node and are merged where the user sits."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rankdbg.errors import BadInput
from rankdbg.logs.places import LogFile

TAIL = 10_000
# Of one answer of a node.
MOST_CHARACTERS = 24 << 20


class Entry(NamedTuple):
    """One message."""

    order: float  # by which it stands among others: its clock, never after what follows it
    time: float | None  # its own clock, or that of the line that it follows
    file: int  # among the files of the question
    rank: int | None
    pid: int | None
    name: str  # the role or the actor
    text: str
    repeated: int = 0  # equal lines of other workers that Ray has left out
    copied: bool = False  # of another process, as it says: Ray's driver prints what workers say


@dataclass(frozen=True)
class Known:
    """A rank of the roster, by which a pid in a line can be told."""

    host: str
    pid: int
    rank: int | None
    role: str


@dataclass(frozen=True)
class Wanted:
    """What is to be read of which files."""

    files: Sequence[LogFile] = ()
    since: float | None = None
    until: float | None = None
    grep: str = ""
    limit: int = TAIL
    ranks: Container[int] | None = None  # None: everybody, also who is no rank
    pids: frozenset[int] = frozenset()  # ranks that have no number
    known: Sequence[Known] = ()
    follow: bool = False  # whether it is to be read on from there: whole lines only
    kinds: bool = False  # not the messages, but which kinds of messages each has written

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
    def from_json(value: Mapping[str, Any]) -> Wanted:
        ranks = value["ranks"]
        return Wanted(
            files=[LogFile.from_json(file, str(file["node"])) for file in value["files"]],
            since=value["since"],
            until=value["until"],
            grep=value["grep"],
            limit=int(value["limit"]),
            ranks=None if ranks is None else frozenset(ranks),
            pids=frozenset(value["pids"]),
            known=[Known(*entry) for entry in value["known"]],
            follow=bool(value["follow"]),
            kinds=bool(value["kinds"]),
        )


class Position(NamedTuple):
    """Up to where a file was read."""

    inode: int
    end: int
    stamp: str = ""  # the last clock before it


@dataclass
class Reading:
    """What was read."""

    entries: list[Entry] = field(default_factory=list)  # oldest first
    counts: list[int] = field(default_factory=list)  # of kinds: how often each was written
    older: bool = False  # whether there are older ones, which were left out
    late: bool = False  # whether time was up before all was read
    # Also of what was not wanted.
    speakers: set[tuple[int | None, str]] = field(default_factory=set)
    errors: dict[int, str] = field(default_factory=dict)  # files that could not be read
    clockless: set[int] = field(default_factory=set)  # files with no clock in them
    positions: dict[int, Position] = field(default_factory=dict)  # by file

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
        )


def parse_grep(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        place = f" at character {error.pos + 1}" if error.pos is not None else ""
        raise BadInput(
            f"--grep {text!r} is no regular expression: {error.msg}{place}",
            hint="put a backslash before ( [ * + ? . to mean the character itself",
        ) from None
