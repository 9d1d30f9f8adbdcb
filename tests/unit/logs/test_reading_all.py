"""Reading of many processes beside one that hangs in the kernel, or is only slow."""

from __future__ import annotations

import threading

from rankdbg.node.machine.processes import read_all
from waiting import PATIENCE


def test_what_hangs_is_named_and_the_rest_is_read() -> None:
    """Two that never come back; what cannot be read is left out without a word."""
    never = threading.Event()

    def read(key: int) -> str:
        if key in (3, 7):
            never.wait()
        if key == 5:
            raise FileNotFoundError
        return str(key)

    results, stuck = read_all(range(10), read, patience=0.05)
    never.set()
    assert (sorted(results), stuck) == ([0, 1, 2, 4, 6, 8, 9], [3, 7])


def test_one_that_is_only_slow_loses_nothing() -> None:
    """It was given up, and goes on beside the one that has taken its place."""
    resumed, goes_on = threading.Event(), threading.Event()

    def read(key: int) -> str:
        if key == 1:
            assert resumed.wait(PATIENCE)
        if key == 2:  # by the second thread
            resumed.set()
            assert goes_on.wait(PATIENCE)
        if key == 3:  # by the first
            goes_on.set()
        return str(key)

    results, stuck = read_all(range(100), read, patience=0.05)
    assert (len(results), stuck) == (100, [])


def test_nothing_to_read() -> None:
    """Is read at once."""
    assert read_all((), str) == ({}, [])
