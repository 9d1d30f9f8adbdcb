"""A profile of this rank from inside, for some seconds, in a thread of its own.

What is recorded is written to a file in a directory that the node has made, which takes it when
it asks for the end. If nobody asks, the file is removed again.
"""

from __future__ import annotations

import os

from rankdbg.agent import describe, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # Writes down what was recorded, and tells what there is to say about it.
    Finish = Callable[[], dict[str, Any]]

# The first use of CUPTI loads it. Less than the client waits.
STARTING_SECONDS = 45.0
# A program that ends in the middle is held up by no more than this, to keep what there is.
AT_EXIT_SECONDS = 10.0
UNTAKEN_SECONDS = 120.0

_current: _Recording | None = None
_changing = threads.new_lock()


def begin(message: dict[str, Any]) -> dict[str, Any]:
    global _current
    with _changing:
        if _current is not None and _current.done.locked():
            return {"why": "it is being profiled already"}
        _current = recording = _Recording(message)
    threads.start(recording.run)
    if not recording.begun.acquire(timeout=STARTING_SECONDS):
        return {"why": "its profiler did not begin in time"}
    return recording.outcome


def end(seconds: float) -> dict[str, Any]:
    """Now, if it is not over already; and wait until all is written."""
    recording = _current
    if recording is None:
        return {"why": "it is not being profiled"}
    recording.stop()
    if not recording.done.acquire(timeout=seconds):
        return {"why": f"it has not written its profile within {seconds:.0f} s"}
    recording.done.release()
    _release(recording.taken)
    return recording.outcome


def finish_at_exit() -> None:
    """The program ends: what was recorded until now is kept."""
    recording = _current
    if recording is not None and recording.done.locked():
        recording.stop()
        recording.done.acquire(timeout=AT_EXIT_SECONDS)


def after_fork() -> None:
    """The thread that records is the parent's."""
    global _current, _changing
    _current = None
    _changing = threads.new_lock()


class _Recording:
    def __init__(self, message: dict[str, Any]) -> None:
        self._message = message
        self._seconds = min(3600.0, max(0.1, float(message.get("seconds", 10.0))))
        self._stop = _locked()
        self.begun = _locked()
        self.done = _locked()
        self.taken = _locked()
        self.outcome: dict[str, Any] = {}

    def stop(self) -> None:
        _release(self._stop)

    def run(self) -> None:
        finish: Finish | None = None
        try:
            finish = self._begin()
        except BaseException as error:
            self.outcome = {"why": describe.exception_text(error)[:500]}
        self.begun.release()
        if finish is None:
            self.done.release()
            return
        self._stop.acquire(timeout=self._seconds)
        try:
            with threads.AtWork():
                self.outcome = finish()
        except BaseException as error:
            self.outcome = {"why": describe.exception_text(error)[:500]}
        self.done.release()
        if not self.taken.acquire(timeout=UNTAKEN_SECONDS):
            self._remove()

    def _begin(self) -> Finish | None:
        """None, with the reason in `outcome`, where there is nothing to record."""
        from rankdbg.agent import memory_profiler, nsys_profiler, torch_profiler

        path = os.path.join(str(self._message.get("directory")), str(os.getpid()))
        kinds: dict[Any, Any] = {"memory": memory_profiler, "nsys": nsys_profiler}
        kind = kinds.get(self._message.get("kind"), torch_profiler)
        with threads.AtWork():
            begun: Finish | str = kind.begin(path, bool(self._message.get("stack")))
        if isinstance(begun, str):
            self.outcome = {"why": begun}
            return None
        return begun

    def _remove(self) -> None:
        directory, own = str(self._message.get("directory")), f"{os.getpid()}."
        try:
            for name in os.listdir(directory):
                if name.startswith(own):
                    os.unlink(os.path.join(directory, name))
            os.rmdir(directory)
        except OSError:  # others have theirs there still, or somebody was quicker
            pass


def _release(lock: Any) -> None:
    try:
        lock.release()
    except RuntimeError:  # somebody has done so before
        pass


def _locked() -> Any:
    lock = threads.new_lock()
    lock.acquire()
    return lock
