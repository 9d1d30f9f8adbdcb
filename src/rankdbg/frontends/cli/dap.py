"""One DAP server for all ranks: attach VS Code, Neovim or any DAP client once.

  rankdbg dap
  rankdbg dap tp=0 -t slurm:4711 --port 5678
  rankdbg dap --lockstep

Each selected rank becomes a session of its own in the editor, named by rank and coordinates.
debugpy starts in a rank when its session opens, and is switched off when it closes. Nothing
listens but this server, on this machine's loopback, for this user. rankdbg vscode writes the
configuration; Ctrl-C ends it, and every rank goes on.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg.frontends.cli import add_common, positive

MOST_SESSIONS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--port", type=_port, default=5678, help="where editors connect (default: 5678; 0: any)"
    )
    parser.add_argument(
        "--max-sessions",
        type=positive,
        default=MOST_SESSIONS,
        metavar="N",
        help=f"how many ranks are open at a time (default: {MOST_SESSIONS})",
    )
    parser.add_argument(
        "--lockstep",
        action="store_true",
        help="continue and steps in one rank move all stopped ranks",
    )
    parser.add_argument(
        "--stay", action="store_true", help="stopped ranks stay so when the editor leaves"
    )
    parser.add_argument(
        "--no-tensor-summary",
        action="store_true",
        help="show tensors as the program does, without shape, min, mean and max first",
    )
    parser.add_argument("--token", default="", help="for editors whose user cannot be told")


def run(options: argparse.Namespace) -> int:
    from rankdbg.errors import NoJob
    from rankdbg.frontends.dap.hub import Hub
    from rankdbg.frontends.dap.server import Server
    from rankdbg.frontends.dap.settings import Settings
    from rankdbg.frontends.reaching import open_session

    settings = Settings(
        ranks=options.ranks,
        job=options.job,
        most=options.max_sessions,
        lockstep=options.lockstep,
        stay=options.stay,
        tensor_summary=not options.no_tensor_summary,
        token=options.token or _new_token(),
    )
    with open_session(options) as session:
        session.reopens = True
        hub = Hub(session, settings)
        server = Server(hub, options.port)
        try:
            found = f"{len(hub.look())} ranks"
        except NoJob:
            found = "no job yet"
        sys.stdout.write(f"rankdbg dap: listening on 127.0.0.1:{server.port} ({found})\n")
        sys.stdout.flush()
        try:
            server.serve()
        finally:
            server.close()
            hub.close()
    return 0


def reach(options: argparse.Namespace) -> tuple[str, ...]:
    """The options by which another verb finds the same job."""
    words = [word for target in options.target or () for word in ("-t", target)]
    if options.job:
        words += ["--job", options.job]
    for name in ("python", "container", "context", "kubectl"):
        if getattr(options, name):
            words += [f"--{name}", getattr(options, name)]
    return (*words, *(f"--srun={option}" for option in options.srun))


def _new_token() -> str:
    import secrets

    return secrets.token_hex(16)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number up to 65535")
    return int(text)
