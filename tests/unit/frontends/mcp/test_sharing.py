"""One connection for each target, which ends when it is idle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rankdbg.errors import NodeFailed
from rankdbg.frontends.mcp.sharing import Cancelled, SharedConnections
from waiting import PATIENCE


class Opened:
    """In place of a JobConnection."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Connecting:
    def __init__(self, *failures: Exception) -> None:
        self.opened: list[Opened] = []
        self._failures = [*failures]

    def __call__(self, _: object, progress: Callable[[int, int], None]) -> Any:
        self.progress = progress
        if self._failures:
            raise self._failures.pop(0)
        self.opened.append(Opened())
        return self.opened[-1]


def test_calls_at_once_share_a_connection() -> None:
    """Fifty of them: one for each target."""
    connecting = Connecting()
    shared = SharedConnections(connecting)
    together = threading.Barrier(10)

    def use(number: int) -> int:
        with shared.use((f"target-{number % 2}",), threading.Event()) as (connection, _):
            together.wait(PATIENCE)
            return id(connection)

    with ThreadPoolExecutor(10) as pool:
        assert len({*pool.map(use, range(50))}) == 2
    assert len(connecting.opened) == 2
    shared.close()
    assert all(each.closed for each in connecting.opened)


def test_idle_ones_are_closed_and_opened_anew() -> None:
    """Five minutes after the last call, not while a call is under way."""
    now = [0.0]
    connecting = Connecting()
    shared = SharedConnections(connecting, clock=lambda: now[0])
    with shared.use(("local",), threading.Event()):
        now[0] = 1000.0
        shared.close_idle()
        assert not connecting.opened[0].closed
    now[0] = 1299.0
    assert shared.close_idle() == 1.0
    assert not connecting.opened[0].closed
    now[0] = 1300.0
    assert shared.close_idle() == 300.0
    assert connecting.opened[0].closed
    with shared.use(("local",), threading.Event()) as (connection, _):
        assert connection is connecting.opened[1]


def test_what_failed_is_tried_again() -> None:
    """A target that was not reached may be the next time."""
    connecting = Connecting(NodeFailed("no route"))
    shared = SharedConnections(connecting)
    with pytest.raises(NodeFailed), shared.use(("ssh:a",), threading.Event()):
        pass
    with shared.use(("ssh:a",), threading.Event()) as (connection, _):
        assert connection is connecting.opened[0]


def test_nothing_stays_open_after_the_end() -> None:
    """Not even what was opened while the server ended."""
    connecting = Connecting()
    shared = SharedConnections(connecting)
    shared.close()
    with shared.use(("local",), threading.Event()):
        pass
    assert connecting.opened[0].closed


def test_a_cancelled_call_asks_no_further() -> None:
    """Before the next answer of a node; other calls through the same connection do."""
    connecting = Connecting()
    shared = SharedConnections(connecting)
    stop = threading.Event()

    def ask_meanwhile() -> bool:
        with shared.use(("local",), threading.Event()):
            connecting.progress(0, 1)
        return True

    with ThreadPoolExecutor(1) as pool, shared.use(("local",), stop):
        connecting.progress(0, 1)
        stop.set()
        assert pool.submit(ask_meanwhile).result(PATIENCE)
        with pytest.raises(Cancelled):
            connecting.progress(0, 1)
    connecting.progress(1, 1)  # of nobody's call
