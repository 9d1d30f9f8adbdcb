"""What works on every node of a target, and what to change.

  rankdbg check -t ssh:gpu-1,gpu-2
  rankdbg check -t slurm:4711

Connects, tries every way of looking into processes on every node, and says what it found;
equal findings of many nodes are one line. Exit status 1 if something does not work.
"""

from __future__ import annotations

import argparse
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.frontends.cli import add_common, print_json

_MARKS = {True: "ok", None: "-"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session

    with open_session(options) as session:
        found = session.check()
    if options.json:
        print_json("check", {"nodes": {node: _json(answer) for node, answer in found.items()}})
    else:
        _print(found)
    return 0 if all(_works(answer) for answer in found.values()) else 1


def _works(answer: dict[str, Any] | RankdbgError) -> bool:
    if isinstance(answer, RankdbgError):
        return False
    return all(finding["works"] is not False for finding in answer.values())


def _json(answer: dict[str, Any] | RankdbgError) -> dict[str, Any]:
    if isinstance(answer, RankdbgError):
        return {"reached": False, "reason": str(answer), "findings": {}}
    return {"reached": True, "reason": "", "findings": answer}


def _print(found: dict[str, dict[str, Any] | RankdbgError]) -> None:
    from rankdbg.frontends.terminal import Terminal

    terminal = Terminal()
    findings: dict[str, dict[tuple[bool | None, str], list[str]]] = {}
    failures: dict[str, list[str]] = {}
    for node, answer in found.items():
        if isinstance(answer, RankdbgError):
            failures.setdefault(str(answer), []).append(node)
            continue
        for name, finding in answer.items():
            same = findings.setdefault(name, {})
            same.setdefault((finding["works"], finding["text"]), []).append(node)
    width = max(map(len, findings), default=0)
    for name, texts in findings.items():
        for (works, text), nodes in texts.items():
            mark = terminal.red("NO") if works is False else f"{_MARKS[works]:2}"
            terminal.print(f"{mark}  {name:{width}}  {text}{_on(nodes, found)}")
    for reason, nodes in failures.items():
        terminal.print(f"{terminal.red('NO')}  cannot be reached: {', '.join(nodes)}")
        for line in reason.splitlines():
            terminal.print(f"    {line}")


def _on(nodes: list[str], found: dict[str, Any]) -> str:
    """Where it was found, unless that is everywhere."""
    if len(nodes) == len(found):
        return "" if len(found) == 1 else f"   (all {len(found)} nodes)"
    shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    return f"   (on {shown})"
