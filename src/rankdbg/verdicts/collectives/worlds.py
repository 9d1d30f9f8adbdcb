"""The worlds of a job: processes whose torch.distributed counts from 0 together.

A job may have several: the trainers and the rollouts of a Ray job, two torchruns, two steps of
Slurm. torch's own numbers mean something within one world alone, so each is judged by itself and its
findings are mapped back to processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rankdbg.types import ProcessKey, Rank, unknown_rank
from rankdbg.verdicts.collectives.culprits import SETTLED_SECONDS, CollectiveFindings, judge
from rankdbg.verdicts.collectives.traces import Trace


@dataclass(frozen=True)
class RecordedCollectives:
    """What one process told about its collectives."""

    rank: Rank
    trace: Trace  # numbered as torch numbers the process; else by its label
    store: str = ""  # HOST:PORT of the store at which its world has met; empty: not known
    size: int = 0  # of its world; 0: not known

    @property
    def uses_torch(self) -> bool:
        trace = self.trace
        return bool(self.store or self.size or trace.operations or trace.members or trace.entered)


@dataclass(frozen=True)
class World:
    """One world, judged, and the process behind each of torch's numbers."""

    findings: CollectiveFindings
    ranks: Mapping[int, Rank]

    def rank(self, number: int) -> Rank:
        """The process; of a number that no process of the roster has, a rank without one."""
        known = self.ranks.get(number)
        if known is not None:
            return known
        like = next(iter(self.ranks.values()))
        return unknown_rank(number, like)

    def of(self, numbers: Iterable[int]) -> list[Rank]:
        return [self.rank(number) for number in numbers]

    @property
    def waiting(self) -> set[ProcessKey]:
        return {self.rank(number).process for number in self.findings.waits}


def judge_worlds(
    recorded: Sequence[RecordedCollectives],
    why_absent: str = "it left no evidence",
    longer_than: float = SETTLED_SECONDS,
) -> list[World]:
    """Each world of the job, the one in which most ranks are waited for first."""
    worlds = [
        World(
            judge([each.trace for each in members.values()], why_absent, longer_than),
            {number: each.rank for number, each in members.items()},
        )
        for members in separate(recorded)
    ]
    return sorted(worlds, key=lambda world: (not world.findings.culprits, -len(world.ranks)))


_Members = dict[int, RecordedCollectives]


def separate(recorded: Sequence[RecordedCollectives]) -> list[_Members]:
    """torch's number -> what that process told, for each world."""
    worlds: list[_Members] = []
    families: dict[tuple[object, ...], list[_Members]] = {}
    for each in sorted(recorded, key=_order):
        if each.uses_torch:
            _join(each, families.setdefault(_family(each), []), worlds)
    worlds = _met_at_one_port(worlds)
    for each in sorted(recorded, key=_order):
        if not each.uses_torch and each.rank.number is not None:
            _add_quiet(each, worlds)
    return worlds


def _order(each: RecordedCollectives) -> tuple[int, int, ProcessKey]:
    """Processes that were started together are next to each other."""
    return each.trace.rank, each.rank.process.start, each.rank.process


def _family(each: RecordedCollectives) -> tuple[object, ...]:
    return (each.store, each.size) if each.store else _labels(each.rank)


def _labels(rank: Rank) -> tuple[object, ...]:
    """What tells worlds apart where no store is known."""
    names = rank.names
    return (rank.job, rank.role, names.get("step"), names.get("het"), names.get("actor_mesh"))


def _join(each: RecordedCollectives, family: list[_Members], worlds: list[_Members]) -> None:
    for members in family:
        if each.trace.rank not in members:
            members[each.trace.rank] = each
            return
    family.append({each.trace.rank: each})
    worlds.append(family[-1])


def _met_at_one_port(worlds: list[_Members]) -> list[_Members]:
    """Ranks may know one store by several names of its host: localhost, its name, its address."""
    found: list[_Members] = []
    for members in worlds:
        same = next((other for other in found if _is_one_world(members, other)), None)
        if same is None:
            found.append(members)
        else:
            same.update(members)
    return found


def _is_one_world(one: _Members, other: _Members) -> bool:
    first, second = next(iter(one.values())), next(iter(other.values()))
    return (
        bool(first.store and second.store)
        and _port(first) == _port(second)
        and first.size == second.size
        and _labels(first.rank) == _labels(second.rank)
        and not one.keys() & other.keys()
    )


def _port(each: RecordedCollectives) -> str:
    return each.store.rpartition(":")[2]


def _add_quiet(each: RecordedCollectives, worlds: list[_Members]) -> None:
    """A process that told nothing is in the world of its like that lacks its number; or in the one
    that lacks a single number, where labels and torch count differently."""
    for number_of in (_free_label, _only_free):
        for members in worlds:
            if _labels(next(iter(members.values())).rank) == _labels(each.rank):
                number = number_of(each, members)
                if number is not None:
                    members[number] = replace(each, trace=replace(each.trace, rank=number))
                    return
    worlds.append({each.trace.rank: each})


def _free_label(each: RecordedCollectives, members: _Members) -> int | None:
    number, size = each.trace.rank, next(iter(members.values())).size
    return number if number not in members and (not size or number < size) else None


def _only_free(each: RecordedCollectives, members: _Members) -> int | None:
    free = set(range(next(iter(members.values())).size)) - members.keys()
    return free.pop() if len(free) == 1 else None
