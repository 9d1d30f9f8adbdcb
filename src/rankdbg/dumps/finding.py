"""Finds stack dumps in text: of any tool, of many processes, in files of their own or in logs.

    == rank 3, pid 4711 ==                                    what a script has put between them
    Process 4711: python train.py                             py-spy dump
    Thread 3 (Thread 0x7f (LWP 4713) "python"):               gdb, cuda-gdb
    Traceback for thread 4711 (python) [] (most recent …      pystack
    Thread 0x00007f12 (most recent call first):               faulthandler

Launchers put a prefix before each line of a rank (`[rank3]:`, `3: `), and terminals colours.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rankdbg.dumps import gdb_text, pyspy_text, pystack_text
from rankdbg.dumps.dumped_threads import MOST_PROCESSES, MOST_THREADS, DumpedThread
from rankdbg.dumps.native_frames import NativeFrame
from rankdbg.logs.fault_dumps import FaultDump, FaultReader, FaultThread, unlabelled
from rankdbg.types import RunningKernel

# Of one document of JSON; that of a process with 1,000 threads is 10 MB.
MOST_JSON = 64 << 20
_LONGEST_NOTE = 300
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Announcement:
    """What the lines before a dump say about its process."""

    pid: int | None = None
    rank: int | None = None
    host: str = ""


@dataclass
class ProcessDump:
    """One dump of one process."""

    tool: str  # py-spy, pystack, gdb, cuda-gdb, faulthandler
    pid: int | None = None
    title: str = ""  # its command line, if the tool prints it
    label: int | None = None  # the rank in the launcher's prefix of its lines
    said: Announcement = field(default_factory=Announcement)
    cause: str = ""  # what has ended it, if it has crashed
    threads: list[DumpedThread] = field(default_factory=list)
    kernels: list[RunningKernel] = field(default_factory=list)


def find_processes(lines: Iterable[str]) -> list[ProcessDump]:
    """In the order of the text, up to a limit; damaged ones as far as they go."""
    found: list[ProcessDump] = []
    readers: dict[Prefix, _Reader] = {}
    known: dict[NativeFrame, NativeFrame] = {}  # equal frames once: they are the same few lines
    for line in lines:
        text = line.rstrip("\r\n")
        if "\x1b" in text:
            text = _COLOUR.sub("", text)
        prefix, text = _without_prefix(text)
        reader = readers.get(prefix)
        if reader is None:
            if len(readers) >= MOST_PROCESSES:
                continue
            reader = readers[prefix] = _Reader(prefix, found)
        reader.read(text)
        if len(found) >= MOST_PROCESSES:
            break
    for reader in readers.values():
        reader.end()
    for process in found:
        for thread in process.threads:
            thread.frames = [known.setdefault(frame, frame) for frame in thread.frames]
    return [process for process in found if any(thread.frames for thread in process.threads)]


class Prefix(NamedTuple):
    """What a launcher has put before each line of a process."""

    rank: int | None = None
    pid: int | None = None
    host: str = ""


_NO_PREFIX = Prefix()
# (Trainer pid=4711, ip=10.0.0.2) of Ray; [pod/train-3/main] of kubectl logs --prefix
_OF_RAY = re.compile(r"\((?:[\w.:<>]+ )?pid=(\d{1,9})(?:, ip=([\w.:]+))?\) ?(.*)$")
_OF_KUBECTL = re.compile(r"\[pod/([\w.-]+)/[\w.-]+\] ?(.*)$")


def _without_prefix(line: str) -> tuple[Prefix, str]:
    first = line[:1]
    if first == "(" and (found := _OF_RAY.match(line)):
        return Prefix(None, int(found[1]), found[2] or ""), found[3]
    if first == "[" and (found := _OF_KUBECTL.match(line)):
        return Prefix(host=found[1]), found[2]
    rank, text = unlabelled(line) if first in "[rdt0123456789" else (None, line)
    return (_NO_PREFIX if rank is None else Prefix(rank)), text


class _Reader:
    """The lines with one prefix; lines with several may alternate."""

    def __init__(self, prefix: Prefix, found: list[ProcessDump]) -> None:
        self._prefix = prefix
        self._found = found
        self._said = Announcement(prefix.pid, None, prefix.host)
        self._indent = ""
        self._tools: list[_Tool] = [_PySpy(self), _Gdb(self), _Pystack(self), _Fault(self)]
        self._tool: _Tool | None = None

    def read(self, line: str) -> None:
        if self._tool is not None and self._tool.takes_all:
            self._tool.read(line)
            return
        stripped = line.lstrip(" \t>")
        if stripped[:1] in _HEADS or any(mark in line for mark in _MARKS):
            for tool in self._tools:
                if tool.is_head(stripped):
                    self._begin(tool, line, stripped)
                    return
        if self._tool is not None and self._tool.read(line.removeprefix(self._indent)):
            return
        if stripped and len(line) < _LONGEST_NOTE and _BETWEEN.match(line):
            self._note(line)

    def _begin(self, tool: _Tool, line: str, head: str) -> None:
        self._indent = line[: len(line) - len(head)]
        if self._tool is not None and self._tool is not tool:
            self._tool.end()
        self._tool = tool
        tool.read(head)

    def _note(self, line: str) -> None:
        """A line between dumps may say whose the next one is."""
        if self._tool is not None:
            self._tool.end()
            self._tool = None
        if found := _PID.search(line):
            self._said.pid = int(found[1] or found[2])
        if found := _RANK.search(line):
            self._said.rank = int(found[1])
        if found := _HOST.search(line):
            self._said.host = found[1]

    def begin(self, tool: str) -> ProcessDump:
        process = ProcessDump(tool, label=self._prefix.rank, said=self._said)
        self._said = Announcement(self._prefix.pid, None, self._prefix.host)
        self._found.append(process)
        return process

    def end(self) -> None:
        for tool in self._tools:
            tool.end()


# The first letters of all heads.
_HEADS = frozenset("PTC#[AFWK")
# Of heads of faulthandler that do not begin their line.
_MARKS = ("recent call first", "Fatal Python error: ")
_PID = re.compile(
    r"\b(?:pid|PID|Pid)\b[ :=#]{0,3}(\d{1,9})\b|\b(?:py-spy|pystack|gdb)\b.*?\s(\d{1,9})$"
)
_RANK = re.compile(r"\b(?:global[ _-]?)?rank[ :=#_-]{0,3}(\d{1,6})\b", re.IGNORECASE)
_HOST = re.compile(r"\b(?:host|hostname|node|pod)[ :=]{1,3}([A-Za-z0-9][\w.-]{0,252})")
_BETWEEN = re.compile(
    r"\s*(?:[=#*>~-]{2,}|[$%+] |\W*(?:global[ _-])?(?:rank|pid|process|host|hostname|node|pod)\b)",
    re.IGNORECASE,
)


class _Tool(ABC):
    """The state of what one tool prints."""

    name = ""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._process: ProcessDump | None = None

    @property
    def takes_all(self) -> bool:
        """Whether no line can be another tool's."""
        return False

    @abstractmethod
    def is_head(self, line: str) -> bool:
        """Whether a dump or a part of it begins with this line."""

    @abstractmethod
    def read(self, line: str) -> bool:
        """Whether the line is a part of the dump."""

    def end(self) -> None:
        """What follows is another process."""
        self._process = None

    def _begin(self) -> ProcessDump:
        self.end()
        self._process = self._reader.begin(self.name)
        return self._process

    def _add(self, thread: DumpedThread) -> None:
        if self._process is not None and len(self._process.threads) < MOST_THREADS:
            self._process.threads.append(thread)


