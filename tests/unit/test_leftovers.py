"""support/leftovers.py: a thread that computes on after its tests slows all others down."""

from __future__ import annotations

import threading

from leftovers import computing_threads
from waiting import wait_for


def test_a_thread_without_end_is_found() -> None:
    """By its name, until it ends. One that waits is none."""
    enough = threading.Event()

    def compute() -> None:
        while not enough.is_set():
            pass

    computes = threading.Thread(target=compute, name="computes", daemon=True)
    waits = threading.Thread(target=enough.wait, name="waits", daemon=True)
    waits.start()
    computes.start()
    found = wait_for(lambda: {*computing_threads()} & {"computes", "waits"}, "it is found")
    assert found == {"computes"}
    enough.set()
    computes.join()
    waits.join()
    assert "computes" not in computing_threads()
