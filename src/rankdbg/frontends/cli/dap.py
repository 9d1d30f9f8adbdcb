"""One DAP server for all ranks: attach VS Code, Neovim or any DAP client once.

  rankdbg dap
  rankdbg dap tp=0 -t slurm:4711 --port 5678
  rankdbg dap --lockstep
  rankdbg dap --socket /tmp/rankdbg-1000/dap.sock
  rankdbg dap --single 3

Each selected rank becomes a session in the editor, named by rank and coordinates. debugpy
is loaded into these ranks when the server starts (0.1 s of CPU time in each), traces while
a session is open, and is switched off when it closes. rankdbg vscode writes the
configuration. Ctrl-C ends the server; the ranks keep running.

Only this server listens. It accepts connections on the loopback interface, from this user,
with the token in their configuration. The token is printed and stored in
~/.local/state/rankdbg/dap-token. With --socket the server listens on a Unix socket instead,
which needs no token.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, positive
from rankdbg.text.amounts import counted

if TYPE_CHECKING:
    import socket

    from rankdbg.frontends.dap.settings import AttachSettings
    from rankdbg.session import Session

MOST_SESSIONS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument(
        "--connect",
        type=os.path.abspath,
        metavar="PATH",
        help="connect stdin and stdout to the server on that socket, for editors that start an "
        "adapter",
    )


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Those that rankdbg vscode has too."""
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--port",
        type=_port,
        default=5678,
        help="port for editors (default: 5678; 0: any free port)",
    )
    parser.add_argument(
        "--max-sessions",
        type=positive,
        default=MOST_SESSIONS,
        metavar="N",
        help=f"ranks with a session at the same time (default: {MOST_SESSIONS})",
    )
    parser.add_argument(
        "--single",
        metavar="RANK",
        help="one plain session for this rank, for editors without child sessions (Zed)",
    )
    parser.add_argument(
        "--lockstep",
        action="store_true",
        help="continue and step all stopped ranks together",
    )
    parser.add_argument(
        "--stay", action="store_true", help="keep stopped ranks stopped when the editor disconnects"
    )
    parser.add_argument(
        "--no-tensor-summary",
        action="store_true",
        help="show tensors without the summary of shape, min, mean and max",
    )
    parser.add_argument(
        "--token",
        default="",
        help="token to use instead of the stored one; other users can see it in ps: prefer "
        "RANKDBG_DAP_TOKEN",
    )
    parser.add_argument(
        "--socket",
        type=os.path.abspath,
        metavar="PATH",
        help="listen on a Unix socket instead of a port, in a directory that only you can access",
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.dap import listening
    from rankdbg.frontends.dap.running_server import RunningServer
    from rankdbg.frontends.reaching import open_session

    if options.connect:
        listening.connect_stdio(options.connect)
        return 0
    purpose = _purpose(options)
    with open_session(options) as session:
        settings = _settings(options, purpose)
        if options.socket:
            _serve(session, settings, listening.on_socket(options.socket), options.socket)
            return 0
        place = listening.on_port(options.port, settings)
        if not isinstance(place, RunningServer):
            _serve(session, settings, place)
            return 0
    # Print the same line as a new server: an editor's task waits for it.
    _announce(f"127.0.0.1:{options.port}", f"process {place.pid}, already running", settings)
    place.wait_until_it_ends()
    return 0


def _settings(options: argparse.Namespace, purpose: str) -> AttachSettings:
    from rankdbg.frontends.dap.settings import AttachSettings

    return AttachSettings(
        ranks=options.single if options.single is not None else options.ranks,
        single=options.single is not None,
        job=options.job,
        most=options.max_sessions,
        lockstep=options.lockstep,
        stay=options.stay,
        tensor_summary=not options.no_tensor_summary,
        token=_token(options),
        purpose=purpose,
    )


def _purpose(options: argparse.Namespace) -> str:
    """The options without token, port and socket: equal if a running server does the same."""
    from rankdbg.frontends.reaching import default_target

    asked = {**vars(options), "target": options.target or default_target()}
    kept = {name: asked[name] for name in sorted(asked.keys() - {"token", "port", "socket"})}
    return json.dumps(kept, default=str)


def _serve(
    session: Session, settings: AttachSettings, place: socket.socket, path: str = ""
) -> None:
    """Serve until the process ends. `path`: of the Unix socket, if there is one."""
    import threading

    from rankdbg.errors import NoJob
    from rankdbg.frontends.dap import listening
    from rankdbg.frontends.dap.hub import Hub
    from rankdbg.frontends.dap.server import Server

    session.reopens = True
    hub = Hub(session, settings)
    server = Server(hub, place)
    try:
        try:
            found = counted(len(hub.look()), "rank")
            threading.Thread(target=hub.load_ahead, daemon=True).start()
        except NoJob:
            found = "no job yet"
        _announce(path or f"127.0.0.1:{server.port}", found, settings)
        server.serve()
    finally:
        server.close()
        listening.remove(path)
        hub.close()


def _announce(where: str, what: str, settings: AttachSettings) -> None:
    sys.stdout.write(f"rankdbg dap: listening on {where} ({what})\n")
    if settings.token:
        sys.stdout.write(f"editors need: {for_configuration(settings.token)}\n")
    sys.stdout.flush()


def reach(options: argparse.Namespace) -> tuple[str, ...]:
    """The options by which another verb finds the same job."""
    words = [word for target in options.target or () for word in ("-t", target)]
    if options.job:
        words += ["--job", options.job]
    for name in ("python", "container", "context", "kubectl"):
        if getattr(options, name):
            words += [f"--{name}", getattr(options, name)]
    return (*words, *(f"--srun={option}" for option in options.srun))


def _token(options: argparse.Namespace) -> str:
    """Empty if none is needed."""
    from rankdbg.frontends.dap import tokens

    token = tokens.given(options.token)
    os.environ.pop(tokens.VARIABLE, None)  # launchers pass their environment on to the nodes
    if token or options.socket:
        return "" if options.socket else token
    try:
        return tokens.kept()
    except BadInput as error:
        sys.stderr.write(f"rankdbg: this token is valid for this run only: {error.in_one_line()}\n")
        return tokens.new()


def for_configuration(token: str) -> str:
    """What an editor's configuration must have, in JSON."""
    return f'"rankdbg": {json.dumps({"token": token})}'


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(
            f"invalid port {text!r}: expected a whole number up to 65535"
        )
    return int(text)
