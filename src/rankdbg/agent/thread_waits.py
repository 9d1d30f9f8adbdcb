"""What the threads of this process wait for among themselves: locks, conditions, events, queues,
futures, the end of a thread, tasks of asyncio; and which threads and tasks hold it, or have to
provide it.

RLocks know their owner. Of other locks it is the thread whose frames are inside of the `with`; an
event is set by a thread whose functions call its set(). Nothing of the program is called or changed.
"""

from __future__ import annotations

import sys

from rankdbg.agent import active, stacks, store_keys, task_waits, threads, workers
from rankdbg.agent.lock_code import WITH, Codes, attribute, look_up
from rankdbg.agent.waiters import HOLD, PROVIDE, Uses, Waiter, kind_of, owner, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

    from rankdbg.agent.task_waits import Task

    WaitOf = Callable[[Waiter], dict[str, Any]]

_MOST_THREADS = 256
MOST_OWNERS = 8
_FILES = (
    "/threading.py",
    "/queue.py",
    "/concurrent/futures/_base.py",
    "/concurrent/futures/thread.py",
)
_BEGIN = ("run", "_bootstrap", "_bootstrap_inner", "_worker")  # of a thread, in these files
_AT_EXIT = "_shutdown"  # of threading: joins all threads that are no daemons
_WAITING_CALLS = (*HOLD, "__enter__", "get", "put", "join", "wait", "result", "exception")


def collect() -> dict[str, Any]:
    """The threads that wait for such a thing, and those that owe it."""
    codes = Codes()
    everyone, tasks, wait_of = look(codes)
    described = [{**_about(thread), **wait_of(thread)} for thread in everyone]
    return {
        "threads": [*described, *_reached(described, tasks, wait_of)],
        "forked": active.forked,
        "keys": store_keys.collect(everyone, codes) if "torch" in sys.modules else [],
    }


def look(
    codes: Codes | None = None, with_tasks: bool = False
) -> tuple[list[Waiter], list[Task], WaitOf]:
    """All threads and tasks, and a function that tells for what one of them waits, and who owes it.
    Tasks are looked for if a thread waits, or in any case `with_tasks`."""
    codes = codes or Codes()
    everyone = [*_threads()][:_MOST_THREADS]
    for thread in everyone:
        _find_wait(thread, codes)
    waits = with_tasks or any(thread.kind for thread in everyone)
    tasks = task_waits.find_tasks(codes) if waits else []
    waiters = [*everyone, *tasks]
    return everyone, tasks, _Owing(waiters, Uses(waiters if waits else [], codes)).wait_of


def _reached(threads: list[dict[str, Any]], tasks: list[Task], wait_of: WaitOf) -> list[Any]:
    """The tasks for which threads wait, and those for which these do."""
    by_ident = {task.ident: task for task in tasks}
    ahead = [each["thread"] for thread in threads for each in thread.get("owners", ())]
    found: dict[int, dict[str, Any]] = {}
    while ahead:
        task = by_ident.get(ahead.pop(0))
        if task is not None and task.ident not in found:
            found[task.ident] = {
                "id": task.ident,
                "name": task.title(),
                "where": task.place(),
                "task": True,
                "wait": task.wait_ident(),
                **wait_of(task),
            }
            ahead += [each["thread"] for each in found[task.ident].get("owners", ())]
    return [*found.values()]


def _threads() -> Iterator[Waiter]:
    own = {*threads.own}
    for ident, innermost in stacks.innermost_frames().items():
        thread = Waiter(ident, [*stacks.walk(innermost)])
        if ident not in own and not threads.is_own(thread.frames[-1]):
            yield thread


def _about(thread: Waiter) -> dict[str, Any]:
    return {
        "id": thread.ident,
        "native": _native_id(thread.ident),
        "name": stacks.thread_name(thread.ident),
        "main": thread.ident == workers.program_thread(),
        "where": thread.place(),
    }


def _native_id(ident: int) -> int:
    known = getattr(sys.modules.get("threading"), "_active", {}).get(ident)
    return attribute(known, "_native_id") or 0


# --- what a thread waits for ------------------------------------------------------------------


def _find_wait(thread: Waiter, codes: Codes) -> None:
    inside = _frames_of_library(thread)
    if thread.frames[0].f_code.co_filename.startswith("<frozen importlib"):
        _find_import(thread)
    elif inside:
        _find_by_object(thread, inside, codes)
    else:
        _find_by_code(thread, codes)
    if not thread.kind:
        task_waits.find_loop_wait(thread)


