"""One thread of a process, as a tool has printed it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rankdbg.dumps.native_frames import NativeFrame

# Text that looks like a dump must not fill the memory.
DEEPEST, MOST_THREADS, MOST_PROCESSES = 2_000, 10_000, 100_000


@dataclass
class DumpedThread:
    number: int
    name: str
    status: str  # "Has the GIL", "Waiting for the GIL", "Garbage collecting"
    frames: list[NativeFrame] = field(default_factory=list)  # innermost first
    locals: list[dict[str, str]] = field(default_factory=list)  # beside frames, if there are any
    active: bool | None = None  # whether it was computing; None: the tool does not tell

    @property
    def is_python(self) -> bool:
        return any(frame.python for frame in self.frames)

    @property
    def starts_program(self) -> bool:
        """Whether its outermost frame of Python is a module: so the main thread begins."""
        outermost = next((frame for frame in reversed(self.frames) if frame.python), None)
        return outermost is not None and outermost.function == "<module>"


class ThreadLines(Protocol):
    """The lines after the head of one thread."""

    def read(self, line: str) -> bool:
        """Whether the line is a part of it."""

    def result(self) -> DumpedThread: ...


def parse_threads(
    text: str, head: re.Pattern[str], begin: Callable[[re.Match[str]], ThreadLines]
) -> Iterator[DumpedThread]:
    """All threads of a text in which each begins with such a line."""
    thread: ThreadLines | None = None
    for line in text.splitlines():
        if found := head.match(line):
            if thread:
                yield thread.result()
            thread = begin(found)
        elif thread:
            thread.read(line)
    if thread:
        yield thread.result()
