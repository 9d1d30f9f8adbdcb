"""An MCP server on stdin and stdout: rankdbg's questions as tools for AI agents.

  rankdbg mcp                        read-only; clients start it themselves
  rankdbg mcp -t slurm:4711          this target alone may be asked
  rankdbg mcp --allow ask            admit expressions that call functions
  rankdbg mcp --allow control        also break, cast, continue and pause
  rankdbg mcp --install              write the entry for clients that are here
  rankdbg mcp --install cursor codex -t ssh:gpu-1,gpu-2

Needs the extra: pip install 'rankdbg[mcp]'. Tools: list_jobs, why, stacks, ask, collectives,
doctor, logs, history, diverge, profile, node_health, snapshot. What ranks say is marked as data
from the job, and secrets are masked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_target, add_timeout

if TYPE_CHECKING:
    from rankdbg.investigations.connection import JobConnection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=("ask", "control"),
        help="ask: expressions that call functions; control: stop ranks, and run debugger commands in "
        "them; may be repeated",
    )
    parser.add_argument(
        "--install",
        nargs="*",
        metavar="CLIENT",
        help="write the entry into the configuration of these clients (default: of all that are "
        "found here), with the other options given; what is there is kept",
    )
    parser.add_argument(
        "--saved",
        metavar="DIR",
        help="where snapshots go, and reports are found (default: ~/.local/state/rankdbg/saved)",
    )
    add_target(parser)
    parser.add_argument("--job", help="the job that is asked unless a call names another")
    add_timeout(parser)


def run(options: argparse.Namespace) -> int:
    if options.install is not None:
        from rankdbg.frontends.mcp.installing import install

        for line in install(options.install, _words(options)):
            sys.stdout.write(f"{line}\n")
        return 0
    from rankdbg.frontends.mcp.calls import ServerSettings
    from rankdbg.frontends.mcp.sharing import SharedConnections

    settings = ServerSettings(
        _saved(options),
        tuple(options.target or ()),
        options.job,
        frozenset(options.allow),
    )
    serve = _server()
    serve(settings, SharedConnections(_connector(options)))
    return 0


def _server() -> Callable[..., None]:
    try:
        import mcp.server.lowlevel.server  # noqa: F401
        import mcp_types  # noqa: F401
    except ImportError:
        raise BadInput(
            "rankdbg mcp needs the package mcp, version 2 or later, which is not installed here",
            hint="pip install 'rankdbg[mcp]'",
        ) from None
    from rankdbg.frontends.mcp.server import run as serve

    return serve


def _saved(options: argparse.Namespace) -> Path:
    if options.saved:
        return Path(os.path.abspath(options.saved))
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(os.path.abspath(state), "rankdbg", "saved")


def _connector(
    options: argparse.Namespace,
) -> Callable[[tuple[str, ...], Callable[[int, int], None]], JobConnection]:
    def connect(targets: tuple[str, ...], progress: Callable[[int, int], None]) -> JobConnection:
        from rankdbg.investigations import connection

        return connection.connect(
            targets,
            timeout=options.timeout,
            progress=progress,
            maps=options.map,
            python=options.python,
            container=options.container,
            context=options.context,
            kubectl=options.kubectl,
            srun=options.srun,
            patience=options.patience,
        )

    return connect


def _words(options: argparse.Namespace) -> list[str]:
    """The arguments with which clients start this server."""
    words = ["mcp"]
    for name in ("allow", "target", "map", "srun"):
        words += [f"--{name}={value}" for value in getattr(options, name) or ()]
    for name in ("saved", "job", "python", "container", "context", "kubectl"):
        if value := getattr(options, name):
            words.append(f"--{name}={os.path.abspath(value) if name == 'saved' else value}")
    for name in ("timeout", "patience"):
        if value := getattr(options, name):
            words.append(f"--{name}={value:g}")
    return words
