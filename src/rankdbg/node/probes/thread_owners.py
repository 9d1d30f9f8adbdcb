"""What the threads of a process wait for among themselves, and which of them may owe it, seen from outside.

py-spy names the objects in the variables of each frame by their addresses, and equal addresses are one
object. The thread that a join() waits for is certain; of a queue, an event or a lock it is one that
has the same object, or else the only other thread in the program's own code.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rankdbg.node.machine import syscalls
from rankdbg.node.probes import named_threads, pyspy
from rankdbg.process.user_code import innermost_user_frame, is_agent, is_user_code

_MOST_PROCESSES = 16  # py-spy needs some 30 ms for each
_LONGEST = 2.0  # seconds
_MOST_OWNERS = 8
_OBJECT = re.compile(r"<([\w.]+) at (0x[0-9a-f]+)>$")
_LOCKS = ("lock", "RLock", "_RLock")
# What every frame may have, and tells nothing.
_COMMON = ("module", "type", "function", "method", "builtin_function_or_method", "Namespace")
_BEGIN = ("run", "_bootstrap", "_bootstrap_inner", "_worker")  # of a thread, in these files
_FILES = ("/threading.py", "/queue.py", "/concurrent/futures/_base.py")
_KINDS = {
    ("threading.py", "join"): "thread",
    ("threading.py", "_wait_for_tstate_lock"): "thread",
    ("threading.py", "acquire"): "semaphore",
    ("threading.py", "__enter__"): "semaphore",
    ("threading.py", "wait_for"): "condition",
    ("queue.py", "get"): "queue",
    ("queue.py", "put"): "queue",
    ("queue.py", "join"): "queue",
    ("_base.py", "result"): "future",
    ("_base.py", "exception"): "future",
    ("_base.py", "wait"): "future",
    ("_base.py", "as_completed"): "future",
}
_WAITS = {"Event": "event", "Barrier": "barrier", "Condition": "condition"}

Dumped = dict[str, Any]


def look(keys: Iterable[tuple[int, int]], deadline: float) -> dict[tuple[int, int], dict[str, Any]]:
    """By (pid, start), in the form in which an agent tells it."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for pid, start in [*keys][:_MOST_PROCESSES]:
        seconds = min(_LONGEST, deadline - time.monotonic())
        if seconds <= 0:
            break
        dumped = named_threads.ask_pyspy(pid, seconds, with_locals=True)
        in_futex = {
            thread["os_thread_id"]
            for thread in dumped
            if thread.get("os_thread_id")
            and syscalls.call_target(pid, thread["os_thread_id"]).call == "futex"
        }
        found[pid, start] = {"threads": waits(dumped, pid, in_futex), "outside": True}
    return found


def waits(dumped: Sequence[Dumped], pid: int, in_futex: set[int]) -> list[dict[str, Any]]:
    """Of each thread that py-spy has seen. `in_futex`: those that wait for a lock, a thread or the
    GIL, by the kernel's numbers."""
    main = pyspy.find_main(dumped, pid)
    threads = [
        _Thread(each, pid, each is main, each.get("os_thread_id") in in_futex)
        for each in dumped
        if each["frames"] and not is_agent(each["frames"][-1]["filename"])
    ]
    return [{**thread.about(), "owners": _owners(thread, threads)} for thread in threads]


