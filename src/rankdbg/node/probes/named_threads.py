"""Threads from the dump of a debugger -> the format of all probes.

Debuggers know neither the names of Python threads nor of classes; py-spy, which does not stop
the process, provides these first.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rankdbg.dumps.dumped_threads import DumpedThread
from rankdbg.dumps.native_frames import NativeFrame, readable
from rankdbg.node.probes import ProbeFailed, attaching, failure, pyspy
from rankdbg.process.user_code import is_agent

# Python's own function, in which every thread runs that it has started.
_STARTS_THREADS = "thread_run"
# In these is one that has not come that far, or has ended.
_BEFORE_ANY_CODE = {"clone", "clone3", "__clone", "__clone3", "start_thread", "thread_start"}


def dump(
    words: list[str], parse: Callable[[str], Iterable[DumpedThread]], pid: int, seconds: float
) -> list[DumpedThread]:
    """Run a program that attaches. Raises ProbeFailed if it has seen nothing."""
    ran = attaching.run(words, pid, seconds)
    dumped = list(parse(ran.output))
    if not dumped:
        raise failure(os.path.basename(words[0]), ran.complaint, pid)
    return dumped


def ask_pyspy(pid: int, seconds: float, with_locals: bool) -> list[dict[str, Any]]:
    """What it says of a process; nothing if it cannot, since others may see what it does not."""
    try:
        known = pyspy.dump(pid, seconds / 2, with_locals) if pyspy.available(pid) is None else []
    except ProbeFailed:
        return []
    for thread in known:
        # Before Python 3.11 it does not know the numbers of threads.
        if thread.get("os_thread_id") is None and thread["thread_name"] == "MainThread":
            thread["os_thread_id"] = pid
    return known


def threads(
    dumped: Sequence[DumpedThread],
    pid: int,
    *,
    all_threads: bool,
    known: Sequence[dict[str, Any]] = (),
    with_locals: bool = False,
) -> dict[str, Any]:
    """`known`: what py-spy has said of the same process."""
    by_number = _by_number(dumped, known)
    main = (pyspy.find_main(known, pid) or {}).get("os_thread_id") or pid
    found: list[dict[str, Any]] = []
    names = _names(dumped, by_number, pid)
    interesting = [thread for thread in dumped if not _is_of_no_interest(thread)]
    for thread in interesting:
        is_main = thread.number == main
        if not (all_threads or is_main):
            continue
        seen = _PythonFrames(by_number.get(thread.number, {}).get("frames", ()))
        frames = readable([seen.with_full_name(frame) for frame in thread.frames])
        shown = {"name": names[thread.number], "main": is_main, "frames": frames}
        if with_locals:
            shown["locals"] = [seen.locals(*frame) for frame in frames]
        found.append(shown)
    found.sort(key=lambda thread: (not thread["main"], thread["name"]))
    holders = [names[t.number] for t in dumped if "Has the GIL" in t.status]
    waiting = sorted(names[thread.number] for thread in interesting if _waits_for_gil(thread))
    gil = holders[0] if holders else pyspy.gil_holder(known, pid)
    return {"threads": found, "gil": gil, "waits_for_gil": waiting}


def _by_number(
    dumped: Iterable[DumpedThread], known: Iterable[dict[str, Any]]
) -> dict[int, dict[str, Any]]:
    """What py-spy has said of each thread: by its number, or where it knows none, by its lines."""
    by_number = {t["os_thread_id"]: t for t in known if t.get("os_thread_id") is not None}
    by_lines = {
        tuple((f["filename"], f["line"]) for f in t["frames"]): t
        for t in known
        if t.get("os_thread_id") is None
    }
    for thread in dumped:
        lines = tuple((frame.file, frame.line) for frame in thread.frames if frame.python)
        if lines and lines in by_lines:
            by_number.setdefault(thread.number, by_lines[lines])
    return by_number


def _waits_for_gil(thread: DumpedThread) -> bool:
    return any(frame.function == "take_gil" for frame in thread.frames)


def _is_of_no_interest(thread: DumpedThread) -> bool:
    """The agent's; or one of Python's that has not begun yet, or has ended: which waits for the
    GIL like any other, and may well be the agent's."""
    outermost = next((frame for frame in reversed(thread.frames) if frame.python), None)
    if outermost is not None:
        return is_agent(outermost.file)
    functions = {frame.function for frame in thread.frames}
    return _STARTS_THREADS in functions or bool(functions and functions <= _BEFORE_ANY_CODE)


def _names(
    dumped: Iterable[DumpedThread], known: dict[int, dict[str, Any]], pid: int
) -> dict[int, str]:
    """Python's name, else the kernel's. Of several with one name the second is `name #2`, so
    that each can be told from the others in the next sample."""
    names: dict[int, str] = {}
    times: dict[str, int] = defaultdict(int)
    dumped = sorted(dumped, key=lambda thread: thread.number)
    process = dumped[0].name
    for thread in dumped:
        # A thread that was given no name has that of the process.
        name = thread.name if thread.name != process else "native thread"
        if any(frame.python for frame in thread.frames):
            name = "MainThread" if thread.number == pid else "thread"
        if thread.number in known:
            name = pyspy.name(known[thread.number], pid)
        times[name] += 1
        names[thread.number] = name if times[name] == 1 else f"{name} #{times[name]}"
    return names


class _PythonFrames:
    """The frames of one thread as py-spy has seen them: Event.wait where pystack says wait."""

    def __init__(self, frames: Iterable[dict[str, Any]]) -> None:
        self._frames = {(f["filename"], f["line"], _short(f["name"])): f for f in frames}

    def with_full_name(self, frame: NativeFrame) -> NativeFrame:
        seen = self._frames.get((frame.file, frame.line, _short(frame.function)))
        return frame._replace(function=seen["name"]) if frame.python and seen else frame

    def locals(self, function: Any, file: Any, line: Any) -> dict[str, str]:
        seen = self._frames.get((file, line, _short(function)))
        return pyspy.locals_of(seen) if seen else {}


def _short(name: str) -> str:
    return name.rpartition(".")[2]
