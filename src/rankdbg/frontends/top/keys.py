"""What a key does: from a view to the next one, and what else is to be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rankdbg import selection
from rankdbg.errors import SelectionError
from rankdbg.frontends.terminal import PageTerminal
from rankdbg.frontends.top import drawing
from rankdbg.frontends.top.tables import LiveTable, table_of
from rankdbg.frontends.top.views import Page, Picture, Place, View
from rankdbg.types import Rank

SHORTEST, LONGEST = 0.5, 60.0  # seconds between two looks
_REPORTS = {"w": "why", "s": "stacks", "l": "logs"}


@dataclass(frozen=True)
class PageRequest:
    """A report to read: of these ranks of a job, None for all."""

    kind: Literal["why", "stacks", "logs"]
    job: str
    ranks: tuple[Rank, ...] | None
    page: Page


Effect = PageRequest | Literal["quit", "look", ""]


class Keys:
    """`size`: columns and rows of the screen."""

    def __init__(self, picture: Picture, size: tuple[int, int], now: float) -> None:
        self._picture = picture
        self._columns, self._rows = size
        self._now = now

    def press(self, view: View, key: str) -> tuple[View, Effect]:
        """`key`: one character, or a name: up, down, pageup, pagedown, home, end, enter, escape,
        backspace."""
        if view.typed is not None:
            return self._type(view, key)
        if key == "q":
            return view, "quit"
        if key == "p":
            return replace(view, paused=not view.paused), "look" if view.paused else ""
        if key in ("+", "=", "-"):
            every = view.every * 2 if key == "-" else view.every / 2
            return replace(view, every=max(SHORTEST, min(every, LONGEST))), ""
        if key == "?":
            return view.opened(Place("page", page=_help_page())), ""
        if key == "escape":
            if len(view.places) == 1 and view.chosen is not None:
                return replace(view, chosen=None), ""
            return view.closed(), ""
        return self._on_page(view, key) if view.place.kind == "page" else self._on_table(view, key)

    # --- reports ----------------------------------------------------------------------------

    def _on_page(self, view: View, key: str) -> tuple[View, Effect]:
        place = view.place
        assert place.page is not None
        room = drawing.page_room(self._picture, self._columns, self._rows, self._now)
        count = len(place.page.lines(self._columns, self._now))
        moves = {
            "up": -1, "k": -1, "down": 1, "j": 1, "pageup": -room, "pagedown": room, " ": room,
            "home": -count, "end": count,
        }  # fmt: skip
        if key in moves:
            first = place.first_line(count, room) + moves[key]
            return view.at(scroll=max(0, min(first, count - room))), ""
        kind = place.page.command if key == "r" else _REPORTS.get(key, "")
        if kind in _REPORTS.values():
            return self._open_page(view.closed(), kind)
        return view, ""

    # --- tables -----------------------------------------------------------------------------

    def _on_table(self, view: View, key: str) -> tuple[View, Effect]:
        table = table_of(view.place, self._picture, view.chosen)
        page = max(1, self._rows - 8)
        moves = {
            "up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page,
            "home": -len(table.rows), "end": len(table.rows),
        }  # fmt: skip
        if key in moves:
            return _moved(view, table, moves[key]), ""
        if key == "enter":
            return self._enter(view, table), ""
        if key == "/":
            text = view.chosen.text if view.chosen is not None else ""
            return replace(view, typed=text, error=""), ""
        if key in _REPORTS:
            return self._open_page(view, _REPORTS[key])
        return view, ""

    def _enter(self, view: View, table: LiveTable) -> View:
        row = table.row(view.place)
        if row is None:
            return view
        view = view.at(cursor=row.key, index=table.index(view.place))
        if view.place.kind == "jobs":
            return view.opened(Place("groups", job=row.key))
        if view.place.kind == "groups":
            processes = frozenset(rank.process for rank in row.ranks)
            title = _named(row.ranks, row.cells[0])
            return view.opened(Place("ranks", view.place.job, processes, title))
        return view

    def _open_page(self, view: View, kind: str) -> tuple[View, Effect]:
        place = view.place
        table = table_of(place, self._picture, view.chosen)
        row = table.row(place)
        job = place.job or (row.key if row is not None else "")
        if not job:
            return view, ""
        ranks, title = None, f"{kind}   job {job}"
        is_whole = kind == "why" or (place.kind == "jobs" and view.chosen is None)
        if row is not None and not is_whole:
            known = self._picture.job(job)
            # Of all ranks also what no line of a log says whose it is.
            ranks = row.ranks if known is None or len(row.ranks) < len(known.ranks) else None
            shown = view.chosen.text if place.kind == "jobs" and view.chosen else row.cells[0]
            title += f"   {_named(row.ranks, shown)}"
        page = Page(title, kind, begun=self._now)
        request = PageRequest(kind, job, ranks, page)  # type: ignore[arg-type]
        return view.opened(Place("page", page=page)), request

    # --- the filter -------------------------------------------------------------------------

    def _type(self, view: View, key: str) -> tuple[View, Effect]:
        typed = view.typed or ""
        if key == "escape":
            return replace(view, typed=None, error=""), ""
        if key == "backspace":
            return replace(view, typed=typed[:-1], error=""), ""
        if key == "enter":
            return self._choose(view, typed), ""
        if len(key) == 1 and key.isprintable():
            return replace(view, typed=typed + key, error=""), ""
        return view, ""

    def _choose(self, view: View, typed: str) -> View:
        if not typed.strip():
            return replace(view, chosen=None, typed=None, error="")
        try:
            chosen = selection.parse(typed)
            if ranks := self._ranks(view.place):
                selection.pick(chosen, ranks)
        except SelectionError as error:
            return replace(view, error=error.what)
        return replace(view, chosen=chosen, typed=None, error="")

    def _ranks(self, place: Place) -> list[Rank]:
        """Of the job that is shown, or of all."""
        jobs = self._picture.jobs()
        return [rank for job in jobs if place.job in ("", job.name) for rank in job.ranks]


def _moved(view: View, table: LiveTable, by: int) -> View:
    if not table.rows:
        return view
    index = max(0, min(table.index(view.place) + by, len(table.rows) - 1))
    return view.at(cursor=table.rows[index].key, index=index)


def _named(ranks: Sequence[Rank], text: str) -> str:
    if not text[:1].isdigit():
        return text
    return f"rank {text}" if len(ranks) == 1 else f"ranks {text}"


def _help_page() -> Page:
    def show(terminal: PageTerminal) -> None:
        for names, does in drawing.HELP:
            terminal.print(f"  {terminal.bold(f'{names:12}')}  {does}")

    return Page("keys", "help", show)
