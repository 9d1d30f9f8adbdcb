"""What a wait in Ray is for: from ray.get() through tasks, actors, placement groups and resources to
where it ends.

The tables say what each task waits for. Which objects a ray.get() waits for is known where the
process has an agent; else all that its task has called and that has not ended may be meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rankdbg.text.amounts import duration
from rankdbg.verdicts.waits.wait_links import Link, Party, ProcessPlace, process_at
from rankdbg.wire.answers import RayWait
from rankdbg.wire.ray_tables import (
    RayActor,
    RayGroup,
    Raylet,
    RayNode,
    RayTables,
    RayTask,
    Resources,
)

# Where a chain of waits ends:
#   process      a process runs the task, and waits for nothing in Ray
#   unplaceable  no node has the resources
#   no room      processes that do nothing hold the resources
#   restarts     its actor dies and is started again
#   cycle        at one that is in the chain already
#   starting     Ray could start it, or is about to
#   object       the task has ended, and its result is on its way
EndKind = Literal["process", "unplaceable", "no room", "restarts", "cycle", "starting", "object"]
DRIVER_TASK = "f" * 40  # and the id of its job
TASK_ID = 48  # characters: an object's id begins with that of its task
QUEUE_ACTOR = "_QueueActor"  # of ray.util.queue
_PLACING = ("PENDING_NODE_ASSIGNMENT",)
_FETCHING = (
    "PENDING_ARGS_FETCH", "PENDING_ACTOR_TASK_ARGS_FETCH", "GETTING_AND_PINNING_ARGS",
    "PENDING_OBJ_STORE_MEM_AVAIL",
)  # fmt: skip
_PENDING = ("PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
_MOST_BRANCHES = 64  # of one wait: more show nothing new
_DEEPEST = 32


@dataclass(frozen=True)
class WaitEnd:
    kind: EndKind
    links: tuple[Link, ...]
    party: Party
    seconds: float = 0.0  # for how long it has been so
    task: RayTask | None = None  # that runs, or cannot
    actor: RayActor | None = None
    group: RayGroup | None = None
    members: tuple[ProcessPlace, ...] = ()  # of a cycle; or those that hold what is needed
    certain: bool = True  # whether that is what is waited for, or may be
    objects: tuple[str, ...] = ()  # that are waited for, if that is known


@dataclass(frozen=True)
class RayEvidence:
    tables: RayTables
    drivers: Mapping[ProcessPlace, str] = field(default_factory=dict)  # the id of the job of each
    waits: Mapping[ProcessPlace, Sequence[RayWait]] = field(default_factory=dict)  # by agents
    restarts_before: Mapping[str, int] = field(default_factory=dict)  # by actor, at the first look
    raylets_before: Mapping[str, Raylet] = field(default_factory=dict)  # by node
    raylets: Mapping[str, Raylet] = field(default_factory=dict)


def find_ends(evidence: RayEvidence, waiting: Mapping[ProcessPlace, str]) -> list[WaitEnd]:
    """Where the waits of these processes end; each once. `waiting`: in which line each waits."""
    waits = _Waits(evidence, waiting)
    inner = {runner for place in waiting for runner in waits.runners(place)}
    # Those that no process waits for come first: their chains are the longest.
    ends: dict[tuple[str, str], WaitEnd] = {}
    for place in sorted(waiting, key=lambda place: (place in inner, place)):
        for end in waits.follow(place):
            ends.setdefault((end.kind, _key(end)), end)
    return [*ends.values()]


def _key(end: WaitEnd) -> str:
    """A cycle is the same wherever a chain enters it."""
    return str(sorted(end.members)) if end.kind == "cycle" else end.party.id


class _Waits:
    def __init__(self, evidence: RayEvidence, waiting: Mapping[ProcessPlace, str]) -> None:
        self._tables = evidence.tables
        self._known = evidence.waits
        self._drivers = evidence.drivers
        self._waiting = waiting
        self._followed: set[ProcessPlace] = set()

    def follow(
        self, place: ProcessPlace, links: tuple[Link, ...] = (), certain: bool = True
    ) -> list[WaitEnd]:
        """From a process that waits in Ray, once: another way to it shows nothing new."""
        if place in self._followed:
            return []
        self._followed.add(place)
        who = process_at(place)
        tasks, sure = self._awaited(place)
        reason = self._reason(place)
        ends = []
        for task in tasks[:_MOST_BRANCHES]:
            link = Link(who, reason, _task_party(task), _facts(task))
            ends += self._task(task, (*links, link), certain and sure)
        if tasks:
            return ends
        groups = [g for g in self._tables.groups if g.state != "CREATED" and self._is_of(g, place)]
        for group in groups:
            link = Link(who, reason, _group_party(group), _facts_of_group(group))
            ends += self._group(group, (*links, link), certain)
        if groups:
            return ends
        known = self._objects(place)
        if not known and not self._parents(place):
            return []  # nothing that Ray knows of
        name = f"object {known[0][:16]}…" if known else "an object of a task that has ended"
        party = Party("object", known[0] if known else who.id + "/object", name)
        link = Link(who, reason, party, ("Ray: all tasks that it has called have ended",))
        objects = tuple(known)
        return [WaitEnd("object", (*links, link), party, certain=certain, objects=objects)]

    def runners(self, place: ProcessPlace) -> list[ProcessPlace]:
        """The processes that run what this one waits for."""
        return [self._place(task) for task in self._awaited(place)[0] if task.runs]

    def _reason(self, place: ProcessPlace) -> str:
        call = next((f"ray.{wait.call}()" for wait in self._known.get(place, ())), "Ray")
        where = self._waiting.get(place, "")
        return f"waits in {call}{f', {where},' if where else ''} for"

    # --- what a process waits for -----------------------------------------------------------

    def _awaited(self, place: ProcessPlace) -> tuple[list[RayTask], bool]:
        """The tasks, and whether it is certain that these are meant."""
        objects = self._objects(place)
        ids = dict.fromkeys(each[:TASK_ID] for each in objects)
        tasks = [self._tables.task[each] for each in ids if each in self._tables.task]
        own = self._parents(place)
        tasks = [task for task in tasks if task.id not in own]  # what it has put() itself
        if objects:
            return tasks, self._needs_all(place)
        called = [task for parent in self._parents(place) for task in self._called_by(parent)]
        methods = [task for task in called if task.kind != "actor_creation_task"]
        return methods or called, len(methods or called) == 1

    def _needs_all(self, place: ProcessPlace) -> bool:
        """A ray.wait() returns with the first, unless it is told another number."""
        waits = self._known.get(place, ())
        return all(wait.call == "get" or wait.enough >= len(wait.objects) for wait in waits)

    def _objects(self, place: ProcessPlace) -> list[str]:
        return [each for wait in self._known.get(place, ()) for each in wait.objects]

    def _parents(self, place: ProcessPlace) -> list[str]:
        running = [task.id for task in self._tables.running.get(place, ())]
        return [DRIVER_TASK + self._drivers[place]] if place in self._drivers else running

    def _called_by(self, parent: str) -> list[RayTask]:
        return self._tables.called_by.get(parent, [])

    def _is_of(self, group: RayGroup, place: ProcessPlace) -> bool:
        jobs = {task.job for task in self._tables.running.get(place, ())}
        return group.job in {*jobs, self._drivers.get(place)}

    # --- tasks ------------------------------------------------------------------------------

    def _task(self, task: RayTask, links: tuple[Link, ...], certain: bool) -> list[WaitEnd]:
        party = links[-1].whom
        if _is_in(party, links[:-1]):
            return [_cycle(links, certain)]
        if len(links) > _DEEPEST:
            return []
        if task.runs:
            return self._running(task, self._place(task), "runs in", links, certain)
        if task.state in _FETCHING:
            return [WaitEnd("object", links, party, task.age, task, certain=certain)]
        if task.state == "PENDING_ARGS_AVAIL" and (others := self._siblings(task)):
            return self._arguments(others[:_MOST_BRANCHES], links, certain)
        actor = self._tables.actor.get(task.actor)
        if task.kind == "actor_task" and actor is not None:
            return self._method(task, actor, links, certain)
        group = self._tables.group.get(task.group)
        if group is not None and group.state != "CREATED":
            facts = _facts_of_group(group)
            link = Link(party, "waits to be placed in", _group_party(group), facts)
            return self._group(group, (*links, link), certain)
        if actor is not None and actor.restarts and actor.state in _PENDING:
            return [_restarting(actor, task, links, certain)]
        if task.state in _PLACING:
            return self._placing(task.needs, task.age, task, links, certain)
        return [WaitEnd("starting", links, party, task.age, task, certain=certain)]

    def _running(
        self, task: RayTask, place: ProcessPlace, verb: str, links: tuple[Link, ...], certain: bool
    ) -> list[WaitEnd]:
        process = process_at(place)
        links = (*links, Link(links[-1].whom, verb, process, _facts(task)))
        if _is_in(process, links[:-1]):
            return [_cycle(links, certain)]
        if place in self._followed:
            return []
        if place in self._waiting and (ends := self.follow(place, links, certain)):
            return ends
        return [WaitEnd("process", links, process, task.ran or 0.0, task, certain=certain)]

    def _method(
        self, task: RayTask, actor: RayActor, links: tuple[Link, ...], certain: bool
    ) -> list[WaitEnd]:
        """A call of an actor that has not begun to run."""
        party = _actor_party(actor)
        links = (*links, Link(links[-1].whom, "is a call of", party))
        if actor.state == "ALIVE":
            place = ProcessPlace(self._tables.host.get(actor.node, ""), actor.pid)
            before = self._tables.running.get(place, [])
            ahead = [other for other in before if other.id != task.id]
            if ahead:
                verb = f"runs {ahead[0].name} first, in"
                return self._running(ahead[0], place, verb, links, certain)
            return [WaitEnd("starting", links, party, 0.0, task, actor, certain=certain)]
        if actor.restarts and actor.state in _PENDING:
            return [_restarting(actor, task, links, certain)]
        creation = self._tables.creation.get(actor.id)
        if creation is not None and creation.id != task.id:
            link = Link(party, "is created by", _task_party(creation), _facts(creation))
            return self._task(creation, (*links, link), certain)
        if actor.state in _PENDING:
            return self._placing(actor.needs, task.age, task, links, certain)
        return [WaitEnd("starting", links, party, task.age, task, actor, certain=certain)]

    def _arguments(
        self, others: Sequence[RayTask], links: tuple[Link, ...], certain: bool
    ) -> list[WaitEnd]:
        """Behind tasks of which one or several make what a task needs."""
        ends = []
        for other in others:
            party = _task_party(other)
            link = Link(links[-1].whom, "needs the result of", party, _facts(other))
            ends += self._task(other, (*links, link), certain and len(others) == 1)
        return ends

    def _siblings(self, task: RayTask) -> list[RayTask]:
        """Of the same caller, and able to run: which of them makes the arguments is not known."""
        return [
            other
            for other in self._called_by(task.parent)
            if other.state != "PENDING_ARGS_AVAIL" and other.id != task.id
        ]

    def _place(self, task: RayTask) -> ProcessPlace:
        return ProcessPlace(self._tables.host.get(task.node, ""), task.pid)

    # --- resources --------------------------------------------------------------------------

    def _group(self, group: RayGroup, links: tuple[Link, ...], certain: bool) -> list[WaitEnd]:
        party = links[-1].whom
        nodes = [node for node in self._tables.nodes if node.alive]
        lacking = [b for b in group.bundles if not any(_fits(b, node.total) for node in nodes)]
        strict = group.strategy == "STRICT_PACK"
        packed = _sum(group.bundles)
        if strict and not any(_fits(packed, node.total) for node in nodes):
            lacking = [packed]
        if group.stage == "INFEASIBLE" or lacking or not self._all_fit(group):
            if self._may_grow(packed):
                return [WaitEnd("starting", links, party, group=group, certain=certain)]
            return [WaitEnd("unplaceable", links, party, group.age, group=group, certain=certain)]
        needs = packed if strict else max(group.bundles, key=lambda b: sum(b.values()), default={})
        found = self._placing(needs, group.age, None, links, certain, all_of=group.bundles)
        return [replace(end, group=group) for end in found]

    def _all_fit(self, group: RayGroup) -> bool:
        """Whether all nodes together have what all bundles need."""
        total = _sum(node.total for node in self._tables.nodes if node.alive)
        return _fits(_sum(group.bundles), total)

    def _may_grow(self, needs: Resources) -> bool:
        """Whether the autoscaler may add what is needed."""
        return bool(self._tables.growth) and _fits(needs, self._tables.growth)

    def _placing(
        self,
        needs: Resources,
        seconds: float,
        task: RayTask | None,
        links: tuple[Link, ...],
        certain: bool,
        all_of: Sequence[Resources] = (),
    ) -> list[WaitEnd]:
        party = links[-1].whom
        nodes = [node for node in self._tables.nodes if node.alive]
        if not any(_fits(needs, node.total) for node in nodes):
            if self._may_grow(needs):
                return [WaitEnd("starting", links, party, task=task, certain=certain)]
            return [WaitEnd("unplaceable", links, party, seconds, task, certain=certain)]
        wanted = all_of or (needs,)
        if all(any(_fits(each, node.free) for node in nodes) for each in wanted):
            return [WaitEnd("starting", links, party, seconds, task, certain=certain)]
        found = self._behind_holders(needs, task, links, certain)
        return [replace(end, seconds=seconds) if end.kind == "no room" else end for end in found]

    def _behind_holders(
        self, needs: Resources, task: RayTask | None, links: tuple[Link, ...], certain: bool
    ) -> list[WaitEnd]:
        """Others hold what it needs: they are at work, or nothing will free it."""
        party = links[-1].whom
        busy: list[WaitEnd] = []
        idle: list[ProcessPlace] = []
        for node in self._tables.nodes:
            scarce = {n for n, v in needs.items() if v > 0 and node.free.get(n, 0.0) < v}
            if not _fits(needs, node.total):
                continue
            for place in self._holders(node, scarce):
                running = self._tables.running.get(place, [])
                if running:
                    verb = f"needs {resources_text(needs)}, which is held by"
                    busy += self._running(running[0], place, verb, links, False)
                else:
                    idle.append(place)
        if busy or not idle:
            return busy or [WaitEnd("starting", links, party, task=task, certain=certain)]
        members = tuple(dict.fromkeys(idle))
        return [WaitEnd("no room", links, party, task=task, members=members, certain=certain)]

    def _holders(self, node: RayNode, scarce: Iterable[str]) -> list[ProcessPlace]:
        wanted = {*scarce}
        actors = [
            actor.pid
            for actor in self._tables.actors
            if actor.node == node.id and actor.state == "ALIVE" and wanted & {*actor.needs}
        ]
        tasks = [
            task.pid
            for task in self._tables.tasks
            if task.runs and task.node == node.id and wanted & {*task.needs}
        ]
        return [ProcessPlace(node.name, pid) for pid in dict.fromkeys([*actors, *tasks])]


def _restarting(actor: RayActor, task: RayTask, links: tuple[Link, ...], certain: bool) -> WaitEnd:
    return WaitEnd("restarts", links, _actor_party(actor), task.age, task, actor, certain=certain)


def _cycle(links: tuple[Link, ...], certain: bool) -> WaitEnd:
    """From the first time that the last party is in the chain."""
    last = links[-1].whom
    first = next(i for i, link in enumerate(links) if last.id in (link.who.id, link.whom.id))
    around = [party for link in links[first:] for party in (link.who, link.whom)]
    places = dict.fromkeys(party.place for party in around if party.place is not None)
    return WaitEnd("cycle", links, last, members=tuple(places), certain=certain)


def _is_in(party: Party, links: Iterable[Link]) -> bool:
    return any(party.id in (link.who.id, link.whom.id) for link in links)


# --- names and amounts --------------------------------------------------------------------


def _task_party(task: RayTask) -> Party:
    return Party("task", task.id, f"task {task.name}")


def _actor_party(actor: RayActor) -> Party:
    name = f"actor {' '.join(filter(None, [actor.role, actor.name]))}"
    return Party("actor", actor.id, name)


def _group_party(group: RayGroup) -> Party:
    return Party("placement group", group.id, f"placement group {group.name or group.id[:12]}")


def _facts(task: RayTask) -> tuple[str, ...]:
    if task.ran is not None and task.runs:
        return (f"Ray: {task.name} has run for {duration(task.ran)}",)
    return (f"Ray: {task.name} is {task.state}, called {duration(task.age)} ago",)


def _facts_of_group(group: RayGroup) -> tuple[str, ...]:
    name = _group_party(group).name
    return (f"Ray: {name} is {group.state} ({group.stage}), requested {duration(group.age)} ago",)


def resources_text(needs: Resources) -> str:
    """64 CPU, 2 GPU"""
    shown = {name: value for name, value in needs.items() if value > 0}
    return ", ".join(f"{value:g} {name}" for name, value in shown.items()) or "no resources"


def _fits(needs: Resources, there: Mapping[str, float]) -> bool:
    return all(there.get(name, 0.0) >= value for name, value in needs.items() if value > 0)


def _sum(parts: Iterable[Mapping[str, float]]) -> Resources:
    total: Resources = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total
