"""SIGTERM in a rank that nsys captures: flushes the data of CUDA before the process ends.

The signal ends a process at once, and the buffers of nsys's library in it are lost: the report
would not have a single kernel. So the signal wakes a thread of the agent, which flushes the
buffers and then ends the process as the signal would have. (The main thread, in which Python runs
handlers, may be in a collective that never returns.) A program that handles the signal itself is
left alone.
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

# A GPU that hangs may not respond, and torchrun kills ranks that still run after 30 s.
MOST_SECONDS = 10.0
_NUMBER = _signal.SIGTERM

_writing = -1
_masks: dict[int, Any] = {}  # signal masks of threads that are forking


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
            raise ValueError("the program uses set_wakeup_fd")
        _signal.signal(_NUMBER, _wake)
    except ValueError:
        os.close(reading)
        os.close(writing)
        return
    _writing = writing
    os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_reset_in_child)
    threads.start(lambda: _wait(reading, hand_over))


# --- forks: a child has no thread that waits, and its pipe belongs to the parent -----------------


def _block() -> None:
    """Until the child no longer writes to the parent's pipe."""
    _masks[threads.get_ident()] = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_NUMBER})


def _unblock() -> None:
    before = _masks.pop(threads.get_ident(), None)
    if before is not None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _reset_in_child() -> None:
    global _writing
    if _writing >= 0:
        if _is_ours():
            _signal.signal(_NUMBER, _signal.SIG_DFL)
        descriptor = _signal.set_wakeup_fd(-1)
        if descriptor not in (-1, _writing):
            _signal.set_wakeup_fd(descriptor)
        _writing = -1
    _unblock()


# --- the signal ---------------------------------------------------------------------------------


def _wake(number: int, frame: Any) -> None:
    """In the main thread. Needed only where an event loop has replaced the wakeup descriptor."""
    try:
        os.write(_writing, bytes([number]))
    except OSError:  # full: the thread has enough to read
        pass


def _is_ours() -> bool:
    return _signal.getsignal(_NUMBER) is _wake


def _wait(reading: int, hand_over: Callable[[], None]) -> None:
    signals = b""
    while _NUMBER not in signals or not _is_ours():
        try:
            signals = os.read(reading, 64)
        except OSError:
            return
        if not signals:
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
    """As the signal would have. Not through Python, where only the main thread may set handlers."""
    try:
        import ctypes

        ctypes.CDLL(None).signal(int(_NUMBER), None)
        os.kill(os.getpid(), _NUMBER)
        sleep(1)
    finally:
        os._exit(128 + _NUMBER)