class _Thread:
    """One thread: what it waits for, and the objects that it has."""

    def __init__(self, dumped: Dumped, pid: int, main: bool, in_futex: bool) -> None:
        self.frames: list[Dumped] = dumped["frames"]
        self.main = main
        self.native: int = dumped.get("os_thread_id") or 0
        self.ident: int = self.native or dumped.get("thread_id") or 0
        self._name = pyspy.name(dumped, pid)
        self.kind, self.thing = "", ""  # what it waits for, and its address
        self.near: set[str] = set()  # the objects of the function that waits
        self._find_wait(in_futex)

    def _find_wait(self, in_futex: bool) -> None:
        inside = [*self._library_frames()]
        for frame in reversed(inside):
            if kind := _kind(frame):
                self.kind, self.thing = kind, _of_self(frame)
                break
        if not inside and in_futex and is_user_code(self.frames[0]["filename"]):
            self.kind = "lock"
            locks = [address for name, address in _objects(self.frames[0]) if name in _LOCKS]
            self.thing = locks[0] if len(locks) == 1 else ""
        if not self.kind and self._waits_in_event_loop():
            self.kind = "task"
        if self.kind and len(inside) < len(self.frames):
            near = _objects(self.frames[len(inside)])
            self.near = {address for name, address in near if name not in _COMMON}

    def _library_frames(self) -> Iterator[Dumped]:
        """The innermost frames, as far as they are those of threading, queue and futures."""
        for frame in self.frames:
            if not frame["filename"].endswith(_FILES) or _function(frame) in _BEGIN:
                return
            yield frame

    def _waits_in_event_loop(self) -> bool:
        in_loop = any(
            _function(f) == "run_until_complete" and "/asyncio/" in f["filename"]
            for f in self.frames
        )
        return in_loop and self.frames[0]["filename"].endswith("/selectors.py")

    @property
    def in_user_code(self) -> bool:
        return any(is_user_code(frame["filename"]) for frame in self.frames)

    @property
    def runs_task(self) -> bool:
        """Of a pool of threads."""
        return any(
            _function(f) == "run" and f["filename"].endswith("/concurrent/futures/thread.py")
            for f in self.frames
        )

    def is_thread(self, address: str) -> bool:
        """Whether it is the one of this object of class Thread."""
        first = [f for f in self.frames if _function(f).startswith("_bootstrap")]
        return bool(address) and any(_of_self(frame) == address for frame in first)

    def has_any(self, addresses: set[str]) -> bool:
        return any(address in addresses for frame in self.frames for _, address in _objects(frame))

    def about(self) -> dict[str, Any]:
        files = [frame["filename"] for frame in self.frames]
        at = self.frames[innermost_user_frame(files)]
        return {
            "id": self.ident,
            "native": self.native,
            "name": self._name,
            "main": self.main,
            "where": [at["name"], at["filename"], at["line"]],
            "kind": self.kind,
        }


def _owners(thread: _Thread, everyone: Sequence[_Thread]) -> list[dict[str, Any]]:
    """The threads that may owe it, and what shows that."""
    others = [other for other in everyone if other is not thread]
    found: list[_Thread] = []
    how = ""
    if thread.kind == "thread":
        found, how = [other for other in others if other.is_thread(thread.thing)], "end"
    elif thread.kind in ("future", "task"):
        found, how = [other for other in others if other.runs_task], "run"
    elif thread.kind:
        found, how = _sharing(thread, others)
    return [{"thread": other.ident, "how": how} for other in found[:_MOST_OWNERS]]


def _sharing(thread: _Thread, others: Sequence[_Thread]) -> tuple[list[_Thread], str]:
    """Those with the same object; else with another object of the function that waits; else the
    only one in the program's code."""
    others = [other for other in others if not _waits_for_the_same(thread, other)]
    if thread.thing and (found := [o for o in others if o.has_any({thread.thing})]):
        return found, "shares"
    users = [other for other in others if other.in_user_code]
    if found := [other for other in users if other.has_any(thread.near)]:
        return found, "beside"
    return (users, "alone") if len(users) == 1 else ([], "")


def _waits_for_the_same(one: _Thread, other: _Thread) -> bool:
    if one.kind != other.kind:
        return False
    if one.thing or other.thing:
        return one.thing == other.thing
    same = ("name", "filename", "line")
    return all(one.frames[0][key] == other.frames[0][key] for key in same)


def _kind(frame: Dumped) -> str:
    function = _function(frame)
    if function == "wait" and frame["filename"].endswith("/threading.py"):
        # Before Python 3.11 a function has no class: then its object tells.
        name = frame["name"].rpartition(".")[0] or _class_of_self(frame)
        return _WAITS.get(name, "")
    return _KINDS.get((frame["filename"].rpartition("/")[2], function), "")


def _function(frame: Dumped) -> str:
    return str(frame["name"]).rpartition(".")[2]


def _objects(frame: Dumped) -> Iterator[tuple[str, str]]:
    """The class and address of each variable that is an object."""
    return ((kind, address) for _, kind, address in _named(frame))


def _of_self(frame: Dumped) -> str:
    return next((address for name, _, address in _named(frame) if name == "self"), "")


def _class_of_self(frame: Dumped) -> str:
    return next((kind for name, kind, _ in _named(frame) if name == "self"), "")


def _named(frame: Dumped) -> Iterator[tuple[str, str, str]]:
    """With the name of the variable."""
    for entry in frame.get("locals") or ():
        if found := _OBJECT.match(str(entry["repr"])):
            yield entry["name"], found[1].rpartition(".")[2], found[2]
