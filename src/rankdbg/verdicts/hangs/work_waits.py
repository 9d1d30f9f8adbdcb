"""Whether a rank that others wait for may itself only wait for work, as the ranks of an idle server do.

Nothing in the stacks of a program with sockets of its own tells a rank that does not come to its
`recv()` from one that has nothing to hand out. What tells is how it waits, and what it was sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rankdbg.verdicts.hangs.chain_ends import ends_for_good
from rankdbg.verdicts.hangs.hang_rules import Sign
from rankdbg.verdicts.hangs.wait_links import Link, ProcessPlace, place_of
from rankdbg.wire.node_answers import AwaitedThing

LONG_SLEEP = 60.0  # seconds: no poll and no retry

_FOR_WORK = {
    "waits-for-network", "waits-for-input", "waits-for-pipe", "waits-for-queue", "sleeping",
}  # fmt: skip
_WRITES = ("write", "writev", "sendto", "sendmsg")


def may_wait_for_work(
    sign: Sign,
    things: Sequence[AwaitedThing],
    own: Sequence[Link],
    chains: Sequence[Sequence[Link]],
    ranks: Collection[ProcessPlace],
) -> bool:
    """`things`: what the rank waits for, `own`: its chain, `chains`: those of all."""
    if sign.rule.role == "idle":
        return True
    if sign.rule.role != "outside" or sign.rule.cause not in _FOR_WORK or sign.child is not None:
        return False
    if sign.seen.wait.call in _WRITES or ends_for_good(own):
        return False
    place = place_of(sign.seen.rank)
    # A wait of the main thread says nothing about what another thread serves.
    is_asked = sign.seen.rank.number != 0 and _is_asked(place, chains, ranks)
    if not sign.seen.others and (_never_ends(sign) or is_asked):
        return False
    is_client = sign.rule.cause == "waits-for-network" and _is_client(things)
    return not (is_client and _has_unread(place, chains))


def _never_ends(sign: Sign) -> bool:
    """A long sleep; a queue into which no other thread can put anything."""
    if sign.rule.cause == "waits-for-queue":
        return sign.seen.wait.call == "futex"
    return sign.rule.cause == "sleeping" and (sign.seen.wait.timer or 0.0) > LONG_SLEEP


def _is_asked(
    place: ProcessPlace, chains: Sequence[Sequence[Link]], ranks: Collection[ProcessPlace]
) -> bool:
    """Whether a rank waits for this one for which several others wait: it gathers what they have,
    and this one has not sent its part. Work comes through such a rank from rank 0 or a driver."""
    return any(
        len(_waiting_for(hub, chains) - {place}) > 1
        for hub in _waiting_for(place, chains)
        if hub in ranks
    )


def _waiting_for(place: ProcessPlace, chains: Sequence[Sequence[Link]]) -> set[ProcessPlace]:
    """Directly, and not through another one: each stage of a pipeline has one before it."""
    links = [link for chain in chains for link in chain if link.whom.place == place]
    return {before for link in links if (before := link.who.place) is not None and before != place}


def _is_client(things: Sequence[AwaitedThing]) -> bool:
    """Work comes from those that have connected to it."""
    connections = [thing for thing in things if thing.kind == "connection"]
    return bool(connections) and not any(thing.accepted for thing in connections)


def _has_unread(place: ProcessPlace, chains: Sequence[Sequence[Link]]) -> bool:
    """Others have sent it something before they began to wait, and it does not read that."""
    return any(link.unread for links in chains for link in links if link.whom.place == place)
