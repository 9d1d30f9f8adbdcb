"""Jobs, groups of ranks and ranks as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankdbg import selection
from rankdbg.errors import SelectionError
from rankdbg.frontends.top.views import Picture, Place
from rankdbg.investigations.rank_groups import RankGroup, fold_ranks
from rankdbg.investigations.rank_labels import Paths
from rankdbg.investigations.watch.live_jobs import JobSteps, LiveJob
from rankdbg.selection import Selection
from rankdbg.text.amounts import duration
from rankdbg.text.escapes import visible_line
from rankdbg.types import Rank

# Without progress for less than this, a rank moves.
_STILL_SECONDS = 5.0
_MOST_TABLES = 4  # that are kept


@dataclass(frozen=True)
class LiveRow:
    """`key`: what it is about, by which the cursor stays on it; `mark`: behind it; `note`: below it,
    with its style; `ranks`: those that it shows."""

    key: Any
    cells: tuple[str, ...]
    ranks: tuple[Rank, ...] = ()
    mark: str = ""
    note: tuple[str, str] | None = None


@dataclass(frozen=True)
class LiveTable:
    """`right`: the columns with numbers."""

    head: tuple[str, ...] = ()
    rows: tuple[LiveRow, ...] = ()
    right: frozenset[int] = frozenset()
    error: str = ""

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Of the columns, where there is room."""
        texts = [self.head, *(row.cells for row in self.rows)]
        return tuple(
            max(len(visible_line(text)) for text in column) for column in zip(*texts, strict=True)
        )

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {row.key: index for index, row in enumerate(self.rows)}

    def index(self, place: Place) -> int:
        """Of the row at which the cursor is, or of the one at its place."""
        known = self._places.get(place.cursor)
        return max(0, min(place.index, len(self.rows) - 1)) if known is None else known

    def row(self, place: Place) -> LiveRow | None:
        return self.rows[self.index(place)] if self.rows else None


def table_of(place: Place, picture: Picture, chosen: Selection | None) -> LiveTable:
    """The same one as long as nothing changes that it shows: 10,000 ranks take a while."""
    view = place.kind, place.job, place.ranks
    shown = (chosen, picture.look, picture.gpus, picture.steps, picture.verdicts, picture.judging)
    known = picture.tables.get(view)
    if known is not None and all(a is b for a, b in zip(known[0], shown, strict=True)):
        kept: LiveTable = known[1]
        return kept
    if len(picture.tables) >= _MOST_TABLES:
        picture.tables.clear()
    table = _new_table(place, picture, chosen)
    picture.tables[view] = shown, table
    return table


def _new_table(place: Place, picture: Picture, chosen: Selection | None) -> LiveTable:
    if picture.look is None or place.kind == "page":
        return LiveTable()
    if place.kind == "jobs":
        return _jobs(picture, chosen)
    job = picture.job(place.job)
    if job is None:
        return LiveTable()
    ranks, error = picked(job.ranks, chosen)
    if place.ranks is not None:
        ranks = [rank for rank in ranks if rank.process in place.ranks]
    table = _groups(job, ranks, picture) if place.kind == "groups" else _ranks(job, ranks, picture)
    return LiveTable(table.head, table.rows, table.right, error)


def picked(ranks: Sequence[Rank], chosen: Selection | None) -> tuple[list[Rank], str]:
    """The ranks that the filter picks, and why it picks none."""
    if chosen is None:
        return [*ranks], ""
    try:
        return selection.pick(chosen, ranks), ""
    except SelectionError as error:
        return [], error.what


# --- jobs -----------------------------------------------------------------------------------


def _jobs(picture: Picture, chosen: Selection | None) -> LiveTable:
    rows, errors = [], []
    for job in picture.jobs():
        ranks, error = picked(job.ranks, chosen)
        errors += [error] * bool(error)
        if ranks:
            rows.append(_job_row(job, ranks, picture))
    head = ("JOB", "RANKS", "NODES", "FOR", "STEP", "STEPS/S", "GPU")
    error = errors[0] if errors and not rows else ""
    return LiveTable(head, tuple(rows), frozenset(range(1, 7)), error)


def _job_row(job: LiveJob, ranks: Sequence[Rank], picture: Picture) -> LiveRow:
    steps = picture.steps_of(job)
    inside = f" (in {job.inside})" if job.inside else ""
    cells = (
        f"{job.name}{inside}",
        str(len(ranks)),
        str(len({rank.host for rank in ranks})),
        duration(job.age),
        step_text(steps),
        rate_text(steps),
        "" if job.ended is not None else percent(picture.gpus.of(ranks)),
    )
    return LiveRow(job.name, cells, tuple(ranks), note=state_note(job, picture))


