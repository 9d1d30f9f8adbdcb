"""Who is missing from which collective -> the document of its page."""

from __future__ import annotations

from rankdbg.frontends.html.document import Colouring, PageDocument
from rankdbg.frontends.html.lane_views import LaneViews
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.plain_pages import (
    colour_class,
    places_of,
    plain_page,
    plain_verdict,
)
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.selection import format_numbers


def document_of_collectives(waits: CollectiveWaits, origin: PageOrigin) -> PageDocument:
    known = [world.rank(n) for world in waits.judged for n in world.findings.job.ranks]
    table = RankTable(waits.all_ranks or known)
    views = LaneViews(waits, table)
    title = capital(waits.summary()).rstrip(".")
    verdict = plain_verdict(f"{title}.", table.set_of(waits.culprits))
    verdict["notes"] = [f"{file}: {why}" for file, why in waits.skipped]
    page = plain_page(table, verdict, [_by_collective(views, table)], origin)
    if not waits.all_ranks:  # dumps name no processes
        page["ranks"]["pids"] = [0 for _ in table.ranks]
    page["lanes"], page["more_lanes"] = views.lanes, views.left_out
    page["sentences"] = views.sentences
    return page


def _by_collective(views: LaneViews, table: RankTable) -> Colouring:
    """What each rank waits in, or is missing from; of several groups, the first."""
    told: dict[int, tuple[str, str]] = {}
    for lane in views.lanes:
        group = f"group {lane['group']}" if lane["groups"] == 1 else f"groups {lane['group']}"
        for place in places_of(lane["missing"]):
            told.setdefault(place, (lane["operation"], f"missing, {group}"))
        for place in places_of(lane["entered"]) if lane["waits"] else ():
            told.setdefault(place, (lane["operation"], f"waits, {group}"))
    classes: dict[tuple[str, str], list[int]] = {}
    for place in range(len(table.ranks)):
        classes.setdefault(told.get(place, ("", "waits in none")), []).append(place)
    ordered = sorted(classes.items(), key=lambda each: -len(each[1]))
    return {
        "name": "collective",
        "columns": ["collective", "what it does"],
        "classes": [
            colour_class(operation, says, format_numbers(places))
            for (operation, says), places in ordered
        ],
    }
