"""Where ranks parted, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankdbg.frontends.reports.rows import print_row, print_wrapped
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.investigations.histories.history_records import who
from rankdbg.investigations.histories.history_words import event_text, marks_text
from rankdbg.investigations.histories.rank_histories import JobHistory, ShownDeparture
from rankdbg.investigations.rank_labels import named
from rankdbg.text.escapes import visible_line
from rankdbg.types import Answer, Rank, Reply
from rankdbg.wire.answers import HistoryChanged
from rankdbg.wire.node_answers import HistoryEvent

MOST_PARTED = 4
MOST_EVENTS = 40


def print_history(terminal: Terminal, job: JobHistory, *, of_two: bool = False) -> None:
    """`of_two`: only these two ranks were compared."""
    shown = job.parted[:MOST_PARTED]
    if not shown:
        terminal.print(terminal.bold(job.summary()))
        _print_last(terminal, job)
    for parted in shown:
        _print_parted(terminal, job, parted)
        if hint := _hint(parted, of_two):
            terminal.print(terminal.dim(f"hint: rankdbg history {hint}"))
    if len(job.parted) > len(shown):
        terminal.print(terminal.dim(f"and {len(job.parted) - len(shown)} more; --json has all"))
    _print_remarks(terminal, job)


def _print_parted(terminal: Terminal, job: JobHistory, parted: ShownDeparture) -> None:
    theirs, others = parted.departure.ranks, parted.departure.others
    step = parted.departure.step
    when = f"in step {step}" if step is not None else "in what they do now"
    sentence = f"{named(theirs, job.ranks)} parted from {named(others, job.ranks)} {when}"
    terminal.print(terminal.red(visible_line(sentence[0].upper() + sentence[1:])))
    found = parted.difference
    if found is None:
        print_wrapped(
            terminal, "  What they did there is no longer kept; only hashes of steps are."
        )
        return
    rows: list[tuple[str, HistoryEvent | None, Sequence[HistoryEvent]]] = []
    if found.common:
        rows.append(("last in common", found.common, ()))
    rows += [
        (named(others, job.ranks), found.others, found.others_marks),
        (named(theirs, job.ranks), found.theirs, found.their_marks),
    ]
    column = min(max(len(title) for title, _, _ in rows) + 4, 30)
    for title, event, marks in rows:
        text = event_text(event) if event is not None else "nothing more"
        print_row(terminal, f"  {title}", f"{text}{marks_text(marks)}", column)


def _hint(parted: ShownDeparture, of_two: bool) -> str:
    """What shows more, where that is kept."""
    departure = parted.departure
    if parted.difference is None:
        return ""
    if of_two or not departure.others:
        return f"--step {departure.step}" if departure.step is not None else ""
    return f"--diff {departure.ranks[0].number} {departure.others[0].number}"


def _print_last(terminal: Terminal, job: JobHistory) -> None:
    """What each did last, equal ones together."""
    last: dict[str, list[Rank]] = {}
    for each in job.histories:
        text = event_text(each.events[-1]) if each.events else "nothing"
        last.setdefault(text, []).append(each.rank)
    terminal.print("The last event of each:")
    column = min(max(len(named(ranks, job.ranks)) for ranks in last.values()) + 4, 30)
    for text, ranks in last.items():
        print_row(terminal, f"  {named(ranks, job.ranks)}", text, column)


def _print_remarks(terminal: Terminal, job: JobHistory) -> None:
    if job.missing:
        print_wrapped(terminal, f"no history of {named(job.missing, job.ranks)}")
    for text in job.damaged:
        print_wrapped(terminal, f"not read: {text}")


# --- one step -----------------------------------------------------------------------------------


def print_step(terminal: Terminal, job: JobHistory, step: int) -> None:
    groups: dict[tuple[str, ...], list[Rank]] = {}
    for each in job.histories:
        groups.setdefault(tuple(map(event_text, each.events)), []).append(each.rank)
    for texts, ranks in groups.items():
        terminal.print(terminal.bold(named(ranks, job.ranks)))
        if not texts:
            terminal.print(f"  nothing is kept of step {step}")
        for text in texts[:MOST_EVENTS]:
            terminal.print(f"  {cut(visible_line(text), max(40, terminal.width - 2))}")
        if len(texts) > MOST_EVENTS:
            terminal.print(terminal.dim(f"  and {len(texts) - MOST_EVENTS} more"))
    _print_remarks(terminal, job)


# --- what is noted besides ----------------------------------------------------------------------


def print_changes(
    terminal: Terminal, replies: Sequence[Reply[HistoryChanged]], among: Sequence[Rank]
) -> None:
    texts: dict[str, list[Rank]] = {}
    for each in replies:
        texts.setdefault(_changed(each), []).append(each.rank)
    for text, ranks in texts.items():
        print_wrapped(terminal, f"{named(ranks, among)}: {text}")


def _changed(reply: Reply[HistoryChanged]) -> str:
    if not isinstance(reply, Answer):
        return f"no response ({reply.reason})"
    found = reply.value
    if found.why:
        return found.why
    if found.depth:
        return f"calls of modules are noted, {found.depth} deep"
    traced = ", ".join(found.traced)
    return f"branches are noted in {traced}" if traced else "nothing more is noted"


def changes_as_json(replies: Sequence[Reply[HistoryChanged]]) -> dict[str, Any]:
    return {"changed": [{**who(each.rank), "says": _changed(each)} for each in replies]}
