"""Jobs and their ranks: state, current function, since when.

  rankdbg ps               equal rows are folded
  rankdbg ps tp=0          only these ranks
  rankdbg ps --all         a row for each process, also launchers, helpers

States: running; stopped (at a breakpoint, by a signal or by a debugger); blocked (in
the kernel, or holding the GIL); exiting; zombie; gone; no agent (can be inspected from
outside with py-spy).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from rankdbg import selection
from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reaching import open_session
from rankdbg.frontends.reports.documents import print_json
from rankdbg.frontends.reports.ranks import marked
from rankdbg.frontends.reports.rows import print_wrapped
from rankdbg.frontends.terminal import Terminal, cut, cut_path, duration
from rankdbg.investigations.job_lists import JobList, list_jobs, mesh_text, only_ranks
from rankdbg.investigations.rank_groups import fold_ranks
from rankdbg.investigations.rank_labels import Paths
from rankdbg.text.amounts import counted
from rankdbg.text.escapes import visible_line
from rankdbg.types import Rank

NARROWEST = 12
MOST_DIMENSIONS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")


def run(options: argparse.Namespace) -> int:
    parsed = selection.parse(options.ranks)
    with open_session(options) as session:
        found = list_jobs(session, parsed, options.job, options.everything)
    if options.json:
        print_json("ps", found.as_json())
    else:
        _print(found, options.everything)
    return 0


def _print(found: JobList, everything: bool) -> None:
    terminal = Terminal()
    if found.origin:
        terminal.print(terminal.dim(found.origin))
    for number, (job, ranks) in enumerate(found.jobs.items()):
        if not ranks:
            continue
        if number:
            terminal.print()
        terminal.print(_title(terminal, job, ranks, found))
        rows = _unfolded(ranks) if everything else _folded(ranks)
        _print_table(terminal, rows)
    for node, reason in found.no_response_nodes.items():
        print_wrapped(terminal, f"no response: node {node}  ({reason})")
    for note in found.notes:
        print_wrapped(terminal, terminal.dim(f"note: {note}"))


def _title(terminal: Terminal, job: str, ranks: Sequence[Rank], found: JobList) -> str:
    own = only_ranks(ranks)
    hosts = {rank.host for rank in own}
    inside = f" (in {found.inside[job]})" if job in found.inside else ""
    parts = [
        f"job {terminal.bold(job)}{inside}",
        f"{counted(len(own), 'rank')} on {counted(len(hosts), 'node')}",
        mesh_text(own),
    ]
    living = [found.ages[rank.process] for rank in own if rank.state != "gone"]
    if living:
        parts.append(f"for {duration(max(living))}")
    steps = {rank.step for rank in own if rank.step is not None}
    if steps:
        low, high = min(steps), max(steps)
        parts.append(f"step {low}" if low == high else f"steps {low} to {high}")
    return "   ".join(part for part in parts if part)


Row = list[str]


def _folded(ranks: Sequence[Rank]) -> list[Row]:
    """Equal rows once, with their ranks."""
    roles = len({rank.role for rank in ranks}) > 1
    rows: list[Row] = [["RANKS", *(["ROLE"] if roles else []), "STATE", "WHERE", "", ""]]
    for group in fold_ranks(ranks):
        role_cell = [group.role] if roles else []
        cells = [group.ranks, *role_cell, group.state, group.function, group.line]
        rows.append([*cells, group.detail or (f"<- {group.mark}" if group.mark else "")])
    return rows


def _unfolded(ranks: Sequence[Rank]) -> list[Row]:
    paths = Paths(rank.where.file for rank in ranks if rank.where)
    alike = Counter((rank.job, rank.role, rank.number) for rank in ranks)
    names = [_name(rank, alike[rank.job, rank.role, rank.number] > 1) for rank in ranks]
    called = ["NAME"] if any(names) else []
    placed = ["COORDINATES"] if any(rank.coordinates for rank in ranks) or not called else []
    head = ["RANK", *placed, "ROLE", *called, "HOST", "PID", "STATE", "WHERE", "", ""]
    rows: list[Row] = [head]
    shown = _telling_dimensions(ranks)
    for rank, name in zip(ranks, names, strict=True):
        coordinates = " ".join(
            f"{d}={place}" for d, place in rank.coordinates.items() if d in shown
        )
        rows.append(
            [
                "-" if rank.number is None else str(rank.number),
                *([coordinates] if placed else []),
                rank.role or ("" if rank.kind == "rank" else f"({rank.kind})"),
                *([name] if called else []),
                rank.host,
                str(rank.pid),
                rank.state,
                rank.where.function if rank.where else "",
                paths.line(rank.where) if rank.where else "",
                rank.detail,
            ]
        )
    return rows


def _telling_dimensions(ranks: Sequence[Rank]) -> set[str]:
    """Of many dimensions, those in which ranks differ: Megatron has five, most of size 1."""
    places: dict[str, set[int]] = {}
    for rank in ranks:
        for name, place in rank.coordinates.items():
            places.setdefault(name, set()).add(place)
    if len(places) <= MOST_DIMENSIONS:
        return {*places}
    return {name for name, found in places.items() if len(found) > 1}


def _name(rank: Rank, has_twin: bool) -> str:
    """Its name in the launcher: the name of the actor if it has one, and the worker. The id of a
    Monarch actor mesh is added if two meshes have the same name."""
    if has_twin and "actor_mesh" in rank.names:
        return rank.names["actor_mesh"][:8]
    return f"{rank.names.get('actor', '')} {rank.names.get('worker', '')[:8]}".strip()


def _print_table(terminal: Terminal, rows: list[Row]) -> None:
    """Columns as wide as needed and possible; the last one may get its own line."""
    rows = [[visible_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    while sum(widths) + 2 * len(widths) > terminal.width and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    for number, row in enumerate(rows):
        cells = [f"{_fit(cell, w):{w}}" for cell, w in zip(row, widths, strict=False) if w]
        line = "  ".join(cells).rstrip()
        last = row[-1]
        if number == 0:
            terminal.print(terminal.dim(line))
        elif last.startswith("<-"):
            terminal.print(marked(terminal, line, last[3:]))
        elif last and len(line) + len(last) + 2 > terminal.width:
            terminal.print(line)
            terminal.print(terminal.dim(f"  {last}"))
        else:
            terminal.print(f"{line}  {last}")


def _fit(cell: str, width: int) -> str:
    """Cut a file:line at its beginning, and other text at its end."""
    return cut_path(cell, width) if ":" in cell else cut(cell, width)
