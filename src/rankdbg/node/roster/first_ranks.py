"""Programs that are rank 0 themselves and start the other ranks, with another command or as children
of multiprocessing: nothing gives them a number.

A launcher starts its ranks likewise, and those that are left when rank 0 has died begin at 1, too.
Ranks talk to each other over TCP, and launchers that are not known by name do not talk to ranks: the
program is a rank if one of those it has started is connected to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from rankdbg.node.machine import descriptors
from rankdbg.process import identity
from rankdbg.roster.members import Member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Ends = tuple[str, str]  # the addresses of a connection, its own first


def number(members: Collection[Member]) -> None:
    """Give those among them their number."""
    found = find(members)
    for member in members:
        if (
            member.alive
            and member.pid in found
            and _has_no_number(member, found[member.pid])
            and identity.known_kind(member.command) != "launcher"
        ):
            member.labels = {**member.labels, **found[member.pid]}


def _has_no_number(member: Member, labels: Mapping[str, Any]) -> bool:
    """Also if it has set its own RANK for each rank that it started, and kept that of the last."""
    last = member.text("source") == labels.get("source") == "torchrun"
    return member.whole("rank") is None or (last and member.whole("rank") != 0)


def find(members: Iterable[Member]) -> dict[int, dict[str, Any]]:
    """By pid of a program that is the first rank: the labels that it has by that."""
    started: dict[int, list[Member]] = defaultdict(list)
    for member in members:
        if member.alive and member.whole("rank") is not None:
            started[member.ppid].append(member)
    return {
        pid: _labels(ranks)
        for pid, ranks in started.items()
        if pid > 1 and _are_the_others(ranks) and _is_connected(pid, [r.pid for r in ranks])
    }


def _are_the_others(ranks: Collection[Member]) -> bool:
    """Whether they are the ranks from 1 on."""
    numbers = {rank.whole("rank") for rank in ranks}
    return numbers == {*range(1, len(numbers) + 1)}


def _labels(ranks: Collection[Member]) -> dict[str, Any]:
    labels = next(iter(ranks)).labels
    shared: dict[str, Any] = {name: labels[name] for name in ("world", "source") if name in labels}
    return {**shared, "rank": 0, "local_rank": 0}


def _is_connected(pid: int, others: Iterable[int]) -> bool:
    """Over TCP, with one of the other processes."""
    ends = {(remote, local) for local, remote in _connections(pid)}
    return bool(ends) and any(not ends.isdisjoint(_connections(other)) for other in others)


def _connections(pid: int) -> Iterator[_Ends]:
    from rankdbg.node.machine import tcp  # few nodes need it: loaded when it is needed

    try:
        inodes = {t[8:-1] for _, t in descriptors.targets(pid) if t.startswith("socket:[")}
    except OSError:
        return
    for each in tcp.connections(pid) if inodes else ():
        if each.inode in inodes:
            yield tcp.address_text(each.local), tcp.address_text(each.remote)
