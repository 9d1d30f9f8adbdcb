"""Finds the output of Python's faulthandler in a text: its own file, or a log.

    Fatal Python error: Segmentation fault

    Thread 0x00007f12 (most recent call first):
      File "train.py", line 3 in worker

    Current thread 0x00007f34 (most recent call first):
      File "train.py", line 12 in step

A dump on a timer begins with `Timeout (0:00:05)!`, one on a signal with its first thread.
Launchers put a prefix before each line of a rank (`[rank3]:`, `[default3]:`, `3: `).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Frame = tuple[str, str, int]

# faulthandler itself writes 100 frames of 100 threads at most. Whatever else looks like a dump
# must not fill the memory.
_DEEPEST, _MOST_THREADS = 200, 1000
_MOST_RANKS, _MOST_DUMPS, _MOST_FRAMES = 100_000, 100_000, 1_000_000


@dataclass
class FaultThread:
    number: int
    name: str  # from Python 3.14 on
    current: bool  # the one that crashed, or took the signal
    frames: list[Frame] = field(default_factory=list)  # innermost first
    native: list[Frame] = field(default_factory=list)  # the same, from Python 3.14 on


@dataclass
class FaultDump:
    rank: int | None  # from the launcher's prefix
    cause: str  # Segmentation fault; a timeout; ``: on request
    threads: list[FaultThread] = field(default_factory=list)


# torchrun puts no space after its prefix, srun one.
_LABEL = re.compile(
    r"^(?:\[(?:rank|default|trainer)?(\d{1,6})\]:|(?:rank|default|trainer)?(\d{1,6}): ?)(.*)$",
    re.DOTALL,
)
_CAUSE = re.compile(r"(?:Fatal Python error: |Windows fatal exception: )(.+)$")
_TIMEOUT = re.compile(r"Timeout \([\d:.]+\)!$")
_THREAD = re.compile(
    r"(Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):"
)
_LINE = re.compile(r'\s+File "(.*)", line (\d+|\?\?\?) in (.*)$')
_C_STACK = "Current thread's C stack trace (most recent call first):"
_C_LINE = re.compile(r'\s+Binary file "(.*)", at (?:(.*?)\+)?0x[0-9a-f]+')


def find_dumps(lines: Iterable[str]) -> list[FaultDump]:
    """In file order, up to a limit."""
    readers: dict[int | None, FaultReader] = {}
    done: list[FaultDump] = []
    known: dict[Frame, Frame] = {}
    for line in lines:
        rank, text = unlabelled(line.rstrip("\r\n"))
        reader = readers.get(rank)
        if reader is None and len(readers) < _MOST_RANKS:
            reader = readers[rank] = FaultReader(rank, done, known)
        if reader is not None:
            reader.read(text)
        if len(done) > _MOST_DUMPS or len(known) > _MOST_FRAMES:
            break
    return [dump for dump in done if dump.threads]


def unlabelled(line: str) -> tuple[int | None, str]:
    """The rank in the launcher's prefix of a line, and the line without it."""
    found = _LABEL.match(line)
    return (int(found[1] or found[2]), found[3]) if found else (None, line)


class FaultReader:
    """The lines of one rank; lines of several ranks may alternate."""

    def __init__(self, rank: int | None, done: list[FaultDump], known: dict[Frame, Frame]) -> None:
        self._rank = rank
        self._done = done
        self._known = known  # equal frames once: they are the same few lines many times
        self._dump: FaultDump | None = None
        self._seen: set[int] = set()  # its threads
        self._thread: FaultThread | None = None
        self._in_c = False

    def is_head(self, line: str) -> bool:
        """Whether a dump or a thread begins with it."""
        return any(head.search(line) for head in (_CAUSE, _TIMEOUT, _THREAD)) or _C_STACK in line

    def end(self) -> None:
        """What follows is another process."""
        self._dump = self._thread = None

    def read(self, line: str) -> bool:
        """Whether the line is a part of a dump."""
        if cause := _CAUSE.search(line):
            self._begin(cause[1])
        elif _TIMEOUT.search(line):
            self._begin("a timeout of faulthandler")
        elif head := _THREAD.search(line):
            self._begin_thread(head)
        elif _C_STACK in line:
            self._in_c = True
        elif self._thread is not None:
            return self._read_frame(self._thread, line)
        else:
            return False
        return True

    def _begin(self, cause: str) -> None:
        self._dump = FaultDump(self._rank, cause)
        self._seen = set()
        self._thread = None
        self._done.append(self._dump)

    def _begin_thread(self, head: re.Match[str]) -> None:
        number = int(head[2], 16)
        if self._dump is None or number in self._seen:  # on a signal: nothing says that one begins
            self._begin("")
        assert self._dump is not None
        current = head[1] == "Current thread"
        self._thread = FaultThread(number, (head[3] or "").strip(), current)
        self._in_c = False
        self._seen.add(number)
        if len(self._dump.threads) < _MOST_THREADS:
            self._dump.threads.append(self._thread)

    def _read_frame(self, thread: FaultThread, line: str) -> bool:
        if not self._in_c and (frame := _LINE.match(line)):
            number = int(frame[2]) if frame[2].isdigit() and len(frame[2]) < 10 else 0
            self._add(thread.frames, (frame[3], frame[1], number))
        elif self._in_c and (frame := _C_LINE.match(line)):
            current = next((t for t in self._threads() if t.current), thread)
            self._add(current.native, (frame[2] or "???", frame[1], 0))
        else:
            return not line.strip()
        return True

    def _add(self, frames: list[Frame], frame: Frame) -> None:
        if len(frames) < _DEEPEST:
            frames.append(self._known.setdefault(frame, frame))

    def _threads(self) -> Iterator[FaultThread]:
        return iter(self._dump.threads if self._dump else ())
