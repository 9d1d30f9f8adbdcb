"""The session of a watch: reopened for as long as it takes if the job cannot be reached."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

from rankdbg.errors import RankdbgError
from rankdbg.session import Session


class Reaching:
    """Opens the session at its first use, with `open_session`."""

    def __init__(self, open_session: Callable[[], Session], session: Session | None = None) -> None:
        self._open = open_session
        self._session = session
        self.cluster = session.cluster if session else None  # of the last session, also when closed

    @property
    def opened(self) -> Session | None:
        return self._session

    def session(self) -> Session:
        if self._session is None:
            self._session = self._open()
            self.cluster = self._session.cluster
        self._session.reopens = True
        self._session.progress = lambda done, nodes: None
        return self._session

    def session_for_a_signal(self) -> Session:
        """From any thread, also between two attempts of the watch: a signal comes only once."""
        return self._session or self._open()

    def close(self) -> None:
        """A session that cannot be closed is dropped: its node processes exit by themselves."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):
                session.close()


class WatchFailures:
    """Failures of watching, reported only when they change."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last = ""

    def note(self, error: Exception) -> None:
        text = in_words(error)
        # The same failure with another pid or time is not reported again.
        kind = re.sub(r"[0-9]+", "0", text)
        if kind != self._last:
            self._last = kind
            self._say(f"{text}; the job runs unwatched, retrying")

    def over(self) -> None:
        if self._last:
            self._last = ""
            self._say("the job is watched again")


def in_words(error: Exception) -> str:
    if isinstance(error, RankdbgError):
        return error.in_one_line()
    return f"watching has failed: {type(error).__name__}: {error}"
