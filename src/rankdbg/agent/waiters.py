"""Threads and tasks of this process, and which of them use a lock, event, queue or future, and how."""

from __future__ import annotations

from rankdbg.agent import stacks
from rankdbg.agent.lock_code import WITH, attribute
from rankdbg.process import user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

    from rankdbg.agent.lock_code import Codes, Use

_KINDS = {
    ("threading", "Thread"): "thread",
    ("threading", "Event"): "event",
    ("threading", "Barrier"): "barrier",
    ("threading", "Semaphore"): "semaphore",
    ("threading", "Condition"): "condition",
    ("threading", "_RLock"): "lock",
    ("_thread", "lock"): "lock",
    ("_thread", "RLock"): "lock",
    ("queue", "Queue"): "queue",
    ("_queue", "SimpleQueue"): "queue",
    ("concurrent.futures._base", "Future"): "future",
    ("asyncio.locks", "Lock"): "lock",
    ("asyncio.locks", "Event"): "event",
    ("asyncio.locks", "Barrier"): "barrier",
    ("asyncio.locks", "Semaphore"): "semaphore",
    ("asyncio.locks", "Condition"): "condition",
    ("asyncio.queues", "Queue"): "queue",
    ("_asyncio", "Future"): "future",
    ("asyncio.futures", "Future"): "future",
}
HOLD = (WITH, "acquire")
# Which calls end a wait: by the kind, and by the call that waits.
PROVIDE = {
    "event": ("set",),
    "condition": ("notify", "notify_all", "notifyAll"),
    "semaphore": ("release",),
    "barrier": ("wait", "abort"),
    "future": ("set_result", "set_exception"),
    "queue get": ("put", "put_nowait"),
    "queue put": ("get", "get_nowait"),
    "queue join": ("task_done",),
}
_USING = {*HOLD, "release", *(call for calls in PROVIDE.values() for call in calls)}


class Waiter:
    """A thread or a task: its frames, innermost first, and what it waits for."""

    def __init__(self, ident: int, frames: list[FrameType]) -> None:
        self.ident, self.frames = ident, frames
        self.kind, self.call, self.name = "", "", ""
        self.thing: Any = None  # what it waits for
        self.targets: list[Any] = []  # tasks and futures that it awaits
        self.descriptor = -1  # of a stream
        self.child = 0

    def calls(self) -> Iterator[tuple[FrameType, FrameType | None]]:
        """Each frame, and the one that it has called."""
        return zip(self.frames, [None, *self.frames], strict=False)

    def place(self) -> list[Any] | None:
        """The innermost line of the user's."""
        if not self.frames:
            return None
        files = (frame.f_code.co_filename for frame in self.frames)
        return place(self.frames[user_code.innermost_user_frame(files)])


def place(frame: FrameType, line: int = 0) -> list[Any]:
    code = frame.f_code
    return [code.co_name, code.co_filename, line or frame.f_lineno or code.co_firstlineno]


def kind_of(thing: Any) -> str:
    for each in type(thing).__mro__:
        if kind := _KINDS.get((each.__module__, each.__name__)):
            return kind
    return ""


def owner(ident: int, how: str, where: list[Any] | None = None, name: str = "") -> dict[str, Any]:
    """One that owes something: `how` is what shows it."""
    return {"thread": ident, "how": how, "where": where, "name": name}


class Uses:
    """Who uses which of these things, and how, in any of its frames. Read once, and only if
    a thread or task waits."""

    def __init__(self, everyone: Iterable[Waiter], codes: Codes) -> None:
        self._codes = codes
        self._found: dict[int, list[tuple[Waiter, FrameType, Use, Any]]] = {}
        # By thing and methods: a thousand tasks may wait for the same.
        self._owners: dict[tuple[int, tuple[str, ...]], list[dict[str, Any]]] = {}
        for waiter in everyone:
            for frame, called in waiter.calls():
                for use, thing in codes.uses(frame, called, _USING):
                    if kind := kind_of(thing):
                        self._add(thing, waiter, frame, use)
                    if kind == "condition":
                        self._add(attribute(thing, "_lock"), waiter, frame, use)

    def _add(self, thing: Any, waiter: Waiter, frame: FrameType, use: Use) -> None:
        self._found.setdefault(id(thing), []).append((waiter, frame, use, thing))

    def owners(
        self, thing: Any, methods: tuple[str, ...], without: Waiter | None = None
    ) -> list[dict[str, Any]]:
        """Those that call one of these methods of it; for locks, that hold it now."""
        key = id(thing), methods
        if key not in self._owners:
            self._owners[key] = self._find_owners(thing, methods)
        known = self._owners[key]
        return [each for each in known if without is None or each["thread"] != without.ident]

    def _find_owners(self, thing: Any, methods: tuple[str, ...]) -> list[dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for waiter, frame, use, _ in self._found.get(id(thing), ()):
            if use.method in methods and (
                use.method not in HOLD or self._codes.is_held(frame, use)
            ):
                owes = owner(waiter.ident, use.method, place(frame, use.line), use.text)
                found.setdefault(waiter.ident, owes)
        return [*found.values()]


def variables(frame: FrameType) -> dict[str, Any]:
    return stacks.variables(frame, None)
