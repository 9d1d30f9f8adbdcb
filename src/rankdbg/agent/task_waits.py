"""The tasks of asyncio: the frames of their coroutines, and what they await.

Read from attributes that Python's own classes have; nothing of the program or of its loop is called.
"""

from __future__ import annotations

import gc
import sys
from _weakref import ref

from rankdbg.agent.lock_code import WITH, attribute
from rankdbg.agent.waiters import Waiter, kind_of, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

    from rankdbg.agent.lock_code import Codes

_MOST_TASKS = 1000
_DEEPEST = 200  # coroutines of one task, and futures behind each other
_FRAMES = {"coroutine": "cr_frame", "generator": "gi_frame", "async_generator": "ag_frame"}
_AWAITED = {"coroutine": "cr_await", "generator": "gi_yieldfrom", "async_generator": "ag_await"}
# What lies between two of these, and only the garbage collector can look through.
_OPAQUE = (
    "async_generator_asend",
    "async_generator_athrow",
    "coroutine_wrapper",
    "anext_awaitable",
)
# The variable or attribute with what a function of asyncio awaits.
_SEVERAL = {"wait": "fs", "_wait": "fs", "wait_for": "fut"}
# What a callback that passes a result on has the source of that result as.
_SOURCES = ("source", "inner")


class Task(Waiter):
    def __init__(self, task: Any) -> None:
        super().__init__(id(task), [*_frames(attribute(task, "_coro"))][::-1])
        self.task = task
        self.is_timed = False  # its wait ends by itself, and it may begin the same again

    def wait_ident(self) -> int:
        """Another one for each wait; 0: not known, or a timer may have ended the last one."""
        future = attribute(self.task, "_fut_waiter")
        return 0 if future is None or self.is_timed else _numbers.of(future)

    def title(self) -> str:
        """As the program has named it; else by its coroutine."""
        given = self._given_name()
        return f"{coroutine} ({given})" if (coroutine := self.coroutine()) else given

    def coroutine(self) -> str:
        """The outermost function of a task that the program has not named; else ``."""
        unnamed = self.frames and self.is_unnamed()
        return self.frames[-1].f_code.co_name if unnamed else ""

    def is_unnamed(self) -> bool:
        return self._given_name().startswith("Task-")

    def number(self) -> int:
        """Another one for each task of the process."""
        return _numbers.of(self.task)

    def _given_name(self) -> str:
        own = getattr(sys.modules.get("_asyncio"), "Task", None)
        is_own = own is not None and issubclass(type(self.task), own)
        name = own.get_name(self.task) if own is not None and is_own else None
        return str(attribute(self.task, "_name") if name is None else name)


