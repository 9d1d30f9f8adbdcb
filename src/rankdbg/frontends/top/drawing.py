"""The screen as lines of styled text, from values alone: nothing here knows a terminal.

Styles are `bold`, `red`, `dim`, `head` and `cursor`; nothing is lost without them: the row of the
cursor begins with `>`, and an odd one is marked with words.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence

from rankdbg.frontends.top.tables import (
    LiveRow,
    LiveTable,
    percent,
    picked,
    rate_text,
    state_note,
    step_text,
    table_of,
)
from rankdbg.frontends.top.views import Line, Picture, View
from rankdbg.investigations.job_lists import mesh_text
from rankdbg.investigations.watch.live_jobs import LiveJob
from rankdbg.text.amounts import counted, duration
from rankdbg.text.cutting import cut, cut_path
from rankdbg.text.escapes import visible_line

LEAST_COLUMNS, LEAST_ROWS = 40, 8
# A look that takes longer than this is late.
LATE_SECONDS = 3.0
_NARROWEST = 8
_MOST_LINES = 3  # of one fact or failure

HELP = (
    ("up down j k", "move; PageUp, PageDown, Home, End too"),
    ("Enter", "open a job, then a group of ranks"),
    ("Esc", "back"),
    ("w", "why: who holds the job up, and what to do"),
    ("s", "stacks of the selected ranks, merged"),
    ("l", "their last log messages"),
    ("r", "in a report: read it again"),
    ("/", "filter ranks: 3  0-6,9  tp=0  role=policy*  state=stopped"),
    ("p", "pause, resume"),
    ("+ -", "look more often, less often"),
    ("q", "quit"),
)


def draw(view: View, picture: Picture, columns: int, rows: int, now: float) -> list[Line]:
    """At most so many lines."""
    if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
        return _too_small(columns, rows)
    top = [_top_line(view, picture, columns), *_trouble(picture, columns, now)]
    bottom = _bottom(view, columns)
    room = rows - len(top) - len(bottom)
    body = _body(view, picture, columns, room, now)[:room]
    return [*top, *body, *([[]] * (room - len(body))), *bottom]


def page_room(picture: Picture, columns: int, rows: int, now: float) -> int:
    """How many lines of a page are seen at once."""
    return max(1, rows - 3 - len(_trouble(picture, columns, now)))


def _too_small(columns: int, rows: int) -> list[Line]:
    text = (
        f"This terminal has {columns} × {rows} characters: "
        f"{LEAST_COLUMNS} × {LEAST_ROWS} are needed. q quits."
    )
    lines = textwrap.wrap(text, max(1, columns - 1))
    return [[("", line)] for line in lines[:rows]]


# --- the frame ------------------------------------------------------------------------------


def _top_line(view: View, picture: Picture, columns: int) -> Line:
    left = f"rankdbg top   {view.target}"
    if picture.look is not None:
        left += f"   {counted(len(picture.look.jobs), 'job')}"
    if view.chosen is not None:
        left += f"   filter {view.chosen.text}"
    every = f"every {view.every:g} s"
    if view.paused:
        every = "paused"
        if picture.look is not None:
            seen = time.time() - (time.monotonic() - picture.look.at)
            every += time.strftime(" at %H:%M:%S", time.localtime(seen))
    left = cut(left, columns - len(every) - 1)
    return [("head", f"{left:{columns - len(every)}}{every}")]


def _trouble(picture: Picture, columns: int, now: float) -> list[Line]:
    """Looks that failed or are late, and nodes without a response."""
    texts = []
    since = picture.answered if picture.answered is not None else picture.begun
    late = picture.asked is not None and now - picture.asked > LATE_SECONDS
    if picture.ended:
        texts.append(picture.ended)
    elif picture.failure or late:
        why = f": {picture.failure}" if picture.failure else ""
        texts.append(f"no response for {duration(now - since)}{why}")
    if picture.look is not None:
        nodes = picture.look.silent_nodes
        texts += [f"no response: node {node}  ({why})" for node, why in nodes.items()][:2]
        if len(nodes) > 2:
            texts[-1] = f"no response: {len(nodes) - 1} more nodes"
    texts += [f"verdicts, steps and GPUs: {picture.trouble}"] * bool(picture.trouble)
    return [[("red", line)] for text in texts for line in _wrapped(text, columns, _MOST_LINES)]


def _bottom(view: View, columns: int) -> list[Line]:
    if view.typed is not None:
        error = f"  {view.error}" if view.error else ""
        typed = visible_line(view.typed)[-(columns - 10) :]
        left = columns - len(typed) - 9
        return [[("bold", "filter: "), ("", typed), ("cursor", "_"), ("red", cut(error, left))]]
    hints = {
        "jobs": "Enter open  w why  s stacks  l logs  / filter  p pause  ? help  q quit",
        "groups": "Enter ranks  w why  s stacks  l logs  / filter  Esc back  ? help  q quit",
        "ranks": "w why  s stacks  l logs  / filter  Esc back  ? help  q quit",
        "page": "up down PageUp PageDown  r read again  Esc back  q quit",
    }
    return [[("dim", cut(hints[view.place.kind], columns))]]


# --- what is between ------------------------------------------------------------------------


def _body(view: View, picture: Picture, columns: int, room: int, now: float) -> list[Line]:
    place = view.place
    if place.kind == "page":
        return _page(view, columns, room, now)
    if picture.look is None:
        return [[("dim", "looking for jobs …")]] if not picture.failure else []
    table = table_of(place, picture, view.chosen)
    if place.kind == "jobs":
        if not picture.look.jobs:
            return [[], *_no_job(picture, columns)]
        return [[], *_table(table, view, columns, room - 1)]
    job = picture.job(place.job)
    if job is None:
        return [[], [("", cut(f"job {place.job} is no longer running", columns))]]
    title = _title(job, picture, view, columns)
    title += [] if place.kind == "ranks" else _verdict(job, picture, columns, room - 6)
    return [*title, [], *_table(table, view, columns, room - len(title) - 1)]


def _no_job(picture: Picture, columns: int) -> list[Line]:
    assert picture.look is not None
    notes = [("dim", note) for note in picture.look.notes]
    start = "start one: rankdbg run -- COMMAND   (or try: rankdbg demo)"
    others = picture.look.others
    hint = f"running: {', '.join(others)}" if others else start
    what = f"no job {picture.look.job!r}" if picture.look.job else "no job"
    texts = [("", f"{what} is running here"), ("dim", hint), *notes]
    return [
        [(style, line)]
        for style, text in texts
        for line in textwrap.wrap(visible_line(text), columns - 1)
    ]


def _title(job: LiveJob, picture: Picture, view: View, columns: int) -> list[Line]:
    """One line, or two."""
    ranks, _ = picked(job.ranks, view.chosen)
    shown = view.place.title if view.place.kind == "ranks" else ""
    steps = picture.steps_of(job)
    rate = rate_text(steps)
    use = "" if job.ended is not None else percent(picture.gpus.of(ranks))
    parts = [
        f"{counted(len(job.ranks), 'rank')} on {counted(len({r.host for r in job.ranks}), 'node')}",
        shown or mesh_text(job.ranks),
        f"for {duration(job.age)}",
        f"step {step_text(steps)}" if steps else "",
        f"{rate} steps/s".replace("/min steps/s", " steps/min") if rate else "",
        f"GPU {use}" if use else "",
    ]
    name = cut(job.name, columns // 2)
    lines, rest = [name], [part for part in parts if part]
    for part in rest:
        if len(lines[-1]) + 3 + len(part) > columns and len(lines) == 1:
            lines.append(f"  {part}")
        else:
            lines[-1] += f"   {part}"
    first, *more = lines
    made: list[Line] = [[("bold", name), ("", cut(first[len(name) :], columns - len(name)))]]
    return made + [[("", cut(line, columns))] for line in more]


def _verdict(job: LiveJob, picture: Picture, columns: int, room: int) -> list[Line]:
    """The sentence about the job, and of one that is stuck who and why. `room`: for all lines."""
    assert picture.look is not None
    verdict = picture.verdicts.get(job.name)
    if job.ended is not None or verdict is None:
        style, text = state_note(job, picture)
        lines: list[Line] = [[(style, cut(text, columns))]]
        if job.ended is not None:
            says = f"what its logs say: rankdbg doctor --job {job.name}"
            lines += [[("dim", line)] for line in textwrap.wrap(visible_line(says), columns - 1)]
        return lines
    style = "bold" if verdict.stuck else ""
    lines = [[(style, cut(verdict.first_line(job, picture.look.at), columns))]]
    facts = (
        ("culprit", verdict.culprit, "red"),
        ("cause", verdict.cause, ""),
        ("chain", verdict.chain, ""),
        ("next", verdict.next, ""),
    )
    for name, text, fact_style in facts:
        for number, line in enumerate(_wrapped(text, columns - 11, _MOST_LINES)):
            lines.append([("", f"  {name if number == 0 else '':7}  "), (fact_style, line)])
    return lines if len(lines) <= max(1, room) else lines[: max(1, room)]


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """In so many lines at most."""
    lines = textwrap.wrap(visible_line(text), width, break_on_hyphens=False)
    if len(lines) > most:
        lines[most - 1] = f"{lines[most - 1][: width - 2]} …"
    return lines[:most]


def _page(view: View, columns: int, room: int, now: float) -> list[Line]:
    page = view.place.page
    assert page is not None
    lines = page.lines(columns, now)
    first = view.place.first_line(len(lines), room - 1)
    seen = lines[first : first + room - 1]
    part = f"  {first + 1}-{first + len(seen)} of {len(lines)}" if len(lines) > len(seen) else ""
    title = cut(page.title, columns - len(part))
    return [[("bold", title), ("dim", part)], *[_fitted(line, columns) for line in seen]]


def _fitted(line: Line, columns: int) -> Line:
    """Cut at the right edge."""
    made, left = [], columns
    for style, text in line:
        if left > 0:
            made.append((style, cut(text, left)))
        left -= len(text)
    return made


# --- tables ---------------------------------------------------------------------------------


def _table(table: LiveTable, view: View, columns: int, room: int) -> list[Line]:
    if table.error:
        return [[("red", cut(table.error, columns))]]
    if not table.rows:
        return []
    widths = _widths(table, columns)
    head = _cells(table.head, widths, table.right)
    cursor = table.index(view.place)
    first = max(0, cursor - room)  # a row has at least one line
    blocks = [
        _row_lines(row, widths, table, columns, number == cursor)
        for number, row in enumerate(table.rows[first : cursor + room + 1], first)
    ]
    title: Line = [("dim", cut(f"  {head}", columns))]
    return [title, *_around(blocks, cursor - first, room - 1)]


def _around(blocks: Sequence[list[Line]], cursor: int, room: int) -> list[Line]:
    """As many lines as fit, those of the cursor's row among them."""
    first = cursor
    used = len(blocks[cursor])
    while first > 0 and used + len(blocks[first - 1]) <= max(room // 2, 1):
        first -= 1
        used += len(blocks[first])
    used = sum(len(block) for block in blocks[first:])
    while first > 0 and used + len(blocks[first - 1]) <= room:
        first -= 1
        used += len(blocks[first])
    return [line for block in blocks[first:] for line in block][: max(room, 1)]


def _widths(table: LiveTable, columns: int) -> list[int]:
    """As wide as needed and possible."""
    widths = [*table.widths]
    while sum(widths) + 2 * len(widths) > columns and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cells(cells: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    fitted = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = cut_path(cell, width) if ":" in cell else cut(cell, width)
        fitted.append(f"{text:>{width}}" if column in right else f"{text:{width}}")
    return "  ".join(text for text, width in zip(fitted, widths, strict=True) if width).rstrip()


def _row_lines(
    row: LiveRow, widths: Sequence[int], table: LiveTable, columns: int, is_cursor: bool
) -> list[Line]:
    text = f"{'>' if is_cursor else ' '} {_cells(row.cells, widths, table.right)}"
    mark = f"   <- {row.mark}" if row.mark else ""
    style = "cursor" if is_cursor else ""
    lines: list[Line] = [[(style, cut(text, columns))]]
    if mark and len(text) + len(mark) <= columns:
        lines[0].append(("red", mark))
    elif mark:
        lines.append([("red", cut(f" {mark}", columns))])
    if row.note is not None:
        lines.append([(row.note[0], cut(f"    {row.note[1]}", columns))])
    return lines
