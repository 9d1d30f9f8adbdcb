"""Who holds up those that wait in Ray: the ends of their waits -> accusations, or what is at work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rankdbg.types import Rank
from rankdbg.verdicts.hangs import ray_causes, ray_objects
from rankdbg.verdicts.hangs.accusations import Accusation, accuse
from rankdbg.verdicts.hangs.child_signs import find_sign
from rankdbg.verdicts.hangs.evidence import Evidence
from rankdbg.verdicts.hangs.hang_rules import ROLES, HangRule, Sign
from rankdbg.verdicts.waits.ray_waits import (
    QUEUE_ACTOR,
    RayEvidence,
    WaitEnd,
    find_ends,
    resources_text,
)
from rankdbg.verdicts.waits.wait_links import Link, ProcessPlace, place_of, process_at
from rankdbg.wire.ray_tables import RayFunction, RayTask

IN_RAY = "waits-for-ray"
# An actor that has been restarted as often, and has not run since, will not.
MANY_RESTARTS = 3
# Seconds in which Ray starts a worker, with its environment, where resources are free.
STARTS_WITHIN = 60.0
PLACED_WITHIN = 2.0  # seconds: before that Ray may not have tried
_GONE = len(ROLES)  # the level of what has no process


@dataclass(frozen=True)
class Awaited:
    """What is waited for in Ray, and is at work or about to start."""

    chain: tuple[Link, ...]
    sign: Sign | None  # of the process at the end
    task: RayTask | None
    others: RayFunction | None  # tasks of the same function that have ended

    @property
    def is_slow(self) -> bool:
        """Whether it takes clearly longer than all others of its function."""
        longest = self.others.longest if self.others else None
        ran = self.task.ran if self.task else None
        if longest is None or ran is None:
            return False
        return ran > max(longest + 1.0, 1.5 * longest)


@dataclass(frozen=True)
class RayFindings:
    accused: tuple[Accusation, ...]
    state: Literal["moving", "starting"]  # if there is no culprit
    awaited: Awaited | None
    unread: tuple[ProcessPlace, ...]  # ends of waits that were not looked at


def find(
    evidence: Evidence, signs: Sequence[Sign], rules: Sequence[HangRule]
) -> RayFindings | None:
    """None if no rank waits in Ray, or the tables do not tell for what."""
    waiting = {place_of(s.seen.rank): _line(s) for s in signs if s.rule.cause == IN_RAY}
    if evidence.ray is None or not waiting:
        return None
    found = _Ends(evidence, signs, rules, find_ends(evidence.ray, waiting))
    return found.judge() if found.ends else None


def _line(sign: Sign) -> str:
    return sign.words["place"]


class _Ends:
    """The ends of all waits, with the signs of the processes there."""

    def __init__(
        self,
        evidence: Evidence,
        signs: Sequence[Sign],
        rules: Sequence[HangRule],
        ends: Sequence[WaitEnd],
    ) -> None:
        assert evidence.ray is not None
        self._ray: RayEvidence = evidence.ray
        self._evidence = evidence
        self._rules = rules
        self._signs = {place_of(sign.seen.rank): sign for sign in signs}
        helpers = [find_sign(seen, rules) for seen in evidence.helpers]
        self._helpers = {place_of(sign.seen.rank): sign for sign in helpers}
        # Objects that one node pulls from the disk of another; of an end, by its place among them.
        self._spilled = {
            place: spilled
            for place, end in enumerate(ends)
            if end.kind in ("object", "starting") and (spilled := ray_objects.find(self._ray, end))
        }
        self.ends = [
            self._spilled[place].end if place in self._spilled else end
            for place, end in enumerate(ends)
        ]

    def judge(self) -> RayFindings | None:
        signs = [self._sign(place, end) for place, end in enumerate(self.ends)]
        pairs = [*zip(self.ends, signs, strict=True)]
        if all(sign and sign.rule.role in ("collective", "store") for sign in signs):
            return None  # ranks that wait for each other: their collectives tell
        unread = self._unread()
        moved = any(signs) or bool(self._spilled)
        if all(end.kind == "object" for end in self.ends) and not moved and not unread:
            return None  # nothing moves objects: the table may lack a task
        found = [self._accuse(place, *pair) for place, pair in enumerate(pairs)]
        accused = [each for each in found if each is not None]
        unclear = not all(end.certain for end in self.ends)
        if unclear and any(self._works(end, sign) for end, sign in pairs):
            # What is waited for may be what works: others may be servers, or tasks whose results
            # nothing needs. What a signal or a debugger holds is worth a word in any case.
            accused = [each for each in accused if each.level == ROLES.index("held")]
        accused = self._without_patient(accused)
        level = max((each.level for each in accused), default=0)
        first = max(pairs, key=lambda pair: self._works(*pair))
        awaited = self._awaited(*first)
        kinds = {end.kind for end in self.ends}
        starting = kinds <= {"starting", "restarts"}
        # One call after another starts in a job that runs.
        others = awaited.others
        has_begun = kinds == {"starting"} and others is not None and others.finished > 0
        return RayFindings(
            tuple(each for each in accused if each.level == level),
            "starting" if starting and not has_begun else "moving",
            awaited,
            unread,
        )

    # --- processes ----------------------------------------------------------------------------

    def _sign(self, place: int, end: WaitEnd) -> Sign | None:
        """Of the process in which the task runs: of the thread that runs it."""
        if place in self._spilled and self._spilled[place].host:
            return None  # a raylet reads it, and no worker
        if end.kind == "object":
            return self._mover()
        if end.kind != "process" or end.party.place is None:
            return None
        sign = self._signs.get(end.party.place) or self._helpers.get(end.party.place)
        if sign is None or end.task is None or sign.rule.role != "idle":
            return sign
        return self._of_thread(sign, end.task.name.rpartition(".")[2])

    def _of_thread(self, sign: Sign, function: str) -> Sign:
        """The main thread waits for calls while others run them."""
        seen = sign.seen.seen_from(function)
        if seen is not None:
            return find_sign(seen, self._rules)
        # It wakes up a hundred times a second, which says nothing about the method.
        asleep = replace(sign.seen, before=sign.seen.after)
        return (
            replace(sign, seen=asleep, rule=ray_causes.AWAITS) if sign.seen.has_event_loop else sign
        )

    def _mover(self) -> Sign | None:
        """The worker of Ray that reads or writes spilled objects, if one is at it."""
        found = [
            replace(sign, seen=seen, rule=rule, words=find_sign(seen, [rule]).words)
            for sign in self._helpers.values()
            for function, rule in ray_causes.MOVES.items()
            if (seen := sign.seen.seen_from(function)) is not None
        ]
        # Whose objects it moves is not known: one that makes progress may be the one.
        return max(found, key=lambda sign: sign.seen.stirred, default=None)

    def _works(self, end: WaitEnd, sign: Sign | None) -> bool:
        if sign is None:
            return end.kind == "starting"
        return sign.rule.role == "working" or sign.seen.stirred or sign.seen.works

    def _unread(self) -> tuple[ProcessPlace, ...]:
        places = [end.party.place for end in self.ends if end.kind == "process" and end.party.place]
        if any(end.kind == "object" for end in self.ends):
            hosts = self._ray.tables.host
            places += [ProcessPlace(hosts.get(m.node, ""), m.pid) for m in self._ray.tables.movers]
        known = {**self._signs, **self._helpers}
        return tuple(place for place in dict.fromkeys(places) if place not in known)

    # --- accusations --------------------------------------------------------------------------

    def _accuse(self, place: int, end: WaitEnd, sign: Sign | None) -> Accusation | None:
        if sign is None and place in self._spilled:
            return self._spilled[place].accusation()
        match end.kind:
            case "process":
                return self._of_process(end, sign) if sign else None
            case "object":
                return self._of_object(end, sign)
            case "unplaceable" if end.seconds > PLACED_WITHIN:
                largest = self._largest(end)
                needs = _needs_text(end)
                return _say(ray_causes.UNPLACEABLE, end, needs=needs, largest=largest)
            case "no room":
                return self._no_room(end)
            case "restarts":
                return self._restarts(end)
            case "cycle":
                return self._cycle(end)
            case "starting" if end.seconds > STARTS_WITHIN:
                return _say(ray_causes.NOT_STARTED, end, needs=_needs_text(end))
        return None

    def _of_process(self, end: WaitEnd, sign: Sign) -> Accusation | None:
        if sign.rule.role in ("collective", "store"):
            return None
        if self._is_queue(end):
            return self._empty_queue(end)
        if sign.rule.role == "idle":  # it has just begun, or ended: tables are a second old
            return None
        function = self._function(end.task)
        found = accuse([sign])
        longest = function.longest if function else None
        return replace(found, chain=end.links, waited=end.seconds, usual=longest)

    def _is_queue(self, end: WaitEnd) -> bool:
        actor = self._ray.tables.actor.get(end.task.actor) if end.task else None
        return actor is not None and actor.role == QUEUE_ACTOR

    def _empty_queue(self, end: WaitEnd) -> Accusation | None:
        """One that waits at a queue of ray.util.queue: the process before the queue's actor."""
        method = end.task.name.rpartition(".")[2] if end.task else "get"
        waits = [link.who.place for link in end.links if link.who.place in self._signs]
        if not waits or waits[-1] is None:
            return None
        sign = self._signs[waits[-1]]
        queue = "a full" if method.startswith("put") else "an empty"
        found = _say(ray_causes.QUEUE, end, queue=queue, place=_line(sign))
        level = ROLES.index("outside")
        return replace(found, ranks=(sign.seen.rank,), signs=(sign,), level=level, party=None)

    def _without_patient(self, accused: list[Accusation]) -> list[Accusation]:
        """One that waits at a queue is no culprit while another process of the job may fill it."""
        queues = [
            each for each in accused if each.cause in ("waits-for-queue", "event-loop-awaits")
        ]
        if not queues:
            return accused
        links = [link for each in queues for link in each.chain]
        chain = {place for link in links for place in (link.who.place, link.whom.place)}
        accused_places = {place_of(r) for each in queues for r in each.ranks}
        others = [
            sign
            for place, sign in self._signs.items()
            if place not in {*chain, *accused_places} and self._runs(place)
        ]
        if any(s.seen.stirred or s.seen.works or s.rule.role == "working" for s in others):
            return [each for each in accused if each not in queues]
        stuck = [sign for sign in others if sign.rule.role in ("own", "held")]
        for sign in stuck:  # it may be the one that should fill it
            accused = [*accused, replace(accuse([sign]), chain=queues[0].chain)]
        return accused

    def _runs(self, place: ProcessPlace) -> bool:
        """Whether it does anything for the job: an idle worker wakes up often too."""
        return place in self._ray.tables.running or place in self._ray.drivers

    def _of_object(self, end: WaitEnd, sign: Sign | None) -> Accusation | None:
        if sign is None:  # nothing moves objects
            return None
        place = place_of(sign.seen.rank)
        worker = process_at(
            place, f"Ray's worker for spilled objects (pid {place.pid} on {place.host})"
        )
        chain = (*end.links, Link(end.party, "is moved to or from storage by", worker))
        return replace(accuse([sign]), party=worker, chain=chain, waited=end.seconds or None)

    def _largest(self, end: WaitEnd) -> str:
        """What the nodes have of the resources that it needs."""
        needs = _needs(end)
        nodes = self._ray.tables.nodes
        most = {name: max((n.total.get(name, 0.0) for n in nodes), default=0.0) for name in needs}
        return ", ".join(f"{value:g} {name}" for name, value in most.items())

    def _no_room(self, end: WaitEnd) -> Accusation | None:
        if end.seconds <= PLACED_WITHIN:
            return None
        holders = _names(
            self._signs[place].seen.rank for place in end.members if place in self._signs
        )
        held_by = holders or f"{len(end.members)} actors of other jobs"
        return _say(ray_causes.RESOURCES_HELD, end, needs=_needs_text(end), holders=held_by)

    def _restarts(self, end: WaitEnd) -> Accusation | None:
        actor = end.actor
        assert actor is not None
        before = self._ray.restarts_before.get(actor.id, actor.restarts)
        never_ran = not any(
            function.finished and function.name.startswith(f"{actor.role}.")
            for function in self._ray.tables.functions
        )
        if actor.restarts < MANY_RESTARTS or not (never_ran or actor.restarts > before):
            return None
        ranks = [r for r in self._evidence.gone if r.names.get("actor_id") == actor.id]
        died = f"; the last time: {actor.died}" if actor.died else ""
        found = _say(ray_causes.RESTARTS, end, restarts=str(actor.restarts), died=died)
        return replace(found, ranks=tuple(ranks[-1:]))

    def _cycle(self, end: WaitEnd) -> Accusation:
        signs = [self._signs[place] for place in end.members if place in self._signs]
        calls = [link.whom.name for link in end.links if link.whom.kind == "task"]
        found = _say(ray_causes.CYCLE, end, calls=" → ".join(calls))
        ranks = tuple(sign.seen.rank for sign in signs)
        return replace(found, ranks=ranks, signs=tuple(signs), party=None, waited=None)

    # --- what is at work ----------------------------------------------------------------------

    def _function(self, task: RayTask | None) -> RayFunction | None:
        return self._ray.tables.function.get(task.name) if task else None

    def _awaited(self, end: WaitEnd, sign: Sign | None) -> Awaited:
        return Awaited(end.links, sign, end.task, self._function(end.task))


def _needs(end: WaitEnd) -> dict[str, float]:
    if end.group is not None:
        return {name: v for bundle in end.group.bundles for name, v in bundle.items()}
    needs = end.task.needs if end.task else {}
    return needs or (end.actor.needs if end.actor else {})


def _needs_text(end: WaitEnd) -> str:
    if end.group is None:
        return resources_text(_needs(end))
    return " + ".join(resources_text(bundle) for bundle in end.group.bundles)


def _say(rule: HangRule, end: WaitEnd, **words: str) -> Accusation:
    return Accusation(
        rule.cause,
        (),
        (),
        rule.says.format_map(words),
        rule.why,
        rule.fix,
        _GONE,
        party=end.party,
        chain=end.links,
        waited=end.seconds,
    )


def _names(ranks: Iterable[Rank]) -> str:
    found: dict[str, list[int]] = {}
    for rank in ranks:
        found.setdefault(rank.role, []).append(rank.number or 0)
    return ", ".join(f"{role} {','.join(map(str, sorted(n)))}" for role, n in found.items())
