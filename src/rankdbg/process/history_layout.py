"""The file in which a rank keeps what it did: its layout, and how it is read.

The agent writes it through a memory map, so what a killed rank has done is still there. Events
and digests are rings of records of one size; texts are written once and meant by their number. A
record of an event ends with its index, so that one that was being written does not count.

    header      magic, version, sizes, two counters, and whose history it is (JSON)
    texts       length (2 bytes) and UTF-8, one after the other: what was done where, and values
    digests     for each step: its number, hashes of its events, how many, and the first of them
    events      what happened

Imports little: the agent imports this module.
"""

from __future__ import annotations

import _struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FOLDER = "histories"  # in the agents' directory; files are PID-START.history
MAGIC = b"RANKDBGH"
VERSION = 1
SIZE = 1 << 20
LEAST, LARGEST = 64 << 10, 256 << 20

# magic, version, size, where each part begins
_HEADER = _struct.Struct("<8sII3I")
HEADER_BYTES = 2048
IDENTITY_AT = 128
# How many bytes of texts, and how many digests have been written, ever.
TEXTS_USED, DIGESTS_COUNT = 64, 72
COUNTER = _struct.Struct("<Q")

# time (ns), kind, kind of the value, text, number, value, index + 1
EVENT = _struct.Struct("<QHHIqqQ")
# step, hash of its calls to other ranks, hash of all of its events, how many, index of the first
DIGEST = _struct.Struct("<qIIQQ")
TEXT_LENGTH = _struct.Struct("<H")
LONGEST_TEXT = 400

STEP, COLLECTIVE, SEND, RECEIVE, MARK, MODULE, BRANCH, OPTIMIZER = range(1, 9)
CALLS = (COLLECTIVE, SEND, RECEIVE)  # to other ranks
KINDS = {
    STEP: "step",
    COLLECTIVE: "collective",
    SEND: "send",
    RECEIVE: "recv",
    MARK: "mark",
    MODULE: "module",
    BRANCH: "branch",
    OPTIMIZER: "optimizer",
}
NO_VALUE, WHOLE, FLOAT, TEXT = range(4)
_AS_FLOAT, _AS_WHOLE = _struct.Struct("<d"), _struct.Struct("<q")


class BadHistory(Exception):
    """A file that is no history, or damaged."""


def parts(size: int) -> tuple[int, int, int]:
    """Where texts, digests and events begin in a file of so many bytes."""
    texts = HEADER_BYTES
    digests = texts + size // 8
    events = digests + size // 4 // DIGEST.size * DIGEST.size
    return texts, digests, events


def new_header(size: int) -> bytes:
    return _HEADER.pack(MAGIC, VERSION, size, *parts(size))


def float_bits(value: float) -> int:
    """A float as the whole number with the same bytes."""
    bits: int = _AS_WHOLE.unpack(_AS_FLOAT.pack(value))[0]
    return bits


def identity_in(header: bytes) -> bytes:
    """Whose history it is, as JSON; empty if that was not written yet."""
    return header[IDENTITY_AT:HEADER_BYTES].partition(b"\0")[0]


class History:
    """The content of a file, as it was at one moment. Raises BadHistory."""

    def __init__(self, content: bytes) -> None:
        if len(content) < HEADER_BYTES:
            raise BadHistory("it is shorter than its header")
        magic, version, size, *begins = _HEADER.unpack_from(content)
        if magic != MAGIC:
            raise BadHistory("it is not a history file")
        if version != VERSION:
            raise BadHistory(f"it has version {version}; this rankdbg reads version {VERSION}")
        if not LEAST <= size <= LARGEST or len(content) < size or begins != [*parts(size)]:
            raise BadHistory("its header is damaged")
        self._content = content
        self._texts_at, self._digests_at, self._events_at = begins
        self._size = size
        self._texts = [*self._read_texts()]
        self._all_events = self._read_events()

    def _count(self, at: int) -> int:
        count: int = COUNTER.unpack_from(self._content, at)[0]
        return count

    def _read_texts(self) -> Iterator[str]:
        yield ""
        at = self._texts_at
        end = min(at + self._count(TEXTS_USED), self._digests_at)
        while at + TEXT_LENGTH.size <= end:
            length = TEXT_LENGTH.unpack_from(self._content, at)[0]
            at += TEXT_LENGTH.size
            yield self._content[at : min(at + length, end)].decode("utf-8", "replace")
            at += length

    def _text(self, number: int) -> str:
        return self._texts[number] if number < len(self._texts) else ""

    @staticmethod
    def _slots(begin: int, end: int, record: Any) -> int:
        slots: int = (end - begin) // record.size
        return slots

    def events(self, first: int = 0, last: int | None = None) -> Iterator[dict[str, Any]]:
        """Those of these indices that are still there, oldest first."""
        end = self._all_events[-1][-1] if self._all_events else 0
        for found in self._all_events:
            if first < found[-1] <= (end if last is None else last):
                yield self._event(found)

    @property
    def first_event(self) -> int:
        """The index of the oldest that is still there."""
        return self._all_events[0][-1] - 1 if self._all_events else 0

    def _read_events(self) -> list[tuple[Any, ...]]:
        slots = self._slots(self._events_at, self._size, EVENT)
        content = memoryview(self._content)[self._events_at :][: slots * EVENT.size]
        found = [
            record
            for slot, record in enumerate(EVENT.iter_unpack(content))
            if record[-1] and (record[-1] - 1) % slots == slot
        ]
        found.sort(key=lambda record: record[-1])
        # A slot that was being written is left from the round before.
        return [record for record in found if record[-1] > found[-1][-1] - slots]

    def _event(self, found: tuple[Any, ...]) -> dict[str, Any]:
        time, kind, value_kind, text, number, value, index = found
        name, place, *group = [*self._text(text).split("\t"), ""]
        return {
            "index": index - 1,
            "time": time,
            "kind": KINDS.get(kind, "unknown"),
            "name": name,
            "place": place,
            "group": group[:3] if kind in CALLS else [],
            "count": number,
            "value": self._value(value_kind, value),
        }

    def _value(self, kind: int, bits: int) -> Any:
        if kind == WHOLE:
            return bits
        if kind == FLOAT:
            return _AS_FLOAT.unpack(_AS_WHOLE.pack(bits))[0]
        return self._text(bits) if kind == TEXT else None

    def digests(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(step, hash of calls, hash of all, events, index of the first), oldest first."""
        slots = self._slots(self._digests_at, self._events_at, DIGEST)
        count = self._count(DIGESTS_COUNT)
        for index in range(max(0, count - slots), count):
            at = self._digests_at + index % slots * DIGEST.size
            yield DIGEST.unpack_from(self._content, at)
