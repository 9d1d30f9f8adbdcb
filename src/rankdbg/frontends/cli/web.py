"""A live page of the job, in the browser on this machine.

  rankdbg web                        print a link; open it in a browser
  rankdbg web --open                 open it
  rankdbg web -t slurm:4711          a job that runs elsewhere
  rankdbg web -t snapshot:DIR        a saved job
  rankdbg web --every 30             look every 30 seconds

The page shows what rankdbg why --html writes, and follows the job: verdict, ranks, merged stacks
and collectives; it paints the ranks by what they answer to an expression, and shows the logs of
those that are selected. It is served on the loopback of this machine, to the browser that opens
the printed link, and to no other user. The job is looked at only while a tab is open. The page
changes nothing: it neither stops nor continues a rank, and an expression can call no function of
the job. End it with Ctrl-C.

Needs the extra: pip install 'rankdbg[web]'.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput, ChooseJob, NoJob
from rankdbg.frontends.cli import add_target, add_timeout, seconds

if TYPE_CHECKING:
    from rankdbg.investigations.reached_job import ReachedJob

SECONDS_TO_CLOSE = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=_port, default=0, help="the port to listen on (default: 0, any free one)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
    parser.add_argument(
        "--every",
        type=_pace,
        default=5.0,
        metavar="SECONDS",
        help="time between two looks at the job (default: 5; the page can change it)",
    )
    add_target(parser)
    parser.add_argument("--job", help="which job, if several are running")
    add_timeout(parser)


def run(options: argparse.Namespace) -> int:
    _check_extra()
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.web.server import listen
    from rankdbg.investigations.reached_job import ReachedJob

    with listen(options.port) as listening, open_session(options) as session:
        session.reopens = True
        reached = ReachedJob(session, options.job)
        try:
            reached.look()
        except ChooseJob as error:
            hint = "choose one: rankdbg web --job NAME"
            raise ChooseJob(error.what, *error.why, hint=hint) from None
        except NoJob as error:
            sys.stderr.write(f"{error.what}; the page will show it once it runs\n")
        session.progress = lambda done, nodes: None
        with _terminated_as_interrupted(), _closed(reached):
            _serve(listening, reached, session.cluster.target, session.cluster.saved, options)
    return 0


def _serve(
    listening: socket.socket,
    reached: ReachedJob,
    target: str,
    saved: str,
    options: argparse.Namespace,
) -> None:
    from rankdbg.frontends.web import looking
    from rankdbg.frontends.web.admission import Admission
    from rankdbg.frontends.web.board import Board
    from rankdbg.frontends.web.server import end_by_signals, link, server_of
    from rankdbg.investigations.job_view import JobView
    from rankdbg.investigations.watch.live_looks import LiveLooks

    board, admission = Board(), Admission()
    looking.start(board, LiveLooks(reached).look, target, saved)
    server = server_of(board, admission, options.every, JobView(reached))
    try:
        with end_by_signals(server):
            sys.stdout.write(f"rankdbg web: {link(listening, admission.token)}\n")
            sys.stdout.write("This link lets a browser in; keep it to yourself. End with Ctrl-C.\n")
            sys.stdout.flush()
            if options.open:
                _open(link(listening, admission.new_single_use_token()))
            server.run(sockets=[listening])
    finally:
        board.end()


def _open(link: str) -> None:
    """Every user can read command lines, of browsers too: this link works once."""
    import webbrowser

    if not webbrowser.open(link):
        sys.stderr.write("no browser could be opened here: open the link yourself\n")


@contextmanager
def _closed(reached: ReachedJob) -> Iterator[None]:
    """The session at the end, without waiting for a node that does not answer."""
    try:
        yield
    finally:
        closing = threading.Thread(target=reached.close, daemon=True)
        closing.start()
        closing.join(SECONDS_TO_CLOSE)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, and then by that signal."""
    received = []

    def end(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if received:
            signal.raise_signal(signal.SIGTERM)


def _check_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import wsproto  # noqa: F401
    except ImportError as error:
        raise BadInput(
            f"rankdbg web needs the package {error.name}, which is not installed here",
            hint="pip install 'rankdbg[web]'",
        ) from None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(
            f"invalid port {text!r}: expected a whole number up to 65535"
        )
    return int(text)


def _pace(text: str) -> float:
    value = seconds(text)
    if not 1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"invalid time {text!r}: expected 1 to 3600 seconds")
    return value
