"""What ranks did, in words."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.investigations.histories.history_records import group_name
from rankdbg.investigations.rank_labels import named
from rankdbg.process.user_code import short_name
from rankdbg.types import Rank
from rankdbg.verdicts.histories.departures import STEPS, Departure, EventDifference
from rankdbg.wire.node_answers import HistoryEvent

MOST_MARKS = 3
_INTO_ONE = ("gather", "reduce")  # collectives that end in one rank; others go out from one


def in_a_sentence(
    departure: Departure, found: EventDifference | None, among: Sequence[Rank]
) -> str:
    """For a verdict: rank 2 parted from ranks 0-1 in step 41: ..."""
    who = f"{named(departure.ranks, among)} parted from {named(departure.others, among)}"
    when = f" in step {departure.step}" if departure.step is not None else ""
    calls = f": {both_calls(found)}" if found is not None else ""
    return f"{who}{when}{calls} (rankdbg history)"


def both_calls(found: EventDifference | None) -> str:
    """train.py:91 barrier, default_pg #9; the others: train.py:88 all_reduce, default_pg #9"""
    if found is None:
        return "it has called something else than the others"
    theirs, others = (
        f"{event_text(event) if event is not None else 'nothing more'}{marks_text(marks)}"
        for event, marks in (
            (found.theirs, found.their_marks),
            (found.others, found.others_marks),
        )
    )
    return f"{theirs}; the others: {others}"


def marks_text(marks: Sequence[HistoryEvent]) -> str:
    """, after accepted=0 (train.py:91)"""
    texts = [f"{_valued(mark)} ({_line(mark)})" for mark in marks[-MOST_MARKS:]]
    return f", after {', '.join(texts)}" if texts else ""


def _valued(mark: HistoryEvent) -> str:
    return mark.name if mark.value is None else f"{mark.name}={_value(mark.value)}"


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def event_text(event: HistoryEvent) -> str:
    """train.py:84 all_reduce float32[8], default_pg #820"""
    if event.kind in STEPS:
        return f"step {event.count}"
    what = _valued(event) if event.kind == "mark" else event.name
    if event.kind in ("send", "recv") and isinstance(event.value, int):
        what += f" {'to' if event.kind == 'send' else 'from'} rank {event.value}"
    elif event.kind == "collective" and isinstance(event.value, int):
        into = event.name.startswith(_INTO_ONE)
        what += f" {'to' if into else 'from'} rank {event.value}"
    if group := group_name(event):
        what += f", {group} #{event.count}"
    return f"{_line(event)} {what}"


def _line(event: HistoryEvent) -> str:
    place, _, _ = event.place.rpartition(" ")
    file, _, line = place.rpartition(":")
    return f"{short_name(file)}:{line}" if file else "(unknown line)"
