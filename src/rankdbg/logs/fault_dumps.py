"""What Python's faulthandler writes, found in a text: its own file, or a log full of others.

    Fatal Python error: Segmentation fault

    Thread 0x00007f12 (most recent call first):
      File "train.py", line 3 in worker

    Current thread 0x00007f34 (most recent call first):
      File "train.py", line 12 in step

A dump on a timer begins with `Timeout (0:00:05)!`, one on a signal with its first thread.
Launchers put a word before each line of a rank (`[rank3]:`, `[default3]:`, `3: `).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Frame = tuple[str, str, int]


@dataclass
class FaultThread:
    number: int
    name: str  # from Python 3.14 on
    current: bool  # the one that crashed, or took the signal
    frames: list[Frame] = field(default_factory=list)  # innermost first
    native: list[Frame] = field(default_factory=list)  # the same, from Python 3.14 on


@dataclass
class FaultDump:
    rank: int | None  # as the launcher has written it before the lines
    cause: str  # Segmentation fault; a timeout; ``: on request
    threads: list[FaultThread] = field(default_factory=list)


_LABEL = re.compile(r"^\[?(?:rank|default|trainer)?(\d{1,6})\]?:\s?(.*)$", re.DOTALL)
_CAUSE = re.compile(r"(?:Fatal Python error: |Windows fatal exception: )(.+)$")
_TIMEOUT = re.compile(r"Timeout \([\d:.]+\)!$")
_THREAD = re.compile(
    r"(Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):"
)
_LINE = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_C_STACK = "Current thread's C stack trace (most recent call first):"
_C_LINE = re.compile(r'  Binary file "(.*)", at (?:(.*?)\+)?0x[0-9a-f]+')


def has_dump(text: str) -> bool:
    return bool(_THREAD.search(text))


def find_dumps(lines: Iterable[str]) -> list[FaultDump]:
    """In the order in which they were written."""
    readers: dict[int | None, _Reader] = {}
    done: list[FaultDump] = []
    for line in lines:
        rank, text = _unlabelled(line.rstrip("\n"))
        reader = readers.setdefault(rank, _Reader(rank, done))
        reader.read(text)
    return [dump for dump in done if dump.threads]


def _unlabelled(line: str) -> tuple[int | None, str]:
    found = _LABEL.match(line)
    return (int(found[1]), found[2]) if found else (None, line)


class _Reader:
    """The lines of one rank: those of several may alternate."""

    def __init__(self, rank: int | None, done: list[FaultDump]) -> None:
        self._rank = rank
        self._done = done
        self._dump: FaultDump | None = None
        self._thread: FaultThread | None = None
        self._in_c = False

    def read(self, line: str) -> None:
        if cause := _CAUSE.search(line):
            self._begin(cause[1])
        elif _TIMEOUT.search(line):
            self._begin("a timeout of faulthandler")
        elif head := _THREAD.search(line):
            self._begin_thread(head)
        elif _C_STACK in line:
            self._in_c = True
        elif self._thread is not None:
            self._read_frame(self._thread, line)

    def _begin(self, cause: str) -> None:
        self._dump = FaultDump(self._rank, cause)
        self._thread = None
        self._done.append(self._dump)

    def _begin_thread(self, head: re.Match[str]) -> None:
        number = int(head[2], 16)
        seen = {thread.number for thread in self._dump.threads} if self._dump else set()
        if self._dump is None or number in seen:  # on a signal: nothing says that one begins
            self._begin("")
        assert self._dump is not None
        current = head[1] == "Current thread"
        self._thread = FaultThread(number, (head[3] or "").strip(), current)
        self._in_c = False
        self._dump.threads.append(self._thread)

    def _read_frame(self, thread: FaultThread, line: str) -> None:
        if not self._in_c and (frame := _LINE.match(line)):
            number = int(frame[2]) if frame[2].isdigit() else 0
            thread.frames.append((frame[3], frame[1], number))
        elif self._in_c and (frame := _C_LINE.match(line)):
            current = next((t for t in self._threads() if t.current), thread)
            current.native.append((frame[2] or "???", frame[1], 0))

    def _threads(self) -> Iterator[FaultThread]:
        return iter(self._dump.threads if self._dump else ())