def _find_import(thread: Waiter) -> None:
    """A module that another thread imports."""
    lock = variables(thread.frames[0]).get("self")
    if thread.frames[0].f_code.co_name == "acquire" and type(lock).__name__ == "_ModuleLock":
        thread.kind, thread.thing = "import", lock
        thread.name = str(attribute(lock, "name"))


def _frames_of_library(thread: Waiter) -> list[FrameType]:
    """The innermost frames, as far as they are those of threading, queue and futures."""
    found = []
    for frame in thread.frames:
        code = frame.f_code
        if not code.co_filename.endswith(_FILES) or code.co_name in _BEGIN:
            break
        found.append(frame)
    return found


def _find_by_object(thread: Waiter, inside: list[FrameType], codes: Codes) -> None:
    """The outermost object that is waited for: a queue, not the condition in it."""
    caller = thread.frames[len(inside)] if len(inside) < len(thread.frames) else None
    use = codes.current(caller) if caller is not None else None
    for frame in reversed(inside):
        thing = _thing_in(frame)
        if kind := kind_of(thing):
            thread.kind, thread.call, thread.thing = kind, frame.f_code.co_name, thing
            calls_it = use is not None and use.method in (thread.call, WITH)
            thread.name = use.text if use is not None and calls_it else ""
            break
    first = inside[0]
    if first.f_code.co_name == _AT_EXIT and not thread.kind:
        thread.kind, thread.call = "thread", _AT_EXIT
    if first.f_code.co_name == "__enter__" and thread.kind in ("condition", "queue"):
        condition = variables(first).get("self")
        thread.kind, thread.thing = "lock", attribute(condition, "_lock")


def _thing_in(frame: FrameType) -> Any:
    given = variables(frame)
    several: Any = given.get("pending", given.get("fs"))
    if type(several) in (set, frozenset, list, tuple):
        for future in [*several]:
            if attribute(future, "_state") in ("PENDING", "RUNNING"):
                return future
    return given.get("self")


def _find_by_code(thread: Waiter, codes: Codes) -> None:
    """By what the innermost function has called in C."""
    frame = thread.frames[0]
    use = codes.current(frame)
    if use is None or use.method not in _WAITING_CALLS:
        return
    thing = look_up(use.path, variables(frame), frame.f_globals)
    if kind := kind_of(thing):
        thread.kind, thread.call, thread.thing, thread.name = kind, use.method, thing, use.text


# --- who owes it ------------------------------------------------------------------------------


class _Owing:
    """Who of all threads and tasks owes what one of them waits for."""

    def __init__(self, everyone: list[Waiter], uses: Uses) -> None:
        self._everyone, self._uses = everyone, uses
        # Tasks run in these: looking at all tasks for each of a thousand would take seconds.
        self._threads = [each for each in everyone if not isinstance(each, task_waits.Task)]

    def wait_of(self, waiter: Waiter) -> dict[str, Any]:
        if not waiter.kind:
            return {}
        return {
            "kind": waiter.kind,
            "awaits": waiter.name,
            "owners": self._owners(waiter)[:MOST_OWNERS],
            "held": waiter.kind == "lock" and _is_locked(waiter.thing),
            "descriptor": waiter.descriptor,
            "child": waiter.child,
        }

    def _owners(self, waiter: Waiter) -> list[dict[str, Any]]:
        if waiter.call == _AT_EXIT:
            return [
                owner(other.ident, "end") for other in self._others(waiter) if _is_joined(other)
            ]
        if waiter.kind == "thread":
            ended = attribute(waiter.thing, "_ident") or 0
            return [owner(ended, "end")] if ended else []
        if waiter.kind == "import":
            importing = attribute(waiter.thing, "owner") or 0
            return [owner(importing, "import")] if importing else []
        if waiter.kind == "lock":
            return self._holders(waiter)
        if waiter.kind in ("task", "future"):
            targets = waiter.targets or [waiter.thing]
            found = [
                self._of_future(end, waiter) for each in targets for end in task_waits.ends(each)
            ]
            return [*{each["thread"]: each for owners in found for each in owners}.values()]
        if waiter.kind == "child":
            return [*_reapers(waiter.child, self._others(waiter))]
        methods = PROVIDE.get(waiter.kind) or PROVIDE.get(f"{waiter.kind} {waiter.call}", ())
        found_uses = self._uses.owners(waiter.thing, methods, without=waiter)
        if waiter.kind == "barrier":
            there = {each.ident for each in self._everyone if each.thing is waiter.thing}
            return [each for each in found_uses if each["thread"] not in there]
        if waiter.kind == "semaphore":
            return self._uses.owners(waiter.thing, HOLD, without=waiter) or found_uses
        return found_uses

    def _others(self, waiter: Waiter) -> list[Waiter]:
        return [thread for thread in self._threads if thread is not waiter]

    def _of_future(self, future: Any, waiter: Waiter) -> list[dict[str, Any]]:
        if attribute(future, "_coro") is not None:
            return [owner(id(future), "await")]
        others = self._others(waiter)
        loops = task_waits.loops_to_run(future, [*others, waiter])
        return (
            [*_runners(future, others)]
            or [owner(loop.ident, "loop") for loop in loops]
            or self._uses.owners(future, PROVIDE["future"], without=waiter)
            or _pool_of(waiter, others, future)
        )

    def _holders(self, waiter: Waiter) -> list[dict[str, Any]]:
        """Also the one that waits: a Lock is not released by taking it again."""
        inside = self._uses.owners(waiter.thing, HOLD)
        by_python = _owner_of(waiter.thing)
        if not by_python:
            taken_twice = all(holder["thread"] == waiter.ident for holder in inside)
            # A Lock may be released by another thread than the one that has taken it.
            by_others = self._uses.owners(waiter.thing, ("release",), without=waiter)
            releasing = by_others if taken_twice else []
            return (releasing or inside) if _is_locked(waiter.thing) else []
        places = [holder["where"] for holder in inside if holder["thread"] == by_python]
        exists = any(by_python == other.ident for other in self._everyone)
        how = "owner" if exists else "gone"
        return [owner(by_python if exists else 0, how, *(places or [None])[:1])]