class _PySpy(_Tool):
    name = "py-spy"

    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader)
        self._thread: pyspy_text.PyspyThreadReader | None = None
        self._library = ""
        self._document: list[str] = []
        self._size = 0
        self._seen: set[str] = set()

    @property
    def takes_all(self) -> bool:
        return bool(self._document)

    def is_head(self, line: str) -> bool:
        if _begins_json(line):
            return True
        return bool(
            (line[0] == "P" and (pyspy_text.PROCESS.match(line) or pyspy_text.PYTHON.match(line)))
            or (line[0] == "T" and pyspy_text.THREAD.match(line))
        )

    def read(self, line: str) -> bool:
        if self._document or _begins_json(line):
            self._read_json(line)
        elif head := pyspy_text.PROCESS.match(line):
            process = self._begin()
            process.pid, process.title = int(head[1]), head[2]
        elif (head := pyspy_text.PYTHON.match(line)) and self._process is not None:
            self._library = pyspy_text.library_of(head[1], head[2])
        elif head := pyspy_text.THREAD.match(line):
            self._begin_thread(head)
        elif self._thread is not None:
            return self._thread.read(line)
        else:
            return False
        return True

    def _begin_thread(self, head: re.Match[str]) -> None:
        number = head[1]
        if self._process is None or number in self._seen:  # pasted without its first line
            self._begin()
        self._close_thread()
        self._seen.add(number)
        self._thread = pyspy_text.PyspyThreadReader(head, self._library)

    def _close_thread(self) -> None:
        if self._thread is not None:
            self._add(self._thread.result())
        self._thread = None

    def end(self) -> None:
        self._close_thread()
        super().end()
        self._document, self._size, self._seen, self._library = [], 0, set(), ""

    def _read_json(self, line: str) -> None:
        if not self._document:
            self.end()
        self._document.append(line)
        self._size += len(line)
        is_whole = line.startswith("[{") or line == "]"
        if not is_whole and self._size < MOST_JSON:
            return
        text = "\n".join(self._document)
        self.end()
        try:
            for pid, threads in pyspy_text.read_json(json.loads(text)):
                process = self._reader.begin(self.name)
                process.pid, process.threads = pid, threads
        except (ValueError, RecursionError):
            pass  # a list of something else


