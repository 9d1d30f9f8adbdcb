"""One job, looked at again and again, for those who look at it live: the whole verdict when something
may have changed, and a poll that costs its ranks microseconds while nothing has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankdbg.investigations.hangs.further_looks import judge_ranks
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.hangs.verdicts_with_logs import with_logs
from rankdbg.investigations.nodes.node_health import read_figures
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.investigations.reached_job import ReachedJob
from rankdbg.investigations.watch.stillness import Stillness
from rankdbg.session import Session
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules

# Whatever a poll does not see (a lock that changes hands) is seen so many seconds later.
JUDGE_AGAIN = 60.0
AT_REST = ("stuck", "idle")  # states of verdicts
NODES_AGAIN = 5.0


@dataclass(frozen=True)
class LiveLook:
    found: JobVerdict
    is_new: bool  # else all but the nodes and the time for which ranks have waited is as before


@dataclass(frozen=True)
class _AtRest:
    """A verdict, and what polls compare with."""

    found: JobVerdict
    ranks: dict[ProcessKey, str]  # their states
    polls: Stillness
    judged: float
    since: float  # when they were first seen at rest

    def later(self, now: float) -> JobVerdict:
        """With the time that has passed since. A wait that no recorder knows is as long as it was
        seen to last."""
        verdict, passed = self.found.verdict, now - self.judged
        if not verdict.stuck:
            return self.found
        if verdict.waited is not None:
            verdict = replace(verdict, waited=verdict.waited + passed)
        elif verdict.started is not None:
            verdict = replace(verdict, started=verdict.started + passed)
        elif now > self.since:
            waited = self.found.evidence.watched + now - self.since
            verdict = replace(verdict, waited=waited)
        return replace(self.found, verdict=verdict)


class LiveLooks:
    """The looks at a job, one after the other. Reading native frames stops a process for a moment,
    so a job that hangs is judged once, and again only when it has changed."""

    def __init__(self, reached: ReachedJob) -> None:
        self._reached = reached
        self._rules = load_hang_rules()
        self._at_rest: _AtRest | None = None
        self._nodes: NodeStates | None = None
        self._nodes_read = 0.0

    def look(self) -> LiveLook:
        """Raises RankdbgError if the job cannot be looked at."""
        before, self._at_rest = self._at_rest, None
        session, ranks = self._reached.look()
        if self._reached.job is None and ranks:
            self._reached.job = ranks[0].job  # others may start beside it
        has_changed = before is None or self._has_changed(session, ranks, before)
        now = time.monotonic()
        if before is not None and not has_changed and now - before.judged < JUDGE_AGAIN:
            self._at_rest = before
            return LiveLook(self._with_nodes(before.later(now), session, ranks), is_new=False)
        found = self._judged(session, ranks)
        if found.verdict.state in AT_REST:
            polls, now = Stillness(), time.monotonic()
            polls.look(session, ranks, now)
            since = before.since if before is not None and not has_changed else now
            self._at_rest = _AtRest(found, _states(ranks), polls, now, since)
            found = self._at_rest.later(now)
        return LiveLook(self._with_nodes(found, session, ranks), is_new=True)

    def _with_nodes(self, found: JobVerdict, session: Session, ranks: Sequence[Rank]) -> JobVerdict:
        if self._nodes is None or time.monotonic() - self._nodes_read >= NODES_AGAIN:
            self._nodes = NodeStates(*read_figures(session, ranks))
            self._nodes_read = time.monotonic()
        return replace(found, nodes=self._nodes)

    def _judged(self, session: Session, ranks: Sequence[Rank]) -> JobVerdict:
        found = judge_ranks(session, ranks, ranks, self._rules)
        return with_logs(found, session, self._reached.job)

    def _has_changed(self, session: Session, ranks: Sequence[Rank], before: _AtRest) -> bool:
        if _states(ranks) != before.ranks:
            return True
        before.polls.look(session, ranks, time.monotonic())
        return any(place.has_moved for place in before.polls.places.values())


def _states(ranks: Sequence[Rank]) -> dict[ProcessKey, str]:
    return {rank.process: rank.state for rank in ranks}
