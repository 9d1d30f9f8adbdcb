"""Native frames of all threads with gdb: slow (it reads all symbols) and stops the process
for as long, but unwinds where pystack cannot. The frames of Python are py-spy's."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from rankdbg.dumps.dumped_threads import DumpedThread
from rankdbg.dumps.gdb_text import parse, with_lines
from rankdbg.dumps.native_frames import NativeFrame
from rankdbg.node.probes import attaching
from rankdbg.node.probes.named_threads import ask_pyspy, dump, threads

# No files of the user, no scripts that lie beside libraries, no downloads.
OPTIONS = ("-batch", "-nx", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off")
DEEPEST = 200


def executable() -> str | None:
    return shutil.which("gdb")


def available(pid: int) -> str | None:
    if executable() is None:
        return "gdb is not installed on the node"
    return attaching.refusal(pid)


def probe(pid: int, *, seconds: float, all_threads: bool, with_locals: bool) -> dict[str, Any]:
    known = ask_pyspy(pid, seconds, with_locals)
    words = ["gdb", *OPTIONS, "-ex", f"thread apply all backtrace {DEEPEST}", "-p", str(pid)]
    dumped = dump(words, parse, pid, seconds)
    with_python(dumped, known)
    return threads(dumped, pid, all_threads=all_threads, known=known, with_locals=with_locals)


def with_python(dumped: Sequence[DumpedThread], known: Sequence[dict[str, Any]]) -> None:
    """Lines of Python, which py-spy has seen, in place of the interpreter's frames."""
    lines = {thread.get("os_thread_id"): thread["frames"] for thread in known}
    for thread in dumped:
        if seen := lines.get(thread.number):
            told = [NativeFrame(f["name"], f["filename"], f["line"], python=True) for f in seen]
            thread.frames = with_lines(thread.frames, told)
