"""The job that a connection has reached: its session, and its ranks as they are now."""

from __future__ import annotations

import copy
import threading

from rankdbg.errors import BadInput, ChooseJob
from rankdbg.session import Session
from rankdbg.types import Rank


class ReachedJob:
    """What a connection and all its selections share."""

    def __init__(self, session: Session, job: str | None) -> None:
        self._session = session
        self.job = job
        self.target = session.cluster.target
        self._lock = threading.Lock()
        self.closed = threading.Event()

    def of(self, job: str | None) -> ReachedJob:
        """Another job there, through the same session."""
        other = copy.copy(self)
        other.job = self._session.cluster.aliases.get(job, job) if job else None
        return other

    def look(self) -> tuple[Session, list[Rank]]:
        """The ranks of the job as they are now, and a session to ask them with. Rosters are read
        one after the other, since each builds on the last; what follows goes on at once."""
        with self._lock:
            session = self._open_session()
            try:
                all_ranks = session.job(self.job)
            except ChooseJob as error:
                hint = 'choose one: rankdbg.connect(job="NAME")'
                raise ChooseJob(error.what, hint=hint) from None
            session.forget()
            return session.apart(session.timeout), all_ranks

    def session(self) -> Session:
        with self._lock:
            session = self._open_session()
            return session.apart(session.timeout)

    def _open_session(self) -> Session:
        if self.closed.is_set():
            raise BadInput("the connection is closed", hint="rankdbg.connect() opens a new one")
        return self._session

    def close(self) -> None:
        with self._lock:
            if not self.closed.is_set():
                self.closed.set()
                self._session.close()
