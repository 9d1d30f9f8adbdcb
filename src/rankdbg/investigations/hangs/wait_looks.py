"""Who owes what ranks wait for: what nodes tell of pipes, connections and locks, and agents of threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rankdbg.investigations.hangs import readings
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank
from rankdbg.verdicts.waits import unanswered
from rankdbg.verdicts.waits.thread_links import have_tasks_moved, native_ids
from rankdbg.verdicts.waits.unanswered import Unanswered
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence, unjoined
from rankdbg.verdicts.waits.wait_links import ProcessPlace
from rankdbg.wire.answers import ThreadWaits, Vitals
from rankdbg.wire.node_answers import WaitOwners

# Processes that owe something to a rank, and are asked for whom their threads wait.
MOST_OWNERS = 16


class WaitLooks:
    """`can_be_asked`: of some ranks, those whose agents answer."""

    def __init__(
        self,
        session: Session,
        alive: Sequence[Rank],
        outside: bool,
        can_be_asked: Callable[[Sequence[Rank]], list[Rank]],
    ) -> None:
        self._session = session
        self._alive = alive
        self._outside = outside
        self._can_be_asked = can_be_asked
        self.owners = OwnerEvidence()
        self.unanswered: Sequence[Unanswered] = ()
        self.tasks_moved: set[ProcessKey] = set()
        self._ends: dict[ProcessKey, Vitals] = {}  # no ranks, but they owe something: first look
        self.served: dict[ProcessKey, set[str]] = {}  # threads that get what they wait for

    def look_at_addresses(self, ranks: Sequence[Rank]) -> None:
        """Which of these get no answer from which others."""
        answers = self._session.addresses(ranks)
        found = [(each.rank, each.value) for each in answers if isinstance(each, Answer)]
        wanted = [ends[::-1] for _, its in found for ends in its.unanswered]
        self.unanswered = unanswered.between(found, self._with_ends(wanted))

    def look_at_owners(self, ranks: Sequence[Rank]) -> None:
        """Who owes what these wait for; also across machines, if that is a rank of the job."""
        owners = {
            answer.rank.process: answer.value
            for answer in self._session.wait_owners(ranks)
            if isinstance(answer, Answer)
        }
        self.owners = replace(self.owners, owners=owners, ends=self._other_ends(owners))
        self._ends = self._vitals(_beside(ranks, owners))
        if not self._outside:
            self.read_threads(self._can_be_asked(_beside(ranks, owners)))

    @property
    def may_be_starved(self) -> bool:
        """Whether another look would tell if a process that owes something gets no processor."""
        return any(vitals.runnable for vitals in self._ends.values())

    def look_at_starved_ends(self) -> None:
        if not self.may_be_starved:
            return
        now = self._vitals([Rank(key, "", kind="child") for key in self._ends])
        starved = {
            ProcessPlace(key.host, key.pid)
            for key, after in now.items()
            if after.starved or after.others_starved
        }
        self.owners = replace(self.owners, starved=frozenset(starved))

    def _vitals(self, processes: Sequence[Rank]) -> dict[ProcessKey, Vitals]:
        answers = self._session.vitals(processes) if processes else ()
        return {each.rank.process: each.value for each in answers if isinstance(each, Answer)}

    def _other_ends(self, owners: Mapping[ProcessKey, WaitOwners]) -> dict[tuple[str, str], Rank]:
        return {**self.owners.ends, **self._with_ends(unjoined(owners.values()))}

    def _with_ends(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Rank]:
        """The ranks that have these connections."""
        ends: dict[tuple[str, str], Rank] = {}
        for answer in self._session.wait_owners(self._alive, wanted) if wanted else ():
            if isinstance(answer, Answer):
                ends.update(dict.fromkeys(answer.value.holds, answer.rank))
        return ends

    def read_threads(
        self,
        ranks: Sequence[Rank],
        in_futex: Sequence[Rank] = (),
        without_agents: Sequence[Rank] = (),
    ) -> None:
        """Of ranks with agents and without; and what the main threads of others wait for."""
        waits = self._thread_waits(ranks) | self._thread_waits(without_agents, outside=True)
        wanted = {rank.process: [rank.pid] for rank in in_futex}
        for process, each in waits.items():
            wanted[process] = [*wanted.get(process, ()), *native_ids(each)]
        asked = {rank.process: rank for rank in (*ranks, *in_futex, *without_agents)}
        behind = [rank for process, rank in asked.items() if wanted.get(process)]
        threads = [(rank.pid, thread) for rank in behind for thread in wanted[rank.process]]
        found = {
            answer.rank.process: answer.value
            for answer in (self._session.wait_owners(behind, threads=threads) if behind else ())
            if isinstance(answer, Answer)
        }
        self.owners = replace(
            self.owners,
            ends=self._other_ends(found),
            threads={**self.owners.threads, **waits},
            of_threads={**self.owners.of_threads, **found},
        )

    def _thread_waits(
        self, ranks: Sequence[Rank], outside: bool = False
    ) -> dict[ProcessKey, ThreadWaits]:
        return {
            answer.rank.process: answer.value
            for answer in (self._session.thread_waits(ranks, outside) if ranks else ())
            if isinstance(answer, Answer)
        }

    def look_at_tasks(self) -> None:
        """Whether those of event loops still wait for what they waited for before."""
        before = self.owners.threads
        loops = {p for p, waits in before.items() if any(each.task for each in waits.threads)}
        ranks = self._can_be_asked(
            [rank for rank in self._alive if rank.process in loops - self.tasks_moved]
        )
        for answer in self._session.thread_waits(ranks) if ranks else ():
            process = answer.rank.process
            if isinstance(answer, Answer) and have_tasks_moved(before[process], answer.value):
                self.tasks_moved.add(process)

    @property
    def follows_threads(self) -> bool:
        """Whether another look would tell if a thread or a task gets what it waits for."""
        tasks = any(each.task for waits in self.owners.threads.values() for each in waits.threads)
        return tasks or any(told.threads for told in self.owners.of_threads.values())

    def look_at_served_threads(self) -> None:
        """Whether those at the end of a chain have been woken since they were first looked at."""
        first = {
            (process, thread.native): thread
            for process, told in self.owners.of_threads.items()
            for thread in told.threads
            if thread.native != process.pid and not thread.mutex
        }
        ranks = [rank for rank in self._alive if any(rank.process == p for p, _ in first)]
        if not ranks:
            return
        asked = [(process.pid, native) for process, native in first]
        for answer in self._session.wait_owners(ranks, threads=asked):
            if isinstance(answer, Answer):
                process = answer.rank.process
                names = {t.native: t.name for t in self.owners.threads[process].threads if t.native}
                self.served.setdefault(process, set()).update(
                    names[thread.native]
                    for thread in answer.value.threads
                    if thread.native in names
                    and (before := first.get((process, thread.native))) is not None
                    and readings.is_served(before, thread)
                )


def _beside(ranks: Sequence[Rank], owners: Mapping[ProcessKey, WaitOwners]) -> list[Rank]:
    """The processes that owe something to ranks, to be asked about their threads."""
    found = {
        ProcessKey(rank.host, process.pid, process.start): rank.job
        for rank in ranks
        for process in (owners[rank.process].processes if rank.process in owners else ())
    }
    return [Rank(key, job, kind="child") for key, job in found.items()][:MOST_OWNERS]
