"""The process groups of a job, put together from what each rank knows of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rankdbg.verdicts.collectives.traces import Operation, Trace, all_ranks

# The group of all ranks: its name in entries, and what torch describes it as.
_DEFAULT_NAME, _DEFAULT_DESCRIPTION = "0", "default_pg"


@dataclass(frozen=True, eq=False)
class ProcessGroup:
    """One object for each group of a job: to compare thousands of members takes its time."""

    name: str
    members: tuple[int, ...]  # in the group's own order: its rank 0 first
    description: str = ""
    certain: bool = True  # else nothing names its members: these have used it


class TracedJob:
    """All ranks. Those that no trace tells about, but some group has, are absent."""

    def __init__(self, traces: Iterable[Trace], why_absent: str = "it left no evidence") -> None:
        given = list(traces)
        missing = all_ranks(given) - {trace.rank for trace in given}
        self.traces = {trace.rank: trace for trace in given}
        self.traces |= {rank: Trace(rank, absent=why_absent) for rank in missing}
        self.ranks = sorted(self.traces)
        self._known: dict[tuple[int, str], ProcessGroup] = {}
        self._distinct: dict[tuple[str, tuple[int, ...]], ProcessGroup] = {}

    # --- groups -----------------------------------------------------------------------

    def group(self, rank: int, name: str) -> ProcessGroup:
        """The group that this rank knows by this name. Two groups may share a name, where no
        rank is in both."""
        key = rank, name
        if key not in self._known:
            found = self._find_group(rank, name)
            self._known[key] = self._distinct.setdefault((name, found.members), found)
        return self._known[key]

    def _find_group(self, rank: int, name: str) -> ProcessGroup:
        own = self.traces[rank]
        described = own.descriptions.get(name, "")
        if name in own.members:
            return ProcessGroup(name, own.members[name], described)
        for trace in self.traces.values():
            if rank in trace.members.get(name, ()):
                return ProcessGroup(name, trace.members[name], trace.descriptions.get(name, ""))
        if name == _DEFAULT_NAME or described == _DEFAULT_DESCRIPTION:
            return ProcessGroup(name, tuple(self.ranks), described)
        users = [r for r in self.ranks if any(op.group == name for op in self._operations(r))]
        return ProcessGroup(name, tuple(users), described, certain=False)

    @cached_property
    def groups(self) -> list[ProcessGroup]:
        """Those in which anything is known to have happened."""
        found = {
            self.group(rank, op.group): None for rank in self.ranks for op in self._operations(rank)
        }
        return sorted(found, key=lambda g: (-len(g.members), len(g.name), g.name, g.members))

    def _operations(self, rank: int) -> tuple[Operation, ...]:
        return self.traces[rank].operations

    # --- operations -------------------------------------------------------------------

    @cached_property
    def _by_group(self) -> dict[tuple[int, ProcessGroup], list[Operation]]:
        found: dict[tuple[int, ProcessGroup], list[Operation]] = {}
        for rank in self.ranks:
            for op in self._operations(rank):
                found.setdefault((rank, self.group(rank, op.group)), []).append(op)
        return found

    def operations(self, rank: int, group: ProcessGroup) -> list[Operation]:
        """What a rank has issued in a group, in order."""
        return self._by_group.get((rank, group), [])

    @cached_property
    def _collectives(self) -> dict[tuple[int, ProcessGroup], dict[int, Operation]]:
        return {
            key: {op.number: op for op in operations if not op.point_to_point}
            for key, operations in self._by_group.items()
        }

    def collectives(self, rank: int, group: ProcessGroup) -> dict[int, Operation]:
        """By number; of one that is a coalesced row of operations, the last."""
        return self._collectives.get((rank, group), {})

    def entered(self, rank: int, group: ProcessGroup, op: Operation) -> bool | None:
        """Whether a member has come to this operation of another; None: nothing tells."""
        trace = self.traces[rank]
        if trace.absent:
            return None
        if op.point_to_point:
            return self._has_met(rank, group, op)
        numbers = self.collectives(rank, group)
        if numbers and max(numbers) >= op.number:
            return True
        if group.name in trace.entered and not self._sends(group):
            return trace.entered[group.name] >= op.number
        return False if numbers or not trace.only_active else None

    def _has_met(self, rank: int, group: ProcessGroup, op: Operation) -> bool | None:
        """Whether the other end of a send or recv has issued its own."""
        trace = self.traces[rank]
        issued = [other for other in self.operations(rank, group) if other.point_to_point]
        if len(group.members) == 2 and op.number and issued:
            # Both ends count the same operations.
            return max(other.number for other in issued) >= op.number
        if any(o.ends == op.ends and o.name != op.name and not o.finished for o in issued):
            return True
        return False if issued or not trace.only_active else None

    def _sends(self, group: ProcessGroup) -> bool:
        """Whether a group also sends and receives: then its status counts either."""
        return group in self._sending

    @cached_property
    def _sending(self) -> set[ProcessGroup]:
        return {g for (_, g), ops in self._by_group.items() if any(o.point_to_point for o in ops)}

    def others(self, rank: int, group: ProcessGroup, op: Operation) -> list[int]:
        """Whom an operation of this rank needs."""
        if not op.point_to_point:
            return [member for member in group.members if member != rank]
        if op.ends is None:
            return []
        near, far = op.ends if op.name == "send" else op.ends[::-1]
        return [group.members[far]] if far < len(group.members) and far != near else []
