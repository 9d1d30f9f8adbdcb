"""A rank is a process: nothing in rankdbg finds one by its number alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rankdbg

SOURCE = Path(rankdbg.__file__).parent

# Where a number alone is right, and why.
EXCEPTIONS = {
    "verdicts/collectives": "operations are counted within a group, ranks by torch in one world",
    "investigations/collectives/collective_words.py": "whether the numbers of one world are unique",
    "agent/stops/stopped_threads.py": "numbers of stops in one process",
    "selection": "numbers are what a selection is about; processes are compared beside them",
    "roster": "it gives numbers to processes",
    "node/probes": "numbers of threads in one process",
    "investigations/job_view.py": "lines of logs, as in investigations/logs",
    "types.py": "which numbers of a role no process has",
    "investigations/hangs/verdicts_with_logs.py": "lines of logs name a number and nothing else",
    "investigations/dumps/crash_files.py": "numbers of threads, and crash files, which have nothing else",
    "frontends/html/log_ranks.py": "lines of logs, as in investigations/logs",
    "investigations/logs": "lines of logs, many of which name a number and nothing else",
}
_LOOKUPS = {"setdefault", "get", "add", "pop", "discard", "index", "count"}


def is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "number"


def keyed_by_number(tree: ast.AST) -> Iterator[int]:
    """Lines in which `….number` is a key, a member of a set, or is looked for."""
    for node in ast.walk(tree):
        found: list[ast.AST | None] = []
        if isinstance(node, ast.DictComp):
            found = [node.key]
        elif isinstance(node, ast.SetComp):
            found = [node.elt]
        elif isinstance(node, ast.Dict):
            found = [*node.keys]
        elif isinstance(node, ast.Subscript):
            found = [node.slice]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = [node.left]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found = [*node.args[:1]] if node.func.attr in _LOOKUPS else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            of_sets = node.func.id in ("set", "frozenset") and node.args
            first = node.args[0] if of_sets else None
            found = [first.elt] if isinstance(first, (ast.GeneratorExp, ast.ListComp)) else []
        if any(map(is_number, found)):
            yield node.lineno


def test_the_check_sees_what_it_looks_for() -> None:
    """Each way to find a rank by its number is seen, and its process is not."""
    seen = [
        "{rank.number: rank for rank in ranks}",
        "{rank.number for rank in ranks}",
        "by_number[rank.number]",
        "rank.number in accused",
        "found.setdefault(rank.number, [])",
        "frozenset(rank.number for rank in ranks)",
    ]
    assert all([*keyed_by_number(ast.parse(line))] for line in seen)
    innocent = [
        "{r.process: r.number for r in ranks}",
        "[r.number for r in ranks]",
        "r.number == 0",
    ]
    assert not any([*keyed_by_number(ast.parse(line))] for line in innocent)


def test_nothing_is_keyed_by_a_number_alone() -> None:
    """Verdicts, collectives, histories and reports find ranks by their processes."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not any(str(path.relative_to(SOURCE)).startswith(place) for place in EXCEPTIONS)
        if ".number" in (text := path.read_text())
        for line in keyed_by_number(ast.parse(text))
    ]
    assert wrong == []


def test_exceptions_are_needed() -> None:
    """An exception that no code needs any more is removed from the list."""
    files = {path: str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")}
    needed = {
        place
        for path, name in files.items()
        for place in EXCEPTIONS
        if name.startswith(place) and [*keyed_by_number(ast.parse(path.read_text()))]
    }
    assert {*EXCEPTIONS} - needed == set()
