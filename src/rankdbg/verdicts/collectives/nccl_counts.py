"""What NCCL knows of its communicators -> traces, for programs whose collectives no recorder of
torch has seen: JAX, vLLM, Megatron's own communicators, ranks without an agent.

NCCL only counts: how many operations of each kind a rank has launched. Ranks of one communicator
whose counts differ, and stay as they are, wait in the last operation for those that have launched
fewer. Counts that are equal say nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives
from rankdbg.wire.node_answers import NcclCommunicator, NcclRank

# (communicator, its rank, operation) -> how many it has launched
Counts = dict[tuple[str, int, str], int]


def counts_of(communicators: Sequence[NcclCommunicator]) -> Counts:
    """To compare two looks: what changes is at work."""
    return {
        (each.name, member.rank, operation): count
        for each in communicators
        for member in each.ranks
        for operation, count in member.launched.items()
    }


def traces_of(
    before: Sequence[NcclCommunicator], after: Sequence[NcclCommunicator], ranks: Sequence[Rank]
) -> list[RecordedCollectives]:
    """Of all ranks with a number, for communicators on which nothing has happened between two looks."""
    numbered = [rank for rank in ranks if rank.number is not None]
    first = counts_of(before)
    traces = {rank.process: _Collected(rank) for rank in numbered}
    for each in after:
        members = _members(each, numbered)
        still = all(first.get(key) == count for key, count in counts_of([each]).items())
        if still and members:
            for operation in sorted({name for count in members.values() for name in count[1]}):
                _add(traces, each, operation, members)
    return [
        RecordedCollectives(found.rank, found.trace(), size=len(numbered))
        for found in traces.values()
        if any(each.operations for each in traces.values())
    ]


class _Collected:
    """What becomes the trace of one rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.operations: list[Operation] = []
        self.members: dict[str, tuple[int, ...]] = {}
        self.descriptions: dict[str, str] = {}
        self.entered: dict[str, int] = {}

    def trace(self) -> Trace:
        return Trace(
            self.rank.number or 0,
            tuple(self.operations),
            self.members,
            self.descriptions,
            self.entered,
            only_active=True,
        )


_Members = Mapping[int, tuple[Rank, Mapping[str, int]]]


def _add(
    traces: Mapping[ProcessKey, _Collected],
    each: NcclCommunicator,
    operation: str,
    members: _Members,
) -> None:
    counts = {number: count.get(operation, 0) for number, (_, count) in members.items()}
    most = max([*counts.values(), each.most.get(operation, 0)])
    if min(counts.values()) == most:
        return
    group = f"{each.name} {operation}"  # the kinds are counted apart
    for number, (rank, _) in members.items():
        found = traces[rank.process]
        found.members[group] = tuple(sorted(members))
        found.descriptions[group] = f"NCCL communicator {each.name}"
        found.entered[group] = counts[number]
        if counts[number] == most:
            entry = Operation(group, _torch_name(operation), most, backend="nccl", state="started")
            found.operations.append(entry)


def _torch_name(operation: str) -> str:
    """AllReduce -> all_reduce"""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).lower()


# --- who is who -------------------------------------------------------------------------------


def _members(each: NcclCommunicator, ranks: Sequence[Rank]) -> _Members:
    """By the rank's number in the job; nothing if it is not certain who one of them is."""
    hosts = _hosts(each.ranks, ranks)
    found = {}
    for member in each.ranks:
        same = [rank for rank in ranks if _is_same(member, rank, hosts)]
        if len(same) != 1:
            return {}
        found[same[0].number or 0] = same[0], member.launched
    if len(found) < each.size == len(ranks):
        # The text of an older NCCL does not name the many.
        found |= {r.number or 0: (r, each.most) for r in ranks if r.number not in found}
    return found if len(found) == each.size else {}


def _hosts(members: Sequence[NcclRank], ranks: Sequence[Rank]) -> dict[str, str]:
    """Address -> host: where the processes of an address run, by pids that only one rank has."""
    pids = Counter(rank.pid for rank in ranks)
    by_pid = {rank.pid: rank.host for rank in ranks if pids[rank.pid] == 1}
    return {member.host: by_pid[member.pid] for member in members if member.pid in by_pid}


def _is_same(member: NcclRank, rank: Rank, hosts: Mapping[str, str]) -> bool:
    return member.pid == rank.pid and hosts.get(member.host, rank.host) == rank.host
