"""Which thread does the program's work, where a framework keeps the main thread to itself.

Monarch's procs wait for the end of the world in their main thread, and each actor has a
thread of its own. What is asked about "the rank" (where it is, its stack, its variables)
means the thread that is at work, and that is the main thread where nobody says otherwise.
"""

from __future__ import annotations

from rankdbg.agent import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# In the order in which they came. Those at work are in both.
_known: dict[int, None] = {}
_at_work: dict[int, None] = {}
# What is at work there: a better name than the thread's own, which all of them share.
names: dict[int, str] = {}
# Called in a thread that begins. Before Python 3.12 nobody but a thread itself can have it
# traced, and that is its chance. (Looking into sys.modules for who may want it would find
# modules that another thread is importing, of which only half is there.)
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
    """The one that has been at work for longest: who hangs is that one, and not the one that
    answers somebody's heartbeat. If none is, the oldest that waits for work."""
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
    """Whether begin() is called in this thread before it does anything of the program's; the
    main thread never does, where others do the work."""
    if ident in _known:
        return ident not in _at_work
    return bool(_known) and ident == threads.main_thread()


def forget_all() -> None:
    """After a fork: the threads are the parent's."""
    _known.clear()
    _at_work.clear()
    names.clear()
