"""A page without the verdict of `rankdbg why`: what all such pages have."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable

from rankdbg._version import __version__
from rankdbg.frontends.html.document import (
    SCHEMA,
    ColourClass,
    Colouring,
    PageDocument,
    RankSet,
    VerdictView,
)
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.frontends.terminal import Terminal
from rankdbg.process.masking import mask_text
from rankdbg.selection import format_numbers

_BOUNDS = (5, 25, 50, 75)  # percent


def plain_page(
    table: RankTable, verdict: VerdictView, colourings: list[Colouring], origin: PageOrigin
) -> PageDocument:
    return {
        "schema": SCHEMA,
        "version": __version__,
        "command": origin.command,
        "job": table.ranks[0].job if table.ranks else "",
        "target": origin.target,
        "time": origin.time,
        "ranks": table.columns,
        "verdict": verdict,
        "colourings": colourings,
        "frames": [],
        "threads": [],
        "samples": 0,
        "lanes": [],
        "more_lanes": 0,
        "sentences": [],
        "times": None,
        "nodes": None,
        "profile": None,
        "findings": "",
    }


def plain_verdict(title: str, culprits: RankSet = "", mark: str = "culprits") -> VerdictView:
    return {
        "stuck": False,
        "state": "",
        "says": "",
        "title": title,
        "subtitle": "",
        "facts": [],
        "further": [],
        "confidence": "",
        "evidence": [],
        "culprits": culprits,
        "mark": mark,
        "waiting": "",
        "nodes": [],
        "edges": [],
        "left_out": 0,
        "notes": [],
        "logs": "",
    }


def colour_class(
    text: str, says: str, members: RankSet, *, at: str = "", odd: bool = False, code: bool = True
) -> ColourClass:
    return {"text": text, "at": at, "says": says, "code": code, "odd": odd, "ranks": members}


def by_percent(name: str, values: Iterable[float | None], unknown: str = "not known") -> Colouring:
    """The ranks by ranges of a figure, given for each in the order of the table: a range stays the same
    while the figure wavers, and so does its colour."""
    members: dict[str, list[int]] = {}
    for place, value in enumerate(values):
        members.setdefault(unknown if value is None else _range_of(value), []).append(place)
    classes = [
        colour_class(text, "", format_numbers(places), code=False)
        for text, places in sorted(members.items(), key=lambda each: -len(each[1]))
    ]
    return {"name": name, "columns": [name, ""], "classes": classes}


def _range_of(percent: float) -> str:
    if percent < _BOUNDS[0]:
        return f"under {_BOUNDS[0]} %"
    low = max(bound for bound in _BOUNDS if percent >= bound)
    high = min((bound for bound in _BOUNDS if percent < bound), default=100)
    return f"{low}-{high} %"


def without_marks(page: PageDocument) -> PageDocument:
    """For ranks that were asked something else than their stacks: no cell is marked as incomplete."""
    return {**page, "ranks": {**page["ranks"], "outside": ""}}


def as_text(show: Callable[[Terminal], None]) -> str:
    """What a command prints, masked: a page is sent to others."""
    text = io.StringIO()
    show(Terminal(text))
    return "".join(map(mask_text, text.getvalue().splitlines(keepends=True)))


def places_of(members: RankSet) -> list[int]:
    """`0-2,8`: 0, 1, 2, 8"""
    places: list[int] = []
    for part in members.split(",") if members else ():
        begin, _, end = part.partition("-")
        places += range(int(begin), int(end or begin) + 1)
    return places
