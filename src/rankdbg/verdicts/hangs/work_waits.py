"""Whether a rank that others wait for may itself only wait for work, as the ranks of an idle server do.

Nothing in the stacks of a program with sockets of its own tells a rank that does not come to its
`recv()` from one that has nothing to hand out. What tells is how it waits, and what it was sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rankdbg.verdicts.hangs.chain_ends import ends_for_good
from rankdbg.verdicts.hangs.hang_rules import Sign
from rankdbg.verdicts.waits.wait_links import Link, ProcessPlace, place_of
from rankdbg.wire.node_answers import AwaitedThing

LONG_SLEEP = 60.0  # seconds: no poll and no retry

_FOR_WORK = {
    "waits-for-network", "waits-for-input", "waits-for-pipe", "waits-for-queue", "sleeping",
}  # fmt: skip
_WRITES = ("write", "writev", "sendto", "sendmsg")


class DirectWaits:
    """Who waits for whom, without anybody between them: each stage of a pipeline has one before it."""

    def __init__(self, chains: Iterable[Sequence[Link]], ranks: Collection[ProcessPlace]) -> None:
        self._ranks = {*ranks}
        self._waiting_for: dict[ProcessPlace, set[ProcessPlace]] = {}
        # Others have sent these something before they began to wait, and that is not read.
        self.has_unread: set[ProcessPlace] = set()
        for link in (link for chain in chains for link in chain):
            before, whom = link.who.place, link.whom.place
            if whom is None:
                continue
            if link.unread:
                self.has_unread.add(whom)
            if before is not None and before != whom:
                self._waiting_for.setdefault(whom, set()).add(before)

    def is_gathered(self, place: ProcessPlace) -> bool:
        """Whether a rank waits for this one for which several others wait: it gathers what they
        have, and this one has not sent its part. Work comes through such a rank from rank 0 or a
        driver."""
        hubs = self._waiting_for.get(place, set()) & self._ranks
        return any(len(self._waiting_for.get(hub, set()) - {place}) > 1 for hub in hubs)


def may_wait_for_work(
    sign: Sign, things: Sequence[AwaitedThing], own: Sequence[Link], waits: DirectWaits
) -> bool:
    """`things`: what the rank waits for, `own`: its chain."""
    if sign.rule.role == "idle":
        return True
    if sign.rule.role != "outside" or sign.rule.cause not in _FOR_WORK or sign.child is not None:
        return False
    if sign.seen.wait.call in _WRITES or ends_for_good(own):
        return False
    place = place_of(sign.seen.rank)
    # A wait of the main thread says nothing about what another thread serves.
    is_gathered = sign.seen.rank.number != 0 and waits.is_gathered(place)
    if waits_in_vain(sign) or (is_gathered and not sign.seen.others):
        return False
    is_client = sign.rule.cause == "waits-for-network" and _is_client(things)
    return not (is_client and place in waits.has_unread)


def waits_in_vain(sign: Sign) -> bool:
    """A long sleep, or a queue that stays empty, of the only thread of a process."""
    if sign.seen.others:
        return False
    if sign.rule.cause == "waits-for-queue":
        return sign.seen.wait.call == "futex"
    return sign.rule.cause == "sleeping" and sleeps_for_long(sign)


def sleeps_for_long(sign: Sign) -> bool:
    return (sign.seen.wait.timer or 0.0) > LONG_SLEEP


def _is_client(things: Sequence[AwaitedThing]) -> bool:
    """Work comes from those that have connected to it."""
    connections = [thing for thing in things if thing.kind == "connection"]
    return bool(connections) and not any(thing.accepted for thing in connections)
