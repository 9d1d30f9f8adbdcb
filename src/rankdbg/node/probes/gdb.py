"""Native frames of all threads with gdb: slow (it reads all symbols) and stops the process
for as long, but unwinds where pystack cannot. The frames of Python are py-spy's."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from rankdbg.node import attaching
from rankdbg.node.dumped_threads import DumpedThread, ask_pyspy, dump, threads
from rankdbg.node.native_frames import NativeFrame, is_evaluation

# No files of the user, no scripts that lie beside libraries, no downloads.
OPTIONS = ("-batch", "-nx", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off")
DEEPEST = 200


def executable() -> str | None:
    return shutil.which("gdb")


def available(pid: int) -> str | None:
    if executable() is None:
        return "gdb is not installed there"
    return attaching.refusal(pid)


def probe(pid: int, *, seconds: float, all_threads: bool, with_locals: bool) -> dict[str, Any]:
    known = ask_pyspy(pid, seconds, with_locals)
    words = ["gdb", *OPTIONS, "-ex", f"thread apply all backtrace {DEEPEST}", "-p", str(pid)]
    dumped = dump(words, parse, pid, seconds)
    with_python(dumped, known)
    return threads(dumped, pid, all_threads=all_threads, known=known, with_locals=with_locals)


def with_python(dumped: Sequence[DumpedThread], known: Sequence[dict[str, Any]]) -> None:
    """Lines of Python in place of the interpreter's frames that execute them."""
    lines = {thread.get("os_thread_id"): thread["frames"] for thread in known}
    for thread in dumped:
        seen = lines.get(thread.number)
        if not seen:
            continue
        executing = [i for i, frame in enumerate(thread.frames) if is_evaluation(frame)]
        del thread.frames[executing[0] if executing else len(thread.frames) :]
        thread.frames += [
            NativeFrame(f["name"], f["filename"], f["line"], python=True) for f in seen
        ]


_HEAD = re.compile(r'Thread \d+ \(.*?(?:LWP |process |Thread \S+ )(\d+)\)?(?: "(.*)")?\):$')
_FRAME = re.compile(r"#\d+\s+(?:0x[0-9a-f]+ in )?(.*)$")
_SOURCE = re.compile(r" at (\S+):(\d+)$")
_LIBRARY = re.compile(r" from (\S+)$")


def parse(text: str) -> Iterator[DumpedThread]:
    """What `thread apply all backtrace` prints."""
    thread: DumpedThread | None = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            if thread:
                yield thread
            thread = DumpedThread(int(head[1]), head[2] or "thread", "")
        elif thread and (frame := _FRAME.match(line)):
            thread.frames.append(parse_frame(frame[1]))
    if thread:
        yield thread


def parse_frame(text: str) -> NativeFrame:
    """`c10d::Work::wait(long) () from /…/libtorch_cpu.so`, `take_gil (ts=0x5) at ceval.c:12`."""
    file, line, library = "", 0, ""
    if source := _SOURCE.search(text):
        text, file, line = text[: source.start()], source[1], int(source[2])
    elif loaded := _LIBRARY.search(text):
        text, library = text[: loaded.start()], loaded[1]
    # The arguments' values come last, after the function's own brackets.
    function = _before_last_brackets(text)
    return NativeFrame(function or "???", file, line, library)


def _before_last_brackets(text: str) -> str:
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if text[index] == "(" and depth == 0:
            return text[:index].rstrip()
    return text.strip()
