"""Check what works on each node of a target, and what to change.

  rankdbg check -t ssh:gpu-1,gpu-2
  rankdbg check -t slurm:4711

Connects to every node and tries every way of inspecting processes there. Equal findings
of several nodes are one line. Exit status 1 if something does not work.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json

if TYPE_CHECKING:
    from rankdbg.investigations.nodes.node_checks import NodeChecks

UNBROKEN = "\N{NO-BREAK SPACE}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.investigations.nodes.node_checks import NodeChecks

    with open_session(options) as session:
        checks = NodeChecks(session.check())
    if options.json:
        print_json("check", checks.as_json())
    else:
        _print(checks)
    return 0 if checks.works else 1


def _print(checks: NodeChecks) -> None:
    import textwrap

    from rankdbg.frontends.terminal import Terminal

    terminal = Terminal()
    rows = checks.rows()
    width = max((len(name) for _, name, _, _ in rows), default=0)
    room = max(40, terminal.width - width - 6)
    for mark, name, text, where in rows:
        shown = terminal.red(mark) if mark == "NO" else f"{mark:2}"
        on = f"   ({where.replace(' ', UNBROKEN)})" if where else ""
        lines = textwrap.wrap(f"{text}{on}", room, break_on_hyphens=False) or [""]
        first, *more = (line.replace(UNBROKEN, " ") for line in lines)
        terminal.print(f"{shown}  {name:{width}}  {first}")
        for line in more:
            terminal.print(f"{'':{width + 6}}{line}")
    for reason, nodes in checks.unreached().items():
        terminal.print(f"{terminal.red('NO')}  cannot be reached: {', '.join(nodes)}")
        for line in reason.splitlines():
            terminal.print(f"    {line}")
