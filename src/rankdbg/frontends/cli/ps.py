"""Jobs and ranks: who is there, in what state, where.

  rankdbg ps               equal rows are folded
  rankdbg ps tp=0          only these ranks
  rankdbg ps --all         a row for each process, launchers and helpers too

States: running; stopped (at a breakpoint, by a signal or by a debugger); blocked (in
the kernel, or it holds the GIL); zombie; gone; no agent (can be looked at from outside).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from rankdbg import grouping, selection
from rankdbg.frontends.cli import add_common, print_json
from rankdbg.frontends.reaching import open_session
from rankdbg.frontends.reports.ranks import Paths, frame_json, label, marked
from rankdbg.frontends.terminal import Terminal, cut, cut_path, duration
from rankdbg.session import Roster, check_job
from rankdbg.types import Rank

MOST_ROWS = 20
NARROWEST = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")


def run(options: argparse.Namespace) -> int:
    parsed = selection.parse(options.ranks)
    with open_session(options) as session:
        roster = session.roster()
        jobs = roster.jobs(options.everything)
        check_job(roster, jobs, options.job)
        if options.job is not None:
            jobs = {options.job: jobs[options.job]}
        everybody = [rank for ranks in jobs.values() for rank in ranks]
        chosen = {id(rank) for rank in selection.pick(parsed, everybody)}
        shown = {
            job: [rank for rank in _in_order(ranks) if id(rank) in chosen]
            for job, ranks in jobs.items()
        }
        if options.json:
            print_json("ps", _json(shown, roster, session.cluster.origin))
        else:
            _print(shown, roster, options.everything, session.cluster.origin)
    return 0


def _in_order(ranks: Sequence[Rank]) -> list[Rank]:
    return sorted(ranks, key=lambda r: (r.number is None, r.number or 0, r.host, r.pid))


# --- for people ---------------------------------------------------------------------------


def _print(jobs: dict[str, list[Rank]], roster: Roster, everything: bool, origin: str) -> None:
    terminal = Terminal()
    if origin:
        terminal.print(terminal.dim(origin))
    for number, (job, ranks) in enumerate(jobs.items()):
        if not ranks:
            continue
        if number:
            terminal.print()
        terminal.print(_title(terminal, job, ranks, roster))
        rows = _unfolded(ranks) if everything else _folded(ranks)
        _print_table(terminal, rows)
    for node, reason in roster.silent_nodes.items():
        terminal.print(f"silent: node {node}  ({reason})")
    for note in roster.notes:
        terminal.print(terminal.dim(f"note: {note}"))


def _title(terminal: Terminal, job: str, ranks: Sequence[Rank], roster: Roster) -> str:
    members = [rank for rank in ranks if rank.kind == "rank"]
    hosts = {rank.host for rank in members}
    extents = _extents(members)
    parts = [
        f"job {terminal.bold(job)}",
        f"{len(members)} rank{'s' * (len(members) != 1)} on "
        f"{len(hosts)} node{'s' * (len(hosts) != 1)}",
        " ".join(f"{name}={size}" for name, size in extents.items()),
    ]
    living = [roster.ages[rank.process] for rank in members if rank.state != "gone"]
    if living:
        parts.append(f"for {duration(max(living))}")
    steps = {rank.step for rank in members if rank.step is not None}
    if steps:
        low, high = min(steps), max(steps)
        parts.append(f"step {low}" if low == high else f"steps {low} to {high}")
    return "   ".join(part for part in parts if part)


def _extents(ranks: Sequence[Rank]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for rank in ranks:
        for name, value in rank.coordinates.items():
            extents[name] = max(extents.get(name, 0), value + 1)
    return extents


Row = list[str]


def _folded(ranks: Sequence[Rank]) -> list[Row]:
    """Equal rows once, with their ranks; lines of one function together if that is shorter."""
    paths = Paths(rank.where.file for rank in ranks if rank.where)

    def key(rank: Rank) -> tuple[str, ...]:
        where = (rank.where.function, paths.line(rank.where)) if rank.where else ("", "")
        return (rank.role, rank.state, *where, rank.detail)

    groups = grouping.group_equal((rank, key(rank)) for rank in ranks)
    if len(groups) > MOST_ROWS:

        def coarse(rank: Rank) -> tuple[str, ...]:
            role, state, function, line, _ = key(rank)
            return (role, state, function, line.partition(":")[0], "")

        groups = grouping.group_equal((rank, coarse(rank)) for rank in ranks)
    odd = _odd_in_their_roles(groups)
    roles = len({rank.role for rank in ranks}) > 1
    rows: list[Row] = [["RANKS", *(["ROLE"] if roles else []), "STATE", "WHERE", "", ""]]
    for (value, members), is_odd in zip(groups, odd, strict=True):
        role, state, function, line, detail = cast("tuple[str, ...]", value)
        mark = "<- alone here" if is_odd and len(members) == 1 else "<- few here" * is_odd
        role_cell = [role] if roles else []
        among = [rank for rank in ranks if rank.role == role] if roles else ranks
        cells = [label(members, among), *role_cell, state, function, line]
        rows.append([*cells, detail or mark])
    return rows


def _odd_in_their_roles(groups: list[tuple[object, list[Rank]]]) -> list[bool]:
    """Few among those that do the same: a driver is alone in being one."""
    odd = [False] * len(groups)
    places: dict[str, list[int]] = {}
    for place, (_, members) in enumerate(groups):
        places.setdefault(members[0].role, []).append(place)
    for same in places.values():
        marks = grouping.odd_ones_out([len(groups[place][1]) for place in same])
        for place, mark in zip(same, marks, strict=True):
            odd[place] = mark
    return odd


def _unfolded(ranks: Sequence[Rank]) -> list[Row]:
    paths = Paths(rank.where.file for rank in ranks if rank.where)
    alike = Counter((rank.job, rank.role, rank.number) for rank in ranks)
    names = [_name(rank, alike[rank.job, rank.role, rank.number] > 1) for rank in ranks]
    called = ["NAME"] if any(names) else []
    placed = ["COORDINATES"] if any(rank.coordinates for rank in ranks) or not called else []
    head = ["RANK", *placed, "ROLE", *called, "HOST", "PID", "STATE", "WHERE", "", ""]
    rows: list[Row] = [head]
    for rank, name in zip(ranks, names, strict=True):
        coordinates = " ".join(f"{name}={value}" for name, value in rank.coordinates.items())
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


def _name(rank: Rank, has_twin: bool) -> str:
    """What its launcher calls it: the actor's name if it has one, and the worker. Monarch's
    mesh of actors has an id that matters where there are two of one name."""
    if has_twin and "actor_mesh" in rank.names:
        return rank.names["actor_mesh"][:8]
    return f"{rank.names.get('actor', '')} {rank.names.get('worker', '')[:8]}".strip()


def _print_table(terminal: Terminal, rows: list[Row]) -> None:
    """Columns as wide as they need to be and can be; the last one may get its own line."""
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
    """The end of a file:line tells more than its beginning, of anything else the beginning."""
    return cut_path(cell, width) if ":" in cell else cut(cell, width)


# --- for programs -------------------------------------------------------------------------


def _json(jobs: dict[str, list[Rank]], roster: Roster, origin: str) -> dict[str, Any]:
    return {
        "origin": origin,
        "jobs": [
            {
                "job": job,
                "ranks": selection.format_numbers(
                    r.number for r in ranks if r.number is not None and r.kind == "rank"
                ),
                "count": sum(r.kind == "rank" for r in ranks),
                "mesh": _extents([r for r in ranks if r.kind == "rank"]),
            }
            for job, ranks in jobs.items()
        ],
        "ranks": [_rank_json(rank, roster) for ranks in jobs.values() for rank in ranks],
        "silent_nodes": roster.silent_nodes,
        "notes": roster.notes,
    }


def _rank_json(rank: Rank, roster: Roster) -> dict[str, Any]:
    return {
        "job": rank.job,
        "rank": rank.number,
        "kind": rank.kind,
        "coordinates": dict(rank.coordinates),
        "role": rank.role,
        "names": dict(rank.names),
        "host": rank.host,
        "pid": rank.pid,
        "start": rank.process.start,
        "state": rank.state,
        "detail": rank.detail,
        "where": frame_json(rank.where),
        "step": rank.step,
        "agent": rank.agent,
        "world": rank.world,
        "local_rank": rank.local_rank,
        "seconds": round(roster.ages[rank.process], 1),
        "python": rank.python,
        "command": list(rank.command),
    }