def _is_joined(thread: Waiter) -> bool:
    """At exit."""
    known = getattr(sys.modules.get("threading"), "_active", {}).get(thread.ident)
    return attribute(known, "_daemonic") is False


def _owner_of(lock: Any) -> int:
    """0 if it has none, or Python does not know it."""
    if type(lock).__name__ == "_RLock":
        return attribute(lock, "_owner") or 0
    if type(lock).__name__ != "RLock":
        return 0
    # <locked _thread.RLock object owner=140 count=1 at 0x7f>
    _, _, rest = repr(lock).partition(" owner=")
    digits = rest.partition(" ")[0]
    return int(digits) if digits.isdigit() else 0


def _is_locked(lock: Any) -> bool:
    if type(lock).__name__ == "lock":
        return bool(lock.locked())
    if type(lock).__module__ == "asyncio.locks":
        return bool(attribute(lock, "_locked"))
    return bool(_owner_of(lock))


def _runners(future: Any, others: list[Waiter]) -> Iterator[dict[str, Any]]:
    """The thread of a pool that runs its task."""
    for other in others:
        for frame in other.frames:
            code = frame.f_code
            if code.co_name == "run" and code.co_filename.endswith("/concurrent/futures/thread.py"):
                item = variables(frame).get("self")
                if attribute(item, "future") is future:
                    yield owner(other.ident, "run")


def _reapers(child: int, others: list[Waiter]) -> Iterator[dict[str, Any]]:
    """The thread of asyncio that waits for the end of this child."""
    for other in others:
        for frame in other.frames:
            code = frame.f_code
            waits = code.co_name == "_do_waitpid" and "/asyncio/" in code.co_filename
            if waits and variables(frame).get("expected_pid") == child:
                yield owner(other.ident, "end")


def _pool_of(thread: Waiter, others: list[Waiter], future: Any) -> list[dict[str, Any]]:
    """The task waits in the queue of a pool: its threads, if there is one pool, all of them busy."""
    if kind_of(future) != "future" or type(future).__module__ != "concurrent.futures._base":
        return []
    pools = [(_work_queue(other), other) for other in [thread, *others]]
    pools = [(queue, other) for queue, other in pools if queue is not None]
    busy = [
        other for _, other in pools if any(f.f_code.co_name == "run" for f in other.frames[:-1])
    ]
    if len({id(queue) for queue, _ in pools}) != 1 or len(busy) != len(pools):
        return []
    return [owner(other.ident, "queued") for other in busy]


def _work_queue(thread: Waiter) -> Any:
    for frame in thread.frames:
        code = frame.f_code
        if code.co_name == "_worker" and code.co_filename.endswith("/concurrent/futures/thread.py"):
            return variables(frame).get("work_queue")
    return None
