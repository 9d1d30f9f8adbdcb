"""SIGTERM, in a rank that nsys captures: what CUDA has gathered there is handed over before.

The signal ends a process as it stands, and with it what nsys's library in it has buffered: the
report would be there, without a single kernel. So a thread of the agent's is told of the signal,
hands over, and ends the process as the signal would have. (The main thread, in which Python runs
handlers, may be in a collective that never returns.) A program that handles the signal itself is
left to do so.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
from time import sleep

from rankdbg.agent import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# A GPU that hangs may not answer; and torchrun kills what has not ended in 30 s.
MOST_SECONDS = 10.0
_NUMBER = _signal.SIGTERM

_writing = -1
_masks: dict[int, Any] = {}  # of threads that are forking


def hold(hand_over: Callable[[], None]) -> None:
    """In the main thread, before the program begins."""
    global _writing
    if _signal.getsignal(_NUMBER) != _signal.SIG_DFL:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        others = _signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if others >= 0:
            _signal.set_wakeup_fd(others)
            raise ValueError("somebody else is told of signals")
        _signal.signal(_NUMBER, _tell)
    except ValueError:
        os.close(reading)
        os.close(writing)
        return
    _writing = writing
    os.register_at_fork(before=_put_off, after_in_parent=_let_come, after_in_child=_forget_in_child)
    threads.start(lambda: _wait(reading, hand_over))


# --- forks: a child has no thread that waits, and the pipe is its parent's -----------------------


def _put_off() -> None:
    """Until the child is no longer told of signals where its parent is."""
    _masks[threads.get_ident()] = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_NUMBER})


def _let_come() -> None:
    before = _masks.pop(threads.get_ident(), None)
    if before is not None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _forget_in_child() -> None:
    global _writing
    if _writing >= 0:
        if _is_ours():
            _signal.signal(_NUMBER, _signal.SIG_DFL)
        descriptor = _signal.set_wakeup_fd(-1)
        if descriptor not in (-1, _writing):
            _signal.set_wakeup_fd(descriptor)
        _writing = -1
    _let_come()


# --- the signal ---------------------------------------------------------------------------------


def _tell(number: int, frame: Any) -> None:
    """In the main thread, and needed only where an event loop is told of signals by now."""
    try:
        os.write(_writing, bytes([number]))
    except OSError:  # full: the thread has enough to read
        pass


def _is_ours() -> bool:
    return _signal.getsignal(_NUMBER) is _tell


def _wait(reading: int, hand_over: Callable[[], None]) -> None:
    told = b""
    while _NUMBER not in told or not _is_ours():
        try:
            told = os.read(reading, 64)
        except OSError:
            return
        if not told:
            return
    done = threads.new_lock()
    done.acquire()

    def run() -> None:
        try:
            hand_over()
        finally:
            done.release()

    threads.start(run)
    done.acquire(timeout=MOST_SECONDS)
    _end()


def _end() -> None:
    """As the signal would have. Only the main thread may tell Python, so it is not asked."""
    try:
        import ctypes

        ctypes.CDLL(None).signal(int(_NUMBER), None)
        os.kill(os.getpid(), _NUMBER)
        sleep(1)
    finally:
        os._exit(128 + _NUMBER)