def _begins_json(line: str) -> bool:
    return line == "[" or line.startswith('[{"pid":')


class _Gdb(_Tool):
    name = "gdb"

    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader)
        self._threads: dict[int, gdb_text.GdbThreadReader] = {}
        self._thread: gdb_text.GdbThreadReader | None = None
        self._pid: int | None = None
        self._title = self._cause = ""
        self._frame = -1
        self._kernels: list[str] = []

    def is_head(self, line: str) -> bool:
        match line[0]:
            case "T":
                return bool(gdb_text.THREAD.match(line)) or line == gdb_text.PYTHON_HEAD
            case "#":
                return bool(gdb_text.FRAME.match(line))
            case "A":
                return bool(_ATTACHING.match(line))
            case "K":
                return line.startswith("Kernel Parent Dev")
            case "[":
                return bool(_INFERIOR.match(line) or _SWITCHING.match(line))
            case "C" | "P":
                return line.startswith(
                    ("Core was generated by `", "Program terminated with signal ")
                )
        return False

    def read(self, line: str) -> bool:
        if head := gdb_text.THREAD.match(line):
            self._begin_thread(int(head[2]), head[3] or "thread")
        elif found := _INFERIOR.match(line):
            self._pid = int(found[1])
            self.end()
        elif found := _ATTACHING.match(line):
            self.end()
            self._pid = int(found[1])
        elif found := _SWITCHING.match(line):
            self._begin_thread(int(found[1]), "thread")
        elif line.startswith("Core was generated by `"):
            self.end()
            self._title = line.removeprefix("Core was generated by `").rstrip("'.")
        elif line.startswith("Program terminated with signal "):
            self._cause = line.removeprefix("Program terminated with signal ").rstrip(".")
        elif "(" in line and any(gdb_text.parse_kernels(line)):
            self._kernels.append(line)
        else:
            return self._read_frame(line)
        return True

    def _read_frame(self, line: str) -> bool:
        if frame := gdb_text.FRAME.match(line):
            number = int(frame[1])
            if number == 0 and (self._thread is None or self._frame >= 0):  # `bt` alone, again
                self._begin_thread(0, "thread")
            self._frame = number
        elif line == gdb_text.PYTHON_HEAD and self._thread is None:
            self._begin_thread(0, "thread")
        return self._thread is not None and self._thread.read(line)

    def _begin_thread(self, number: int, name: str) -> None:
        """`thread apply all bt` and `… py-bt` list the same threads: one dump, if both are there
        once."""
        known = self._threads.get(number)
        self._frame = -1
        if known is not None and (known.has_native != known.has_python) and number:
            self._thread = known
            return
        if known is not None:
            self.end()
        if len(self._threads) < MOST_THREADS:
            self._thread = self._threads[number] = gdb_text.GdbThreadReader(number, name)

    def end(self) -> None:
        read = [thread.result() for thread in self._threads.values()]
        threads = [thread for thread in read if not gdb_text.is_debuggers(thread)]
        if any(thread.frames for thread in threads):
            process = self._begin_gdb(len(threads) < len(read))
            process.threads = threads
        self._threads, self._thread, self._frame = {}, None, -1
        self._pid, self._title, self._cause, self._kernels = None, "", "", []
        super().end()

    def _begin_gdb(self, debugs_cuda: bool) -> ProcessDump:
        is_cuda = debugs_cuda or bool(self._kernels)
        process = self._reader.begin("cuda-gdb" if is_cuda else "gdb")
        process.pid, process.title, process.cause = self._pid, self._title, self._cause
        process.kernels = [k for line in self._kernels for k in gdb_text.parse_kernels(line)]
        if process.pid is None:  # the main thread has the number of its process
            process.pid = min(self._threads) or None
        return process


