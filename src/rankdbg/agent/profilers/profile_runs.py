"""A profile of this rank from inside, for some seconds, in a thread of its own.

The profile is written to a file in a directory that the node has created. The node takes the file
when it ends the profile. If the node never does, the file is removed.
"""

from __future__ import annotations

import os

from rankdbg.agent import active, describe, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rankdbg.wire.questions import StartProfiler

    # Writes the profile, and returns the outcome: notes, or why it failed.
    Finish = Callable[[], dict[str, Any]]

# Includes loading CUPTI. Less than the client waits.
STARTING_SECONDS = 45.0
# A program that exits during a profile is delayed by at most this long, to save the profile.
AT_EXIT_SECONDS = 10.0
UNTAKEN_SECONDS = 120.0

_current: _Recording | None = None
_changing = threads.new_lock()


def begin(question: StartProfiler) -> dict[str, Any]:
    global _current
    with _changing:
        if _current is not None and _current.done.locked():
            return {"why": "it is already being profiled"}
        _current = recording = _Recording(question)
    threads.start(recording.run)
    if not recording.begun.acquire(timeout=STARTING_SECONDS):
        # The client gives up: a profiler that starts later would slow the rank down until its time
        # is over, and further profiles would be refused.
        recording.stop()
        return {"why": f"its profiler did not start within {STARTING_SECONDS:.0f} s"}
    return recording.outcome


def end(seconds: float) -> dict[str, Any]:
    """End the profile, if it has not ended yet, and wait until it is written."""
    recording = _current
    if recording is None:
        return {"why": "it is not being profiled"}
    recording.stop()
    if not recording.done.acquire(timeout=seconds):
        return {"why": f"it has not written its profile within {seconds:.0f} s"}
    recording.done.release()
    _release(recording.taken)
    return recording.outcome


def _at_exit() -> None:
    """Save what was recorded until now."""
    recording = _current
    if recording is not None and recording.done.locked():
        recording.stop()
        recording.done.acquire(timeout=AT_EXIT_SECONDS)


def _after_fork() -> None:
    """The thread that records is in the parent."""
    global _current, _changing
    _current = None
    _changing = threads.new_lock()


active.after_fork.append(_after_fork)
active.at_exit.append(_at_exit)


class _Recording:
    def __init__(self, asked: StartProfiler) -> None:
        self._asked = asked
        self._seconds = min(3600.0, max(0.1, asked.seconds))
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
        """None, with the reason in `outcome`, if it cannot start."""
        from rankdbg.agent.profilers import memory_profiler, nsys_profiler, torch_profiler

        path = os.path.join(self._asked.directory, str(os.getpid()))
        kinds: dict[Any, Any] = {"memory": memory_profiler, "nsys": nsys_profiler}
        kind = kinds.get(self._asked.kind, torch_profiler)
        with threads.AtWork():
            begun: Finish | str = kind.begin(path, self._asked.stack)
        if isinstance(begun, str):
            self.outcome = {"why": begun}
            return None
        return begun

    def _remove(self) -> None:
        directory, own = self._asked.directory, f"{os.getpid()}."
        try:
            for name in os.listdir(directory):
                if name.startswith(own):
                    os.unlink(os.path.join(directory, name))
            os.rmdir(directory)
        except OSError:  # other ranks still have files there, or have removed it
            pass


def _release(lock: Any) -> None:
    try:
        lock.release()
    except RuntimeError:  # already released
        pass


def _locked() -> Any:
    lock = threads.new_lock()
    lock.acquire()
    return lock
