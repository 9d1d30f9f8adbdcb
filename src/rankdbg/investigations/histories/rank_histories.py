"""What ranks did, from their history files on all nodes -> where they parted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rankdbg.errors import BadInput, NoJob, RankdbgError
from rankdbg.investigations.histories import history_words as words
from rankdbg.investigations.histories.history_records import event_as_json, who
from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.results import Result
from rankdbg.selection import format_ranks
from rankdbg.session import Session
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.histories.departures import (
    STEPS,
    Departure,
    EventDifference,
    HistoryFindings,
    RankHistory,
    find_departures,
    find_difference,
    find_under_way,
)
from rankdbg.wire.node_answers import Histories, HistoryEvent, HistoryFile

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

# Newest events of each rank, for what it did last.
LAST = 200
# Departures that are explained, the first ones: each step is a question to all nodes.
MOST_EXPLAINED = 16
_FOREVER = 1 << 62


@dataclass(frozen=True)
class ShownDeparture:
    """A departure, and what shows it; None: the events of that step are no longer kept."""

    departure: Departure
    difference: EventDifference | None

    def in_words(self, among: Sequence[Rank]) -> str:
        return words.in_a_sentence(self.departure, self.difference, among)

    def calls(self) -> str:
        return words.both_calls(self.difference)

    def as_json(self, among: Sequence[Rank]) -> dict[str, Any]:
        found = self.difference
        return {
            "step": self.departure.step,
            "ranks": format_ranks(self.departure.ranks, among),
            "others": format_ranks(self.departure.others, among),
            "kept": found is not None,
            "common": event_as_json(found.common) if found else None,
            "theirs": event_as_json(found.theirs) if found else None,
            "others_did": event_as_json(found.others) if found else None,
            "their_marks": [event_as_json(mark) for mark in found.their_marks] if found else [],
            "others_marks": [event_as_json(mark) for mark in found.others_marks] if found else [],
        }


@dataclass(frozen=True, repr=False)
class JobHistory(Result):
    """`missing`: ranks without a history; `damaged`: files and nodes that could not be read."""

    job: str
    histories: Sequence[RankHistory]
    findings: HistoryFindings = field(default_factory=HistoryFindings)
    parted: Sequence[ShownDeparture] = ()
    missing: Sequence[Rank] = ()
    damaged: Sequence[str] = ()
    folder: str = ""

    @property
    def ranks(self) -> list[Rank]:
        return [each.rank for each in self.histories]

    def of(self, rank: Rank) -> RankHistory:
        return next(each for each in self.histories if each.rank.process == rank.process)

    def as_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "ranks": format_ranks(self.ranks, self.ranks),
            "compared": self.findings.compared,
            "departures": [each.as_json(self.ranks) for each in self.parted],
            "last": [
                {**who(each.rank), "event": event_as_json(each.events[-1] if each.events else None)}
                for each in self.histories
            ],
            "missing": [who(rank) for rank in self.missing],
            "damaged": [*self.damaged],
        }

    def step_as_json(self, step: int) -> dict[str, Any]:
        """Of histories with the events of that step."""
        return {
            "job": self.job,
            "step": step,
            "ranks": [
                {**who(each.rank), "events": [event_as_json(event) for event in each.events]}
                for each in self.histories
            ],
        }

    def summary(self) -> str:
        if self.parted:
            return self.parted[0].in_words(self.ranks)
        if self.findings.compared is None:
            return f"No difference between the calls of {named(self.ranks, self.ranks)}."
        first, last = self.findings.compared
        steps = f"steps {first} to {last}" if first != last else f"step {first}"
        return f"No difference: {named(self.ranks, self.ranks)} made the same calls in {steps}."

    def records(self) -> list[dict[str, Any]]:
        """One for each event that is kept here."""
        return [
            {**who(each.rank), **(event_as_json(event) or {})}
            for each in self.histories
            for event in each.events
        ]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        last = [
            TableRow((named([each.rank], self.ranks), words.event_text(each.events[-1])))
            for each in self.histories
            if each.events
        ]
        others = [each.in_words(self.ranks) for each in self.parted[1:]]
        return [*map(Paragraph, others), Table(("rank", "its last event"), last)]


def read_job(session: Session, job: str | None, folder: str = "") -> JobHistory:
    """Of a running job, else of one that has died and left its histories. `folder`: instead of
    these, files that were copied there."""
    ranks = [] if folder else _running(session, job)
    name = ranks[0].job if ranks else job or ""
    found = _ask(session, name, ranks, last=LAST, folder=folder)
    histories = _chosen_job(found.histories, name, ranks)
    if not histories:
        whose = f"no rank of {name} has" if name else "no rank has"
        raise NoJob(
            f"{whose} left a history {f'in {folder}' if folder else 'here'}",
            *found.damaged,
            hint="a history begins with the first collective, rankdbg.progress() or rankdbg.mark() "
            "under rankdbg run",
        )
    known = {each.rank.process for each in histories}
    return JobHistory(
        histories[0].rank.job,
        histories,
        missing=[rank for rank in ranks if rank.process not in known],
        damaged=found.damaged,
        folder=folder,
    )


def _running(session: Session, job: str | None) -> list[Rank]:
    try:
        return [rank for rank in session.job(job) if rank.kind == "rank"]
    except NoJob:
        return []


def compare(session: Session, job: JobHistory) -> JobHistory:
    """Where its ranks parted: by the hashes of all steps, then by the events of that step."""
    findings = find_departures(job.histories)
    if findings.departures:
        first = findings.departures[:MOST_EXPLAINED]
        parted = [_explained(session, job, each) for each in first]
    else:
        parted = _parted_under_way(session, job, findings)
    return replace(job, findings=findings, parted=parted)


def compare_two(session: Session, job: JobHistory, one: Rank, other: Rank) -> JobHistory:
    """By all events that both still have."""
    job = replace(job, histories=[job.of(one), job.of(other)])
    events = _events(session, job, (-1, _FOREVER))
    mine, its = _from_common_step(events[one.process], events[other.process])
    difference = find_difference(mine, its)
    if difference is None:
        return job
    departure = Departure(_step_at(mine, difference), (one,), (other,))
    return replace(job, parted=[ShownDeparture(departure, difference)])


def compare_group(session: Session, job: JobHistory, group: str) -> JobHistory:
    """By the calls of one process group, of all that is kept."""
    events = _events(session, job, (-1, _FOREVER))
    members = [replace(e, events=_of_group(events[e.rank.process], group)) for e in job.histories]
    members = [e for e in members if any(event.kind not in STEPS for event in e.events)]
    if not members:
        known = {e.group[1] or e.group[0] for found in events.values() for e in found if e.group}
        raise BadInput(f"no call of a group {group}", hint=f"there are: {', '.join(sorted(known))}")
    if common := set.intersection(*(_steps_in(each.events) for each in members)):
        first = min(common)
        members = [replace(e, events=tuple(_from_first(e.events, first))) for e in members]
    job = replace(job, histories=members)
    parted = [
        ShownDeparture(
            replace(each, step=_step_at(job.of(each.ranks[0]).events, difference)), difference
        )
        for each, difference in find_under_way(members, [])
    ]
    return replace(job, parted=parted)


def _of_group(events: Sequence[HistoryEvent], group: str) -> tuple[HistoryEvent, ...]:
    return tuple(e for e in events if e.kind in STEPS or group in e.group[:2])


def events_of_step(session: Session, job: JobHistory, step: int) -> JobHistory:
    """The histories with the events of that step alone."""
    found = _events(session, job, (step, step))
    kept = [
        replace(each, events=_within_step(found.get(each.rank.process, ()), step))
        for each in job.histories
    ]
    return replace(job, histories=kept)


# --- differences ------------------------------------------------------------------------------


def _explained(session: Session, job: JobHistory, departure: Departure) -> ShownDeparture:
    step = departure.step or 0
    events = _events(session, job, (step, step + 1))
    theirs = _within_step(events.get(departure.ranks[0].process, ()), step)
    others = _within_step(events.get(departure.others[0].process, ()), step)
    if not theirs or not others:
        return ShownDeparture(departure, None)
    return ShownDeparture(departure, find_difference(theirs, others))


def _parted_under_way(
    session: Session, job: JobHistory, findings: HistoryFindings
) -> list[ShownDeparture]:
    """In what has not become a step yet."""
    first = findings.compared[1] if findings.compared else -1
    events = _events(session, job, (first, _FOREVER))
    begun = [
        replace(each, events=tuple(_from_step(events.get(each.rank.process, ()), first)))
        for each in job.histories
    ]
    since = {each.rank.process: each.events for each in begun}
    return [
        ShownDeparture(replace(each, step=_step_at(since[each.ranks[0].process], found)), found)
        for each, found in find_under_way(begun, findings.classes)
    ]


def _step_at(events: Sequence[HistoryEvent], difference: EventDifference) -> int | None:
    """The step in which the last common event is."""
    last = difference.common.index if difference.common else -1
    steps = [event.count for event in events if event.kind in STEPS and event.index <= last]
    return steps[-1] if steps else None


def _within_step(events: Iterable[HistoryEvent], step: int) -> tuple[HistoryEvent, ...]:
    """From its begin to that of the next, which is in it: a call that is missing at the end of a
    step is seen by what comes instead."""
    found: list[HistoryEvent] = []
    inside = False
    for event in events:
        if event.kind in STEPS and event.count == step:
            inside = True
        if inside:
            found.append(event)
            if event.kind in STEPS and event.count != step:
                break
    return tuple(found)


def _from_step(events: Sequence[HistoryEvent], step: int) -> Sequence[HistoryEvent]:
    begins = [
        index for index, event in enumerate(events) if event.kind in STEPS and event.count == step
    ]
    return events[begins[-1] :] if begins else events


def _from_common_step(
    one: Sequence[HistoryEvent], other: Sequence[HistoryEvent]
) -> tuple[Sequence[HistoryEvent], Sequence[HistoryEvent]]:
    """Both from the first step that both still have; all if there is none."""
    common = _steps_in(one) & _steps_in(other)
    if not common:
        return one, other
    return _from_first(one, min(common)), _from_first(other, min(common))


def _steps_in(events: Sequence[HistoryEvent]) -> set[int]:
    return {event.count for event in events if event.kind in STEPS}


def _from_first(events: Sequence[HistoryEvent], step: int) -> Sequence[HistoryEvent]:
    for index, event in enumerate(events):
        if event.kind in STEPS and event.count == step:
            return events[index:]
    return events


# --- questions --------------------------------------------------------------------------------


@dataclass
class _Found:
    histories: list[RankHistory] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def _events(
    session: Session, job: JobHistory, steps: tuple[int, int]
) -> dict[ProcessKey, Sequence[HistoryEvent]]:
    found = _ask(session, job.job, job.ranks, steps=steps, folder=job.folder)
    return {each.rank.process: each.events for each in found.histories}


def _ask(
    session: Session,
    job: str,
    ranks: Sequence[Rank],
    steps: tuple[int, int] | None = None,
    last: int = 0,
    folder: str = "",
) -> _Found:
    known = {rank.process: rank for rank in ranks}
    found = _Found()
    for node, told in session.histories(job, ranks, steps, last, folder).items():
        if isinstance(told, RankdbgError):
            found.damaged.append(f"{node}: {told.in_one_line()}")
            continue
        found.damaged += told.damaged
        for file in told.histories:
            key = ProcessKey(node, *file.process)
            rank = known.get(key) or _rank_of(key, file)
            found.histories.append(_history(rank, file, told))
    return found


def _history(rank: Rank, file: HistoryFile, told: Histories) -> RankHistory:
    digests = told.digests[file.digests] if told.digests else ()
    return RankHistory(rank, digests, file.events)


def _rank_of(key: ProcessKey, file: HistoryFile) -> Rank:
    """One that is gone, or that the roster does not count: from what its file says."""
    labels: Mapping[str, Any] = file.labels
    number = labels.get("rank")
    return Rank(
        key,
        str(labels.get("job") or ""),
        number if isinstance(number, int) else None,
        kind="rank",
        role=str(labels.get("role") or ""),
        state="running" if file.alive else "gone",
    )


def _chosen_job(
    histories: Sequence[RankHistory], job: str, living: Sequence[Rank]
) -> list[RankHistory]:
    """Of one job; of a rank that was started again, the process that lives, else the last."""
    jobs = sorted({each.rank.job for each in histories})
    if not job and len(jobs) > 1:
        raise BadInput(
            f"{len(jobs)} jobs have left histories: {', '.join(jobs)}",
            hint=f"choose one: --job {jobs[0]}",
        )
    lives = {rank.process for rank in living}
    best: dict[tuple[str, object], RankHistory] = {}
    for each in histories:
        rank = each.rank
        name = (rank.role, rank.process if rank.number is None else rank.number)
        other = best.get(name)
        order = (rank.process in lives, rank.process.start)
        if other is None or order > (other.rank.process in lives, other.rank.process.start):
            best[name] = each
    return sorted(best.values(), key=lambda each: (each.rank.role, each.rank.number or 0))