_ATTACHING = re.compile(r"Attaching to (?:program: .*, )?process (\d{1,9})")
_INFERIOR = re.compile(r"\[Inferior \d+ \(process (\d{1,9})\) (?:detached|killed)\]")
_SWITCHING = re.compile(r"\[Switching to thread \d+ \(.*?LWP (\d{1,9})\)", re.IGNORECASE)


class _Pystack(_Tool):
    name = "pystack"

    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader)
        self._thread: pystack_text.PystackThreadReader | None = None
        self._read: list[DumpedThread] = []
        self._pid: int | None = None
        self._cause = ""

    def is_head(self, line: str) -> bool:
        return line[0] == "T" and bool(
            pystack_text.THREAD.match(line) or pystack_text.SIGNAL.match(line)
        )

    def read(self, line: str) -> bool:
        if head := pystack_text.THREAD.match(line):
            self._close_thread()
            self._thread = pystack_text.PystackThreadReader(head)
        elif found := pystack_text.SIGNAL.match(line):
            self.end()
            self._cause = found[1]
        else:
            return self._thread is not None and self._thread.read(line)
        return True

    def _close_thread(self) -> None:
        """The main thread of a process comes last of those that run Python."""
        if self._thread is None:
            return
        thread, self._thread = self._thread.result(), None
        repeated = any(known.number == thread.number for known in self._read)
        if repeated or (thread.is_python and any(known.starts_program for known in self._read)):
            self._flush()
        if len(self._read) < MOST_THREADS:
            self._read.append(thread)

    def _flush(self) -> None:
        if self._read:
            process = self._reader.begin(self.name)
            process.threads, process.cause = self._read, self._cause
            process.pid = min(thread.number for thread in self._read)
        self._read, self._cause = [], ""

    def end(self) -> None:
        self._close_thread()
        self._flush()
        super().end()


class _Fault(_Tool):
    name = "faulthandler"

    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader)
        self._done: list[FaultDump] = []
        self._dumps: dict[int, ProcessDump] = {}
        self._fault = FaultReader(None, self._done, {})

    def is_head(self, line: str) -> bool:
        return self._fault.is_head(line)

    def read(self, line: str) -> bool:
        before = len(self._done)
        taken = self._fault.read(line)
        if len(self._done) > before:
            process = self._reader.begin(self.name)
            process.cause = self._done[-1].cause
            self._dumps[len(self._done) - 1] = process
        return taken

    def end(self) -> None:
        for index, process in self._dumps.items():
            process.threads = [*map(_fault_thread, self._done[index].threads)]
        self._dumps = {}
        self._fault.end()
        super().end()


def _fault_thread(thread: FaultThread) -> DumpedThread:
    native = [NativeFrame(function, "", 0, library) for function, library, _ in thread.native]
    lines = [NativeFrame(*frame, library="", python=True) for frame in thread.frames]
    return DumpedThread(thread.number, thread.name, "", [*native, *lines])
