"""Collectives as lanes: of each process group, who has entered and who is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankdbg.frontends.html.document import Lane, LaneRow
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.investigations.collectives import collective_words as words
from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
from rankdbg.investigations.collectives.world_waits import GroupRow, WorldWaits
from rankdbg.process.dimensions import dimension_of
from rankdbg.verdicts.collectives.process_groups import ProcessGroup
from rankdbg.verdicts.collectives.traces import Operation

MOST_LANES = 40
MOST_ROWS = 12


class LaneViews:
    """Groups in the same situation (the same operation, as many missing) are one lane: a mesh has a
    thousand groups, and a dozen situations."""

    def __init__(self, waits: CollectiveWaits, table: RankTable) -> None:
        self._waits, self._table = waits, table
        self._culprits = {rank.process for rank in waits.culprits}
        lanes: dict[object, list[GroupState]] = {}
        for world, group in waits.groups() if waits.has_evidence else []:
            state = GroupState.of(world, group)
            lanes.setdefault(self._situation(state), []).append(state)
        self.lanes = [self._lane(states) for states in [*lanes.values()][:MOST_LANES]]
        self.left_out = len(lanes) - len(self.lanes)

    @property
    def sentences(self) -> list[str]:
        if not self._waits.has_evidence:
            return []
        return [*self._waits.sentences(), *self._waits.mismatch_texts()]

    def _situation(self, state: GroupState) -> object:
        missing = {state.world.world.rank(number).process for number in state.missing}
        lacks = len(missing), bool(missing & self._culprits), [row.mark for row in state.rows]
        return str((_kind(state.group), state.kind, state.waits, *lacks))

    def _lane(self, states: Sequence[GroupState]) -> Lane:
        first = states[0]
        seconds = [each.seconds for each in states if each.seconds is not None]
        return {
            "group": words.group_name(first.group).removeprefix("group ")
            if len(states) == 1
            else _kind(first.group),
            "groups": len(states),
            "operation": first.operation if len(states) == 1 else first.kind,
            "members": self._set((s.world, n) for s in states for n in s.group.members),
            "entered": self._set((s.world, n) for s in states for n in s.entered),
            "missing": self._set((s.world, n) for s in states for n in s.missing),
            "seconds": max(seconds, default=None),
            "waits": first.waits,
            "rows": [self._row(first, row) for row in first.rows[-MOST_ROWS:]],
        }

    def _row(self, state: GroupState, row: GroupRow) -> LaneRow:
        return {
            "ranks": self._set((state.world, number) for number in row.ranks),
            "text": state.world.row_text(row, state.group).strip(),
            "mark": row.mark,
        }

    def _set(self, numbers: Iterable[tuple[WorldWaits, int]]) -> str:
        return self._table.set_of(world.world.rank(number) for world, number in numbers)


@dataclass(frozen=True)
class GroupState:
    """What happens in one group, by torch's numbers."""

    world: WorldWaits
    group: ProcessGroup
    rows: Sequence[GroupRow]
    operation: str  # in which most wait; of a group in which no rank waits, the last one
    kind: str  # the same, without the other end of a send or recv
    waits: bool
    entered: Sequence[int]
    missing: Sequence[int]
    seconds: float | None

    @staticmethod
    def of(world: WorldWaits, group: ProcessGroup) -> GroupState:
        rows = world.rows(group)
        waiting = [row for row in rows if row.entered is not None and not row.entered.finished]
        chosen = max(waiting or rows, key=lambda row: (row.entered is not None, len(row.ranks)))
        entered = chosen.entered
        operation = words.operation(entered, group, world.names) if entered else ""
        return GroupState(
            world,
            group,
            rows,
            operation,
            entered.name if entered and entered.point_to_point else operation,
            bool(waiting),
            [n for row in rows if _is_in(row, chosen, bool(waiting)) for n in row.ranks],
            [n for row in rows if row.mark == "missing" for n in row.ranks],
            _seconds(world, chosen) if waiting else None,
        )


def _kind(group: ProcessGroup) -> str:
    """The dimension of a mesh, if it is one of those; else its own name."""
    return dimension_of(group.description) or group.description or group.name


def _is_in(row: GroupRow, chosen: GroupRow, waiting: bool) -> bool:
    """Whether these have entered the operation of the lane. One that has left it has been there."""
    if row.entered is None or chosen.entered is None or row.mark == "missing":
        return False
    if _key(row.entered) == _key(chosen.entered):
        return True
    return waiting and row.entered.number > chosen.entered.number


def _seconds(world: WorldWaits, row: GroupRow) -> float | None:
    """Since the first of them has entered it, by the clock of its own recorder."""
    ages = []
    for number in row.ranks:
        trace = world.job.traces[number]
        same = [op for op in trace.pending() if _key(op) == _key(row.entered)]
        ages += [(trace.now - op.created) / 1e9 for op in same if trace.now and op.created]
    return round(max(ages), 1) if ages else None


def _key(op: Operation | None) -> tuple[object, ...]:
    return (op.group, op.name, op.number) if op is not None else ()