class _Numbers:
    """Of objects: an address is used again for another one."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], int]] = {}
        self._last = 0

    def of(self, thing: Any) -> int:
        known = self._known.get(id(thing))
        if known is None or known[0]() is not thing:
            if len(self._known) > 2 * _MOST_TASKS:
                self._known.clear()
            self._last += 1
            known = self._known[id(thing)] = ref(thing), self._last
        return known[1]


_numbers = _Numbers()


def find_tasks(codes: Codes) -> list[Task]:
    """Those that have not ended, each with what it waits for."""
    tasks = [Task(task) for task in _pending_tasks()[:_MOST_TASKS]]
    for task in tasks:
        _find_wait(task, codes)
    return tasks


def count_unread() -> int:
    """Tasks beyond those that are read; one that began meanwhile is none."""
    return max(0, len(_pending_tasks()) - _MOST_TASKS)


def _pending_tasks() -> list[Any]:
    module = sys.modules.get("asyncio.tasks")
    known: list[Any] = []
    for name in ("_all_tasks", "_scheduled_tasks"):  # until Python 3.11, and later
        weak = attribute(getattr(module, name, None), "data")
        known += [reference() for reference in _copy(weak)]
    known += _copy(getattr(module, "_eager_tasks", None))
    tasks = [task for task in known if attribute(task, "_state") == "PENDING"]
    return sorted(tasks, key=id)


def _copy(tasks: Any) -> list[Any]:
    for _ in range(10):
        try:
            return [*tasks] if type(tasks) in (set, frozenset) else []
        except RuntimeError:  # it has just changed
            continue
    return []


def _frames(awaited: Any) -> Iterator[FrameType]:
    """Of coroutines that await each other, outermost first."""
    for _ in range(_DEEPEST):
        kind = type(awaited).__name__
        if kind in _OPAQUE:
            inside = [each for each in gc.get_referents(awaited) if type(each).__name__ in _FRAMES]
            awaited = inside[0] if inside else None
            continue
        if kind not in _FRAMES:
            return
        if (frame := getattr(awaited, _FRAMES[kind])) is not None:
            yield frame
        awaited = getattr(awaited, _AWAITED[kind])


# --- what a task waits for --------------------------------------------------------------------


def _find_wait(task: Task, codes: Codes) -> None:
    future = attribute(task.task, "_fut_waiter")
    if future is None:  # it is about to run, or runs
        return
    inside = _frames_of_asyncio(task)
    if not any(_find_by_frame(task, frame) for frame in reversed(inside)):
        depends = attribute(future, "_coro") or attribute(future, "_children")
        task.kind = "future" if depends is None else "task"
        task.thing, task.targets = future, [future]
    caller = task.frames[len(inside)] if len(inside) < len(task.frames) else None
    use = codes.current(caller) if caller is not None else None
    if use is not None and task.kind not in ("sleep", "stream", "child"):
        named = use.method in (task.call, WITH)
        task.name = use.text if named else ""


def _frames_of_asyncio(task: Task) -> list[FrameType]:
    found = []
    for frame in task.frames:
        if "/asyncio/" not in frame.f_code.co_filename:
            break
        found.append(frame)
    return found


def _find_by_frame(task: Task, frame: FrameType) -> bool:
    """By a function of asyncio that the task is in: the outermost that tells."""
    function, given = frame.f_code.co_name, variables(frame)
    file = frame.f_code.co_filename.rpartition("/")[2]
    this: Any = given.get("self")
    if file == "tasks.py" and function == "sleep":
        task.kind, task.name = "sleep", f"{given.get('delay')} s"
    elif file == "tasks.py" and function in _SEVERAL:
        task.targets = _copied(given.get(_SEVERAL[function]))
        task.is_timed = given.get("timeout") is not None
    elif file == "taskgroups.py":
        task.targets = _copied(attribute(this, "_tasks"))
    elif file in ("locks.py", "queues.py") and (kind := kind_of(this)):
        task.kind, task.call, task.thing = kind, function, this
    elif file in ("subprocess.py", "base_subprocess.py"):
        transport = attribute(this, "_transport") if file == "subprocess.py" else this
        pid = attribute(transport, "_pid")
        task.kind, task.child = "child", pid if type(pid) is int else 0
    elif file in ("streams.py", "selector_events.py"):
        task.descriptor = _descriptor(given.get("sock", attribute(this, "_transport")))
        task.kind = "stream" if task.descriptor >= 0 else ""
    if task.targets:
        task.kind = "task"
    return bool(task.kind)


def _copied(several: Any) -> list[Any]:
    if type(several) in (set, frozenset):
        return sorted(_copy(several), key=id)
    return [*several] if type(several) in (list, tuple) else [several]


def _descriptor(transport: Any) -> int:
    """Of a transport, also below one of TLS, or of a socket."""
    socket = getattr(sys.modules.get("_socket"), "socket", None)
    if socket is not None and issubclass(type(transport), socket):
        return int(socket.fileno(transport))
    below = attribute(attribute(transport, "_ssl_protocol"), "_transport")
    below = transport if below is None else below
    for name in ("_sock_fd", "_fileno"):
        if type(number := attribute(below, name)) is int:
            return number
    return -1


def find_loop_wait(thread: Waiter) -> None:
    """Of a thread whose event loop has nothing to do: the task for which the loop runs."""
    innermost = thread.frames[0].f_code.co_filename
    if not innermost.endswith(("/selectors.py", "/asyncio/base_events.py", "/asyncio/runners.py")):
        return
    for frame in thread.frames:
        code = frame.f_code
        if "/asyncio/" in code.co_filename and code.co_name in ("run_until_complete", "run"):
            given = variables(frame)
            future = given.get("future", given.get("task"))
            if attribute(future, "_state") == "PENDING":
                thread.kind, thread.thing, thread.targets = "task", future, [future]
                return


# --- who owes it ------------------------------------------------------------------------------


def ends(future: Any, depth: int = 0) -> Iterator[Any]:
    """The tasks, and the futures that no other one resolves, on which this one depends."""
    if attribute(future, "_state") not in ("PENDING", "RUNNING") or depth > _DEEPEST:
        return
    if attribute(future, "_coro") is not None:
        yield future
        return
    gathered = attribute(future, "_children")
    behind = [*gathered] if type(gathered) is list else [*_sources(future)]
    for each in behind:
        yield from ends(each, depth + 1)
    if not behind:
        yield future


def _sources(future: Any) -> Iterator[Any]:
    """The futures whose result becomes that of this one, by callbacks of asyncio's own."""
    callbacks = attribute(future, "_callbacks") or attribute(future, "_done_callbacks")
    for each in [*callbacks] if type(callbacks) is list else []:
        function = each[0] if type(each) is tuple else each
        if (
            type(function).__name__ != "function"
            or "/asyncio/" not in function.__code__.co_filename
        ):
            continue
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in cells:
            if name in _SOURCES and cell.cell_contents is not future:
                yield cell.cell_contents


def loops_to_run(future: Any, threads: list[Waiter]) -> Iterator[Waiter]:
    """The threads whose event loops have yet to begin what resolves this future."""
    for thread in threads:
        for frame in thread.frames:
            code = frame.f_code
            if code.co_name == "_run_once" and "/asyncio/" in code.co_filename:
                ready = attribute(variables(frame).get("self"), "_ready")
                if any(_is_for(handle, future) for handle in _waiting_handles(ready)):
                    yield thread


def _waiting_handles(ready: Any) -> list[Any]:
    try:
        return [*ready][:_MOST_TASKS] if type(ready).__name__ == "deque" else []
    except RuntimeError:  # it has just changed
        return []


def _is_for(handle: Any, future: Any) -> bool:
    function = attribute(handle, "_callback")
    if type(function).__name__ != "function" or "/asyncio/" not in function.__code__.co_filename:
        return False
    return any(cell.cell_contents is future for cell in function.__closure__ or ())
