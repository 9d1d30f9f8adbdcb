"""The events for which threads that the debugger has stopped wait.

Imported together with debug_adapter.
"""

from __future__ import annotations

import sys
import threading
from typing import Any


def begin(debugger: Any) -> None:
    """A stopped thread continues when the request arrives, not at the debugger's next poll."""
    new_event = getattr(getattr(debugger, "_thread_events", None), "default_factory", None)
    if new_event is not None:  # another debugpy may have none
        debugger._thread_events = _ThreadEvents(new_event)


def wake_all(debugger: Any) -> None:
    """All stopped threads look whether they are to continue. One that is not waits again."""
    events = getattr(debugger, "_thread_events", None)
    if isinstance(events, _ThreadEvents):
        events.wake_all()


class _ThreadEvents(dict[str, Any]):
    """By thread. One that is to continue does not wait, and wakes the others.

    debugpy (1.8.22, `_update_stepping_info`) sets the event of any thread instead of that of the one
    that is to continue, and sets none if it comes upon a thread that has ended. Each attach leaves
    some of those. The thread would continue at its next poll, 200 ms later.
    """

    def __init__(self, new_event: Any) -> None:
        self._new_event = new_event

    def __missing__(self, thread: str) -> Any:
        event = self._new_event()
        wait = event.wait

        def wait_until_told(timeout: float | None = None) -> Any:
            if _is_to_continue():
                self.wake_all()
            return wait(timeout)

        event.wait = wait_until_told
        return self.setdefault(thread, event)

    def wake_all(self) -> None:
        for event in list(self.values()):
            event.set()


def _is_to_continue() -> bool:
    """Of the calling thread."""
    info = getattr(threading.current_thread(), "additional_info", None)
    running = sys.modules["_pydevd_bundle.pydevd_constants"].STATE_RUN
    return info is not None and info.pydev_state == running
