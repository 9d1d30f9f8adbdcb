"""Ray's tables about a job that may hang, and what its processes wait for: -> evidence."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.errors import RankdbgError
from rankdbg.session import Session
from rankdbg.types import Answer, Rank
from rankdbg.verdicts.waits.ray_waits import RayEvidence
from rankdbg.verdicts.waits.wait_links import ProcessPlace, place_of
from rankdbg.wire.answers import RayWait
from rankdbg.wire.ray_tables import RayTables


class RayLook:
    """Nothing is asked about a job that is none of Ray's."""

    def __init__(self, session: Session, ranks: Sequence[Rank], outside: bool) -> None:
        self._session = session
        self._ranks = [rank for rank in ranks if "ray_job" in rank.names]
        self._outside = outside
        self._tables = self._read()
        actors = self._tables.actors if self._tables else ()
        self._restarts = {actor.id: actor.restarts for actor in actors}
        self._waits: dict[ProcessPlace, Sequence[RayWait]] = {}
        self._raylets = (
            [self._session.raylets()] if self._tables else []
        )  # of the first look, and the last

    def _read(self) -> RayTables | None:
        try:
            return self._session.ray_tables(self._ranks) if self._ranks else None
        except RankdbgError:  # stacks tell as much as without Ray
            return None

    def look(self, ranks: Sequence[Rank]) -> None:
        if self._tables is None:
            return
        self._tables = self._read() or self._tables
        self._raylets = [self._raylets[0], self._session.raylets()]
        agents = [rank for rank in ranks if rank.agent and not self._outside]
        for reply in self._session.ray_waits(agents) if agents else ():
            if isinstance(reply, Answer):
                main = [wait for wait in reply.value.waits if wait.main]
                self._waits[place_of(reply.rank)] = main or reply.value.waits

    def evidence(self) -> RayEvidence | None:
        if self._tables is None:
            return None
        drivers = {
            place_of(rank): rank.names["ray_job"].removeprefix("ray-")
            for rank in self._ranks
            if rank.role == "driver"
        }
        raylets = self._raylets[0], self._raylets[-1]
        return RayEvidence(self._tables, drivers, self._waits, self._restarts, *raylets)
