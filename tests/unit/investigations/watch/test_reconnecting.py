"""The session of a watch that could not reach its job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rankdbg.investigations.watch.reconnecting import Reaching


def test_signal_between_two_attempts_opens_a_session() -> None:
    """What a scheduler announces once cannot wait for the next attempt, a minute later."""
    opened: list[Any] = []

    def open_session() -> Any:
        opened.append(SimpleNamespace(cluster=None, close=lambda: None))
        return opened[-1]

    reaching = Reaching(open_session)
    session = reaching.session()
    assert reaching.session_for_a_signal() is session
    reaching.close()
    assert reaching.session_for_a_signal() is opened[1] is not session
    assert reaching.opened is None  # the watch reconnects by itself
