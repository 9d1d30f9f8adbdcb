"""Channels that are opened a few at a time."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from rankdbg.clusters.transport import turns
from rankdbg.clusters.transport.channel import ProcessChannel, plain_opening
from rankdbg.clusters.transport.turns import QueuedChannel, Turns
from rankdbg.errors import NodeFailed
from waiting import PATIENCE

NODE = [sys.executable, "-m", "rankdbg.node"]


def test_so_many_at_once() -> None:
    """Never more than allowed, and all get their turn."""
    lock, under_way, most = threading.Lock(), [0], [0]
    done = threading.Semaphore(0)
    three = threading.Barrier(3)  # nobody goes on before three are under way

    def errand() -> None:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        three.wait(PATIENCE)
        with lock:
            under_way[0] -= 1
        done.release()

    limited = Turns(3)
    for _ in range(21):
        limited.take(errand)
    assert all(done.acquire(timeout=PATIENCE) for _ in range(21))
    assert most[0] == 3


def test_what_is_asked_before_its_turn() -> None:
    """Waits until then, and is answered."""
    free = threading.Event()
    single = Turns(1)
    single.take(lambda: bool(free.wait(PATIENCE)) or None)
    channel = QueuedChannel("here", single, _open)
    waiting = channel.begin({"ask": "roster", "where": False, "timeout": 10})
    assert channel.usable
    free.set()
    assert "processes" in waiting.answer(20)
    assert "processes" in channel.begin({"ask": "roster", "where": False}).answer(20)
    channel.close(time.monotonic() + 10)


def test_one_that_cannot_be_opened() -> None:
    """Says why, to those who asked before and to those who ask later."""

    def fails() -> ProcessChannel:
        raise NodeFailed("no such node")

    channel = QueuedChannel("nowhere", Turns(1), fails)
    with pytest.raises(NodeFailed, match="no such node"):
        channel.begin({"ask": "roster"}).answer(10)
    assert not channel.usable


def test_one_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does not keep the others waiting."""
    monkeypatch.setattr(turns, "STUCK_SECONDS", 0.1)
    single = Turns(1)
    mute = ["sleep", "60"]
    stuck = QueuedChannel("mute", single, lambda: ProcessChannel("m", mute, plain_opening("m", {})))
    well = QueuedChannel("well", single, _open)
    assert "processes" in well.begin({"ask": "roster", "where": False}).answer(20)
    for channel in (stuck, well):
        channel.close(time.monotonic() + 0.1)


def test_a_turn_that_comes_too_late() -> None:
    """After the end nothing is started any more."""
    free = threading.Event()
    single = Turns(1)
    single.take(lambda: bool(free.wait(PATIENCE)) or None)
    started = []
    channel = QueuedChannel("late", single, lambda: started.append(1) or _open())  # type: ignore[func-returns-value]
    waiting = channel.begin({"ask": "roster"})
    channel.close(time.monotonic())
    free.set()
    with pytest.raises(NodeFailed, match="was not reached before rankdbg ended"):
        waiting.answer(10)
    assert started == []


def _open() -> ProcessChannel:
    return ProcessChannel("here", NODE, plain_opening("here", {}))
