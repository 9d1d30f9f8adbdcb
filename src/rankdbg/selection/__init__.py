"""Selections: `ranks(pp=2, tp=0:4)` -> ranks, and ranks -> `0-6,8-1023`.

    selection  "ranks(" body ")", or only the body
    body       choice {";" choice}
    choice     "all" | "*" | item {"," item}
    item       term | number | role [number {"," number}]
    term       key "=" value | key "=" "(" value {"," value} ")"
    value      for role, host, state, job and actor a glob (policy*, "my role"), else a number
    number     3 | 0-6 (with its end) | 1:10:2 (a Python slice, without its end)
    role       a glob without a key: driver, Rollout 0-3

A rank is picked if it matches every term of a choice, one of its numbers and one of its roles; it
matches a term if it matches any of its values. Without a term `gen`, the last generation is meant.
"""

from __future__ import annotations

from rankdbg.selection.grammar import (
    Selection,
    actors_in,
    names_generations,
    parse,
    take_threads,
)
from rankdbg.selection.names import (
    Names,
    format_numbers,
    format_ranks,
    glob,
    last_generations,
    quoted,
)
from rankdbg.selection.picking import matches, pick

__all__ = [
    "Names",
    "Selection",
    "actors_in",
    "format_numbers",
    "format_ranks",
    "glob",
    "last_generations",
    "matches",
    "names_generations",
    "parse",
    "pick",
    "quoted",
    "take_threads",
]
