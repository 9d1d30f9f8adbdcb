"""The thread that holds the mutex for which a thread waits: those of C, C++ and their libraries.

A mutex of glibc (pthread_mutex_t, which std::mutex is) has the number of its owner in it. A thread
that waits for one is in the system call futex, with the address of the mutex. Condition variables,
semaphores and Python's locks wait there as well: they are told apart by the kind of that call, and by
all that glibc keeps in a mutex. Memory is read for such threads alone; nothing is stopped.
"""

from __future__ import annotations

import struct

from rankdbg.node.machine import processes, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

# Operations of linux/futex.h. A condition variable or semaphore of glibc waits with another one (9).
_WAIT, _LOCK_PI, _LOCK_PI2 = 0, 6, 13
_CONTENDED = 2  # the number in an ordinary mutex that is held, and for which a thread waits
_WAITERS, _OWNER = 0x80000000, 0x3FFFFFFF  # parts of that in others: linux/futex.h
# Of pthread_mutex_t, the same on x86-64 and aarch64: lock, count, owner, users, kind, spins; then
# two pointers of a list in which only robust ones are.
_LAYOUT = struct.Struct("<IIiIiIQQ")
_KINDS, _ROBUST, _INHERITS = 0x3FF, 0x10, 0x20
_MOST_USERS = 1 << 20  # threads that hold it, or wait for a condition with it


class Mutex(NamedTuple):
    address: int
    holder: int  # the number of a thread of the same process; 0: one of its parent, before a fork


def find(pid: int, thread: int = 0) -> Mutex | None:
    """The mutex for which a thread of a process, or its main one, waits; None if it waits for
    something else, or if the holder is not known."""
    wait = syscalls.futex_wait(pid, thread)
    if wait is None or wait.timed:
        return None
    owner = _owner(pid, wait)
    # A thread that has moved on waits for another one, and what was read is of no use.
    if not owner or syscalls.futex_wait(pid, thread) != wait:
        return None
    holder = _thread_here(pid, owner)
    if not holder and not _thread_here(processes.parent(pid), owner):
        return None
    return Mutex(wait.address, holder)


def _owner(pid: int, wait: syscalls.FutexWait) -> int:
    """As the process numbers its threads; 0 if this is no mutex that is held."""
    raw = syscalls.read_memory(pid, wait.address, _LAYOUT.size)
    if len(raw) < _LAYOUT.size:
        return 0
    lock, count, owner, users, kind, _, previous, following = _LAYOUT.unpack(raw)
    if wait.operation in (_LOCK_PI, _LOCK_PI2):  # the kernel itself prescribes the owner's place
        return int(lock & _OWNER)
    is_known_kind = not kind & ~_KINDS and not kind & _INHERITS
    is_used = 0 < users < _MOST_USERS and count < _MOST_USERS
    if wait.operation != _WAIT or lock != wait.expected or not (is_known_kind and is_used):
        return 0
    if kind & _ROBUST:
        is_held = lock == owner | _WAITERS
    else:
        is_held = lock == _CONTENDED and previous == following == 0
    return int(owner) if is_held else 0


def _thread_here(pid: int, number: int) -> int:
    """A thread of the process, as this machine numbers it; 0 if there is none. In a container a
    process counts its threads for itself."""
    threads = processes.threads(pid)
    if processes.pid_inside(pid) == pid:
        return number if number in threads else 0
    return next((each for each in threads if processes.pid_inside(each) == number), 0)
