"""Where ranks parted -> the document of its page: the ranks by what they did there."""

from __future__ import annotations

from rankdbg.frontends.html.document import Colouring, Fact, PageDocument
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.plain_pages import (
    as_text,
    colour_class,
    plain_page,
    plain_verdict,
    without_marks,
)
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.frontends.reports.histories import print_history
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.investigations.histories.history_words import event_text, marks_text
from rankdbg.investigations.histories.rank_histories import JobHistory, ShownDeparture
from rankdbg.investigations.rank_labels import named
from rankdbg.types import Rank
from rankdbg.wire.node_answers import HistoryEvent

MOST_PARTED = 8  # that the ranks can be coloured by


def document_of_history(found: JobHistory, origin: PageOrigin) -> PageDocument:
    table = RankTable([*found.ranks, *found.missing])
    first = found.parted[0] if found.parted else None
    odd = first.departure.ranks if first is not None else ()
    verdict = plain_verdict(_title(found), table.set_of(odd), "parted from the others")
    verdict["facts"] = _facts(found, first) if first is not None else []
    verdict["notes"] = [f"not read: {text}" for text in found.damaged]
    colourings = [_by_departure(each, table) for each in found.parted[:MOST_PARTED]]
    page = plain_page(table, verdict, colourings or [_by_last_event(found, table)], origin)
    page["findings"] = as_text(lambda terminal: print_history(terminal, found))
    return without_marks(page)


def _title(found: JobHistory) -> str:
    if not found.parted:
        return found.summary()
    theirs, others = found.parted[0].departure.ranks, found.parted[0].departure.others
    step = found.parted[0].departure.step
    when = f"in step {step}" if step is not None else "in what they do now"
    return f"{capital(named(theirs, found.ranks))} parted from {named(others, found.ranks)} {when}."


def _facts(found: JobHistory, parted: ShownDeparture) -> list[Fact]:
    """The last event in common, and the first that differs, of both."""
    seen, departure = parted.difference, parted.departure
    if seen is None:
        return [_fact("", "What they did there is no longer kept; only hashes of steps are.")]
    common = event_text(seen.common) if seen.common is not None else ""
    facts = [_fact("in common", common)] if common else []
    for ranks, event, marks in (
        (departure.others, seen.others, seen.others_marks),
        (departure.ranks, seen.theirs, seen.their_marks),
    ):
        facts.append(_fact(named(ranks, found.ranks), f"{_did(event)}{marks_text(marks)}"))
    return facts


def _fact(name: str, text: str) -> Fact:
    return {"name": name, "text": text, "tag": "", "more": ""}


def _did(event: HistoryEvent | None) -> str:
    return event_text(event) if event is not None else "nothing more"


def _by_departure(parted: ShownDeparture, table: RankTable) -> Colouring:
    """What each did there; other ranks were not expected to do the same."""
    seen, departure = parted.difference, parted.departure
    both = {rank.process for rank in (*departure.ranks, *departure.others)}
    others = [rank for rank in table.ranks if rank.process not in both]
    theirs, usual = ("", "") if seen is None else (_did(seen.theirs), _did(seen.others))
    classes = [
        colour_class(usual, "as most", table.set_of(departure.others)),
        colour_class("", "not compared with these", table.set_of(others), code=False),
        colour_class(theirs, "parted", table.set_of(departure.ranks), odd=True),
    ]
    step = departure.step
    return {
        "name": f"step {step}" if step is not None else "what they do now",
        "columns": ["event", "ranks"],
        "classes": [each for each in classes if each["ranks"]],
    }


def _by_last_event(found: JobHistory, table: RankTable) -> Colouring:
    last: dict[str, list[Rank]] = {}
    for each in found.histories:
        last.setdefault(_did(each.events[-1] if each.events else None), []).append(each.rank)
    for rank in found.missing:
        last.setdefault("no history", []).append(rank)
    ordered = sorted(last.items(), key=lambda each: -len(each[1]))
    return {
        "name": "last event",
        "columns": ["last event", ""],
        "classes": [colour_class(text, "", table.set_of(ranks)) for text, ranks in ordered],
    }
