"""A job whose ranks have signs: who of them waits, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rankdbg.types import ProcessKey
from rankdbg.verdicts.hangs import ray_culprits, work_waits
from rankdbg.verdicts.hangs.evidence import Evidence
from rankdbg.verdicts.hangs.hang_rules import HangRule, Sign
from rankdbg.verdicts.hangs.ray_culprits import RayFindings
from rankdbg.verdicts.waits import wait_chains
from rankdbg.verdicts.waits.wait_links import LOCK_OF_FILE, ProcessPlace, last_of, place_of

WAITING = ("collective", "store")
FOR_PROCESSES = "waits-for-processes"
AT_GPU = "host-waits-for-gpu"


class Case:
    """What is known of the job, before any rank is accused."""

    def __init__(
        self, evidence: Evidence, signs: list[Sign], rules: Sequence[HangRule] = ()
    ) -> None:
        self.evidence = evidence
        self.signs = signs
        self.rules = rules
        self.by_process = {sign.seen.rank.process: sign for sign in signs}
        recorded = {process for world in evidence.worlds for process in world.waiting}
        self.chains = wait_chains.of_ranks((seen.rank for seen in evidence.ranks), evidence.owners)
        # A rank may have ended after the look at its connections.
        self.unanswered = [
            link
            for link in evidence.unanswered
            if {link.rank.process, link.other.process} <= self.by_process.keys()
        ]
        self.waiting = [
            sign
            for sign in signs
            if sign.rule.role in WAITING
            or (sign.seen.rank.process in recorded and sign.rule.role not in ("held", "own"))
        ]
        if (holder := self._holder_of_all()) is not None:
            self.waiting.remove(holder)
        # Where no stack tells that ranks wait for others: those at which their chains end.
        self.ends: set[ProcessPlace] = set()
        self.waiting += self._waiting_for_others()

    def _holder_of_all(self) -> Sign | None:
        """The one rank that waits for processes that may be no ranks, if it is the one that all
        others wait for."""
        if len(self.waiting) != 1 or self.waiting[0].rule.cause != FOR_PROCESSES:
            return None
        alone = place_of(self.waiting[0].seen.rank)
        ends = self._chain_ends()
        rest = [sign for sign in self.signs if sign is not self.waiting[0]]
        is_end = rest and all(ends.get(sign.seen.rank.process) == alone for sign in rest)
        return self.waiting[0] if is_end else None

    def _chain_ends(self) -> dict[ProcessKey, ProcessPlace]:
        """The other ranks to which the waits of ranks lead."""
        return {
            process: end
            for process, links in self.chains.items()
            if process in self.by_process
            and (end := last_of(links, self.places)) is not None
            and end != place_of(self.by_process[process].seen.rank)
        }

    def _waiting_for_others(self) -> list[Sign]:
        """Those whose wait leads to another rank that does something else than wait: also if that
        one waits for a process that is none of the job's ranks."""
        waiting = {sign.seen.rank.process for sign in self.waiting}
        others = {place_of(s.seen.rank): s for p, s in self.by_process.items() if p not in waiting}
        ends = {
            process: end
            for process, end in self._chain_ends().items()
            if process not in waiting and end in others
        }
        if not waiting:
            at_ends = {*ends.values()}
            self.ends = {end for end in at_ends if not self._may_wait_for_work(others[end])}
            ends = {process: end for process, end in ends.items() if end in self.ends}
        return [self.by_process[process] for process in ends]

    def _may_wait_for_work(self, sign: Sign) -> bool:
        rank = sign.seen.rank
        fact = self.evidence.owners.facts.get(place_of(rank))
        return work_waits.may_wait_for_work(
            sign,
            fact.things if fact else (),
            self.chains.get(rank.process, ()),
            self._direct_waits,
        )

    @cached_property
    def _direct_waits(self) -> work_waits.DirectWaits:
        return work_waits.DirectWaits(self.chains.values(), self.places)

    @cached_property
    def not_waiting(self) -> list[Sign]:
        waiting = {sign.seen.rank.process for sign in self.waiting}
        return [sign for sign in self.signs if sign.seen.rank.process not in waiting]

    @cached_property
    def places(self) -> set[ProcessPlace]:
        """Of all ranks."""
        return {place_of(sign.seen.rank) for sign in self.signs}

    @cached_property
    def passes_locks_on(self) -> bool:
        """Whether a rank is seen to hold a lock of a file and to wait for it: that was before and
        after it got it, or gave it to another."""
        at = {place_of(sign.seen.rank): sign.seen for sign in self.signs}
        held = [
            (at[link.whom.place], link.thing)
            for links in self.chains.values()
            for link in links
            if link.whom.place in at and link.thing.startswith(LOCK_OF_FILE)
        ]
        return any(
            look.call in ("flock", "fcntl") and thing.startswith(f"{LOCK_OF_FILE}{look.on},")
            for seen, thing in held
            for look in (seen.before, seen.after)
        )

    @cached_property
    def ray(self) -> RayFindings | None:
        """What Ray's tables say; None if no rank waits in Ray, or they do not tell for what."""
        return ray_culprits.find(self.evidence, self.signs, self.rules)

    @property
    def watched(self) -> float:
        return self.evidence.watched

    @property
    def youngest(self) -> float:
        """The age of the youngest process."""
        return min((seen.after.age for seen in self.evidence.ranks), default=0.0)

    @property
    def is_idle(self) -> bool:
        return all(sign.rule.role == "idle" for sign in self.signs)

    @property
    def goes_on(self) -> bool:
        """Who waits for a GPU may spin, which is no work."""
        return any(
            sign.seen.stirred or (sign.seen.computes and sign.rule.role not in WAITING)
            for sign in self.signs
            if not sign.seen.stop
        )
