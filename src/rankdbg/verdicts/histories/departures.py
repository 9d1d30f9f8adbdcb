"""Which ranks left the others, at which step, and with what.

Ranks of one program do not all do the same: stages of a pipeline, a rank that logs. So ranks are
put into classes by the calls that they made in the first steps that all of them still know, and a
rank departs when its calls differ from those of its class. Calls are compared by operation and
group, and within a step by the root of a broadcast or a reduce: their lines and shapes may differ in
a healthy job, and so may what a program marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rankdbg.types import ProcessKey, Rank
from rankdbg.wire.node_answers import HistoryEvent

# Steps by which ranks are put into classes.
BASELINE = 8
CALLS = ("collective", "send", "recv")
STEPS = ("step", "optimizer")


@dataclass(frozen=True)
class RankHistory:
    """`digests`: (step, hash of calls, hash of all, events), oldest first, without the step that is
    under way."""

    rank: Rank
    digests: tuple[tuple[int, int, int, int], ...] = ()
    events: tuple[HistoryEvent, ...] = ()


@dataclass(frozen=True)
class Departure:
    """`ranks` did not do what `others` of their class did. `step` is None without steps."""

    step: int | None
    ranks: tuple[Rank, ...]
    others: tuple[Rank, ...]


@dataclass(frozen=True)
class EventDifference:
    """The last event that both have, and the first that they do not: None at the end of a list.
    `marks`: what each had marked between the two."""

    common: HistoryEvent | None
    theirs: HistoryEvent | None  # of the ranks that departed
    others: HistoryEvent | None
    their_marks: tuple[HistoryEvent, ...] = ()
    others_marks: tuple[HistoryEvent, ...] = ()


@dataclass(frozen=True)
class HistoryFindings:
    """`classes`: ranks that do the same; without steps, none."""

    departures: tuple[Departure, ...] = ()
    compared: tuple[int, int] | None = None  # the first and the last step that were compared
    classes: tuple[tuple[Rank, ...], ...] = ()


def find_departures(histories: Sequence[RankHistory]) -> HistoryFindings:
    """By the hashes of steps that have ended, the first departure first."""
    calls = {each.rank.process: {d[0]: d[1] for d in each.digests} for each in histories}
    ranks = {each.rank.process: each.rank for each in histories}
    steps = _common_steps([*calls.values()])
    if len(histories) < 2 or not steps:
        return HistoryFindings()
    found: list[Departure] = []
    classes = [*_classes(calls, steps)]
    for members in classes:
        found += _departures_of(members, calls, ranks)
    found.sort(key=lambda departure: departure.step or 0)
    known = tuple(tuple(ranks[process] for process in members) for members in classes)
    return HistoryFindings(tuple(found), (steps[0], steps[-1]), known)


_Hashes = Mapping[ProcessKey, Mapping[int, int]]


def _common_steps(hashes: Sequence[Mapping[int, int]]) -> list[int]:
    """Which all ranks have ended, and still know. The first may be cut off: what a program does
    before its first step differs with the moment at which it began to note."""
    common = set.intersection(*({*each} for each in hashes)) if hashes else set()
    return sorted(step for step in common if step >= 0)


def _classes(calls: _Hashes, steps: Sequence[int]) -> Iterator[list[ProcessKey]]:
    classes: dict[tuple[int, ...], list[ProcessKey]] = {}
    for process, hashes in calls.items():
        classes.setdefault(tuple(hashes[step] for step in steps[:BASELINE]), []).append(process)
    yield from (members for members in classes.values() if len(members) > 1)


def _departures_of(
    members: Sequence[ProcessKey], calls: _Hashes, ranks: Mapping[ProcessKey, Rank]
) -> Iterator[Departure]:
    """The first of each rank: later ones may follow from it."""
    departed: set[ProcessKey] = set()
    for step in sorted({step for process in members for step in calls[process]}):
        here = [p for p in members if step in calls[p] and p not in departed]
        odd = _odd(here, calls, step)
        if odd:
            departed |= {*odd}
            others = tuple(ranks[p] for p in here if p not in odd)
            yield Departure(step, tuple(ranks[p] for p in odd), others)


def _odd(members: Sequence[ProcessKey], hashes: _Hashes, step: int) -> list[ProcessKey]:
    """Those that differ from most; nothing if no hash has a majority."""
    counts = Counter(hashes[process][step] for process in members if step in hashes[process])
    if len(counts) < 2:
        return []
    (usual, times), *_ = counts.most_common(1)
    if times * 2 <= sum(counts.values()):
        return []
    return [process for process in members if hashes[process].get(step, usual) != usual]


# --- what has not become a step yet -----------------------------------------------------------


def find_under_way(
    histories: Sequence[RankHistory], classes: Sequence[Sequence[Rank]]
) -> Iterator[tuple[Departure, EventDifference]]:
    """By the events that each has since a point that all have in common. Without classes, ranks
    that began with the same calls are one."""
    by_process = {each.rank.process: each for each in histories}
    grouped = [[by_process[rank.process] for rank in members] for members in classes]
    for members in grouped or _alike(histories):
        yield from _parted_in(members)


def _alike(histories: Sequence[RankHistory]) -> list[list[RankHistory]]:
    begun: dict[tuple[object, ...], list[RankHistory]] = {}
    for each in histories:
        first = tuple(_compared(event) for event in _calls(each.events))[:BASELINE]
        begun.setdefault(first, []).append(each)
    return [*begun.values()]


def _parted_in(members: Sequence[RankHistory]) -> Iterator[tuple[Departure, EventDifference]]:
    """Those that did something else than most. Who has only not come as far has not parted."""
    same: dict[object, list[RankHistory]] = {}
    for each in members:
        calls = tuple((_compared(event), _root(event)) for event in _calls(each.events))
        same.setdefault(calls, []).append(each)
    usual = max(
        same.values(), key=lambda one: sum(len(o) for o in same.values() if not _differ(o, one))
    )
    for others in same.values():
        difference = find_difference(others[0].events, usual[0].events)
        if difference is not None and _differ(others, usual):
            odd = tuple(each.rank for each in others)
            alike = (each for o in same.values() if not _differ(o, usual) for each in o)
            yield Departure(None, odd, tuple(each.rank for each in alike)), difference


def _differ(some: Sequence[RankHistory], others: Sequence[RankHistory]) -> bool:
    found = find_difference(some[0].events, others[0].events)
    return found is not None and found.theirs is not None and found.others is not None


# --- within a step ----------------------------------------------------------------------------


def find_difference(
    theirs: Sequence[HistoryEvent], others: Sequence[HistoryEvent]
) -> EventDifference | None:
    """Of two ranks' events from one point on; None if the shorter is the start of the longer and
    both go on, or if nothing can be compared."""
    left, right = [*_calls(theirs)], [*_calls(others)]
    equal = 0
    while equal < min(len(left), len(right)) and _same(left[equal], right[equal]):
        equal += 1
    mine = left[equal] if equal < len(left) else None
    its = right[equal] if equal < len(right) else None
    if mine is None and its is None:
        return None
    before = left[equal - 1] if equal else None
    before_others = right[equal - 1] if equal else None
    return EventDifference(
        before,
        mine,
        its,
        _marks_between(theirs, before, mine),
        _marks_between(others, before_others, its),
    )


def _calls(events: Sequence[HistoryEvent]) -> Iterator[HistoryEvent]:
    return (event for event in events if event.kind in (*CALLS, *STEPS))


def _same(one: HistoryEvent, other: HistoryEvent) -> bool:
    roots = _root(one), _root(other)
    in_one_call = None not in roots and one.group == other.group
    return _compared(one) == _compared(other) and (not in_one_call or roots[0] == roots[1])


def _root(event: HistoryEvent) -> tuple[object, ...] | None:
    """From which rank it goes out, or in which it ends. Each group of one dimension has its own."""
    is_rooted = event.kind == "collective" and isinstance(event.value, int)
    return (event.group, event.value) if is_rooted else None


def _compared(event: HistoryEvent) -> tuple[object, ...]:
    """What must be the same in ranks that take part in it."""
    if event.kind in STEPS:
        return event.kind, event.count
    return event.kind, event.name.partition(" ")[0], *event.group[1:]


def _marks_between(
    events: Sequence[HistoryEvent], first: HistoryEvent | None, last: HistoryEvent | None
) -> tuple[HistoryEvent, ...]:
    begin = first.index if first is not None else -1
    end = last.index if last is not None else float("inf")
    return tuple(
        event
        for event in events
        if begin < event.index < end and event.kind not in (*CALLS, *STEPS)
    )
