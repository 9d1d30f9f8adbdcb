"""Which events explain which others, and the smallest set that explains them all.

Rules say what a mode can bring about, how far from it, and within which time. Clocks only exclude:
what came clearly before an event was not caused by it. Among the events that explain most,
the cause is the one that no other explains, whose host the others name, that came first, in this
order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.findings import PYTHON_ERROR
from rankdbg.verdicts.rules.log_rules import ROLES

# How much earlier than its cause a symptom may be printed: ranks notice within seconds that another
# has gone, and clocks of nodes differ.
EARLIER = {"root": 2.0, "death": 2.0, "consequence": 30.0, "teardown": 2.0}
# Events this close together have no order that clocks could tell.
TOGETHER = 5.0
NEARLY_ALL = 0.9  # of what the best candidate explains
# Errors of a program that uses a server of the job, and has lost it.
_LOST_A_SERVER = re.compile(
    r"\b(ServerDisconnectedError|Client(Connector|OS|ConnectorDNS)Error|RemoteProtocolError|RemoteDisconnected"
    r"|ConnectionRefusedError|ConnectionResetError|Connect(ion)?Error|(Read|Connect)Timeout|AioRpcError"
    r"|_InactiveRpcError)\b"
)
_SERVERS = ("engine", "hang")  # kinds of failures that only servers of models have


@dataclass(frozen=True)
class Explanation:
    roots: tuple[int, ...]  # numbers of events; the first is the cause
    edges: tuple[tuple[int, int], ...]  # cause and effect
    explained: frozenset[int]  # what follows from the roots
    runner_up: int | None = None  # that explains nearly as much


NOTHING = Explanation((), (), frozenset())


def explain(events: Sequence[Event]) -> Explanation:
    """Of events that were not overcome."""
    if not events:
        return NOTHING
    # Thousands of ranks may fail in the same way: none of them is the cause of another.
    of_other_modes = {
        mode: [n for n, event in enumerate(events) if event.mode != mode]
        for mode in {event.mode for event in events}
    }
    edges = [
        (cause, effect)
        for cause, event in enumerate(events)
        for effect in of_other_modes[event.mode]
        if brings(event, events[effect])
    ]
    reach = _reached(len(events), edges)
    ranking = _ranked(events, reach)
    root = ranking[0]
    explained = reach[root] - {root}
    others = [n for n in ranking[1:] if n not in explained]
    roots = (root, *(n for n in others if _is_second(events, root, n, reach)))
    for second in roots[1:]:
        explained |= reach[second]
    explained -= {*roots}
    close = [n for n in ranking[1:] if events[n].mode != events[root].mode and n not in reach[root]]
    return Explanation(
        roots,
        tuple(edge for edge in edges if edge[0] in roots or edge[0] in explained),
        frozenset(explained),
        close[0] if close and root not in reach[close[0]] else None,
    )


def brings(cause: Event, effect: Event) -> bool:
    """Whether one can have brought the other about."""
    if cause.mode == effect.mode:
        return False
    explicit = effect.mode in cause.rule.brings or cause.mode in effect.rule.follows
    if not explicit and (not _by_role(cause, effect) or _has_lost(cause, effect)):
        return False
    if not explicit and cause.mode in effect.rule.brings and not _stands_before(cause, effect):
        return False
    if explicit and effect.mode in cause.rule.brings and not _in_reach(cause, effect):
        return False
    if not explicit and cause.tier and _stood_before(effect, cause):
        return False
    if ROLES[cause.tier] == "teardown" and _stands_before(effect, cause):
        return False
    if cause.attempt is not None and effect.attempt is not None and cause.attempt > effect.attempt:
        return False
    return not _was_before(effect, cause) and _within(cause, effect)


def _stands_before(one: Event, other: Event) -> bool:
    """Whether its line comes before the one about the end of the job, in the same file."""
    same = one.first.path == other.first.path
    return ROLES[other.tier] == "teardown" and same and one.first.offset < other.first.offset


def _stood_before(teardown: Event, other: Event) -> bool:
    """Whether the end of the job was announced above the line about another, which is not later by
    its buffer: nothing says that it was before."""
    first, second = teardown.first, other.first
    if ROLES[teardown.tier] != "teardown" or first.path != second.path:
        return False
    earlier = first.time is not None and second.time is not None and second.time < first.time
    return first.offset < second.offset and not earlier


def _by_role(cause: Event, effect: Event) -> bool:
    if effect.mode == PYTHON_ERROR and effect.tier == 0:
        if _has_lost(effect, cause):
            return True
        # An error that no rule knows, beside one that a rule knows, is what it left behind.
        return cause.tier <= 1 and not _was_retried_elsewhere(cause, effect)
    return cause.tier < effect.tier


def _was_retried_elsewhere(retried: Event, event: Event) -> bool:
    """Whether the one was tried again by other ranks, and is no reason for what this one has raised."""
    apart = bool(retried.ranks and event.ranks) and not {*retried.ranks} & {*event.ranks}
    return retried.is_retried and apart


def _has_lost(client: Event, server: Event) -> bool:
    """Whether the one is the error of a client, and the other a failure of its server."""
    is_client = client.mode == PYTHON_ERROR and _LOST_A_SERVER.search(client.first.text)
    return bool(is_client) and server.rule.kind in _SERVERS


def _in_reach(cause: Event, effect: Event) -> bool:
    if cause.rule.reach == "process":
        return bool({*cause.ranks} & {*effect.ranks}) or cause.first.path == effect.first.path
    if cause.rule.reach == "host":
        return not cause.host or not effect.host or cause.host == effect.host
    return True


def _was_before(effect: Event, cause: Event) -> bool:
    """Whether the effect was clearly before its alleged cause."""
    if effect.until is None or cause.time is None or not _are_comparable(effect, cause):
        return False
    slack = cause.rule.late or EARLIER[ROLES[effect.tier]]
    if ROLES[cause.tier] == "teardown":
        slack = 0.0  # a launcher ends the others at once when one process has failed
    return effect.until < cause.time - slack


def _within(cause: Event, effect: Event) -> bool:
    if not cause.rule.within or not _are_comparable(cause, effect):
        return True
    if effect.first.began is None or cause.time is None:
        return True
    return effect.first.began <= cause.time + cause.rule.within


def _are_comparable(one: Event, other: Event) -> bool:
    return one.first.path == other.first.path or (one.comparable and other.comparable)


def _reached(count: int, edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """What each event explains, also by way of others, and itself."""
    after: dict[int, list[int]] = {}
    for cause, effect in edges:
        after.setdefault(cause, []).append(effect)
    reached = []
    for start in range(count):
        seen, left = {start}, [start]
        while left:
            for effect in after.get(left.pop(), ()):
                if effect not in seen:
                    seen.add(effect)
                    left.append(effect)
        reached.append(seen)
    return reached


def _ranked(events: Sequence[Event], reach: Sequence[set[int]]) -> list[int]:
    """All events, the likeliest cause first."""
    covers = [sum(_weight(events[n]) for n in reach[number]) for number in range(len(events))]
    most = max(covers)
    good = [n for n in range(len(events)) if covers[n] >= NEARLY_ALL * most]
    sources = [n for n in good if not any(n in reach[m] and m not in reach[n] for m in good)]
    votes = _votes(events)
    retried = [events[n] for n in sources if events[n].is_retried or events[n].rule.weak]
    sure = [events[n] for n in sources if _is_sure(events[n], retried)]
    certain = bool(sure)
    first = min(
        (
            event.until
            for event in sure or [events[n] for n in sources]
            if event.comparable and event.until
        ),
        default=None,
    )

    def order(number: int) -> tuple[object, ...]:
        event = events[number]
        # What came clearly later than another that explains as much is not the first cause.
        late = (
            first is not None
            and event.comparable
            and event.time is not None
            and event.time - event.rule.late > first + TOGETHER
        )
        return (
            number not in sources,
            -covers[number] if number not in good else 0,
            bool(event.rule.weak),
            certain and event.is_retried,
            -round(votes.get(event.host, 0.0)),
            late,
            event.tier,
            event.mode == PYTHON_ERROR,
            float("inf") if event.time is None else event.time,
            number,
        )

    return sorted(range(len(events)), key=order)


def _is_sure(event: Event, retried: Sequence[Event]) -> bool:
    """Whether it needs none of those as its cause that were tried again, or that are harmless alone."""
    if event.is_retried or event.rule.weak:
        return False
    others = all(_was_retried_elsewhere(other, event) for other in retried)
    return event.mode != PYTHON_ERROR or bool(retried and others)


def _weight(event: Event) -> int:
    return max(1, len(event.ranks))


def _votes(events: Sequence[Event]) -> dict[str, float]:
    """The share of hosts that blame a host, of those that blame others. One that has lost its own
    link blames all others, and each of them blames it. Only the lines count that say most:
    later ones, about connections that were lost, name all hosts."""
    first = min((event.tier for event in events if event.peers), default=0)
    blamed: dict[str, set[object]] = {}
    for event in events:
        for finding in event.findings if event.tier == first else ():
            who = finding.writer.host or finding.ranks or finding.path
            if finding.peer and finding.peer != who:
                blamed.setdefault(finding.peer, set()).add(who)
    blamers = {who for each in blamed.values() for who in each}
    return {host: len(each) / len(blamers) for host, each in blamed.items()}


def _is_second(events: Sequence[Event], root: int, number: int, reach: Sequence[set[int]]) -> bool:
    """Whether it is a cause of its own, beside the first: a failure of another process, at the
    same time, that needs no other to be explained."""
    event, first = events[number], events[root]
    if event.tier or event.rule.weak or event.mode in (PYTHON_ERROR, first.mode):
        return False
    if any(number in reach[n] for n in range(len(events)) if n != number):
        return False
    if not _are_comparable(event, first) or event.time is None or first.time is None:
        return False
    apart = not ({*event.ranks} & {*first.ranks}) and (event.ranks or event.host != first.host)
    return bool(apart) and abs(event.time - first.time) <= TOGETHER
