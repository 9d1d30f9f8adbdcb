"""Which thread does the program's work, where a framework occupies the main thread.

In a proc of Monarch the main thread waits until the proc exits, and each actor has a thread of
its own. Questions about "the rank" (where it is, its stack, its variables) mean the thread that
does the work. Without such a framework, that is the main thread.
"""

from __future__ import annotations

from rankdbg.agent import active, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Threads that get work from a framework, oldest first. Those at work are in both.
_known: dict[int, None] = {}
_at_work: dict[int, None] = {}
# The name of the actor in each thread: the threads themselves all have the same name.
names: dict[int, str] = {}
# Called in a thread that begins a piece of work. Before Python 3.12 only a thread itself can
# turn on its tracing, and this is when it can.
at_begin: list[Callable[[], None]] = []


def begin() -> None:
    """The calling thread is about to do a piece of the program's work."""
    ident = threads.get_ident()
    _known[ident] = None
    _at_work[ident] = None
    for action in at_begin:
        action()


def end() -> None:
    _at_work.pop(threads.get_ident(), None)


def program_thread() -> int:
    """The one that has been at work for longest: that is the one that hangs, not the one that
    answers a heartbeat. If none is at work, the oldest that waits for work."""
    if not _known:
        return threads.main_thread()
    living = threads.living()
    for ident in list(_known):
        if ident not in living:
            _known.pop(ident, None)
            _at_work.pop(ident, None)
            names.pop(ident, None)
    return next(iter([*_at_work, *_known]), threads.main_thread())


def joins_by_itself(ident: int) -> bool:
    """Whether begin() is called in this thread before it executes the program's code. Where
    other threads do the work, the main thread never executes it."""
    if ident in _known:
        return ident not in _at_work
    return bool(_known) and ident == threads.main_thread()


def _after_fork() -> None:
    """The child has none of these threads."""
    _known.clear()
    _at_work.clear()
    names.clear()


active.after_fork.append(_after_fork)