def state_note(job: LiveJob, picture: Picture) -> tuple[str, str]:
    """The state of a job in one line, with its style."""
    assert picture.look is not None
    if job.ended is not None:
        return "dim", f"ended {duration(picture.look.at - job.ended)} ago"
    verdict = picture.verdicts.get(job.name)
    if verdict is not None and verdict.stuck and verdict.culprit:
        return "red", f"stuck for {duration(job.still)}: {verdict.culprit}: {verdict.cause}"
    if verdict is not None:
        return ("red" if verdict.stuck else ""), verdict.first_line(job, picture.look.at)
    if job.name in picture.judging:
        return "", f"no progress for {duration(job.still)}; looking for the cause …"
    if job.still >= _STILL_SECONDS:
        return "", f"no progress for {duration(job.still)}"
    return "", "making progress"


def step_text(steps: JobSteps | None) -> str:
    if steps is None:
        return ""
    return str(steps.high) if steps.low == steps.high else f"{steps.low}-{steps.high}"


def rate_text(steps: JobSteps | None) -> str:
    """Three digits, or a minute's where it is less than one in ten seconds."""
    rate = steps.rate if steps is not None else None
    if rate is None:
        return ""
    if rate >= 100:
        return f"{rate:.0f}"
    if rate >= 0.1:
        return f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}"
    return f"{60 * rate:.1f}/min"


def percent(use: float | None) -> str:
    return "" if use is None else f"{use:.0f}%"


# --- ranks ----------------------------------------------------------------------------------


def _groups(job: LiveJob, ranks: Sequence[Rank], picture: Picture) -> LiveTable:
    has_roles = len({rank.role for rank in ranks}) > 1
    head = ("RANKS", *(["ROLE"] if has_roles else []), "STATE", "WHERE", "", *_FIGURES)
    rows = tuple(_group_row(group, job, picture, has_roles) for group in fold_ranks(ranks))
    return _without_empty_columns(head, rows)


def _group_row(group: RankGroup, job: LiveJob, picture: Picture, has_roles: bool) -> LiveRow:
    roles = [group.role] if has_roles else []
    cells = [group.ranks, *roles, group.state, group.function, group.line]
    cells += _figures(group.members, job, picture)
    note = ("dim", group.detail) if group.detail else None
    return LiveRow(group.key, tuple(cells), group.members, group.mark, note)


def _ranks(job: LiveJob, ranks: Sequence[Rank], picture: Picture) -> LiveTable:
    paths = Paths(rank.where.file for rank in ranks if rank.where)
    head = ("RANK", "COORDINATES", "ROLE", "HOST", "PID", "STATE", "WHERE", "")
    rows = tuple(
        LiveRow(
            rank.process,
            (
                "-" if rank.number is None else str(rank.number),
                " ".join(f"{name}={place}" for name, place in rank.coordinates.items()),
                rank.role,
                rank.host,
                str(rank.pid),
                rank.state,
                rank.where.function if rank.where else "",
                paths.line(rank.where) if rank.where else "",
                *_figures([rank], job, picture),
            ),
            (rank,),
            note=("dim", rank.detail) if rank.detail else None,
        )
        for rank in ranks
    )
    return _without_empty_columns((*head, *_FIGURES), rows)


_FIGURES = ("STEP", "GPU", "SINCE")


def _figures(members: Iterable[Rank], job: LiveJob, picture: Picture) -> list[str]:
    """The steps, the use of their own GPUs, and for how long none of them has made progress."""
    some = [*members]
    steps = [rank.step for rank in some if rank.step is not None]
    text = step_text(JobSteps(min(steps), max(steps))) if steps else ""
    still = min((job.still_ranks.get(rank.process, 0.0) for rank in some), default=0.0)
    since = duration(still) if still >= _STILL_SECONDS else ""
    return [text, percent(picture.gpus.of_ranks(some)), since]


def _without_empty_columns(head: Sequence[str], rows: Sequence[LiveRow]) -> LiveTable:
    """WHERE has two, which go together."""
    kept = [
        column
        for column, title in enumerate(head)
        if title in ("RANKS", "RANK", "STATE", "WHERE", "")
        or any(row.cells[column] for row in rows)
    ]
    made = tuple(
        LiveRow(row.key, tuple(row.cells[c] for c in kept), row.ranks, row.mark, row.note)
        for row in rows
    )
    right = {place for place, c in enumerate(kept) if head[c] in (*_FIGURES, "PID", "RANK")}
    return LiveTable(tuple(head[c] for c in kept), made, frozenset(right))
