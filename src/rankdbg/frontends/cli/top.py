"""A full-screen view of the jobs of a target, in a terminal.

  rankdbg top                    this machine, or the current allocation
  rankdbg top -t slurm:4711      any target
  rankdbg top tp=0               only these ranks

Jobs with their steps, the use of their GPUs and whether they make progress; the ranks of a
job, folded by state and place. A job that makes no progress is judged as rankdbg why does.

Keys: up and down (or k and j) move, Enter opens a job and then a group of ranks, Esc goes
back; w why, s stacks, l logs of what is selected; / filters ranks, p pauses, + and - look
more and less often, ? shows all keys, q quits.
"""

from __future__ import annotations

import argparse
import os
import sys

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_target, add_timeout, seconds

EVERY_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ranks",
        metavar="RANKS",
        nargs="?",
        default="",
        help="show only these: 3, 0-6,9, tp=0, role=policy* (default: all)",
    )
    add_target(parser)
    parser.add_argument("--job", help="only this job")
    parser.add_argument(
        "--every",
        type=seconds,
        default=EVERY_SECONDS,
        metavar="SECONDS",
        help=f"look every SECONDS (default: {EVERY_SECONDS:g})",
    )
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE|DIR",
        help="your own rules for hangs, tried before rankdbg's",
    )
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    add_timeout(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg import selection
    from rankdbg.session.patience import find_patience
    from rankdbg.verdicts.hangs.hang_rules import load_hang_rules

    if options.json:
        raise BadInput(
            "top draws a screen and prints no JSON",
            hint="rankdbg ps --json shows ranks, rankdbg watch reports hangs",
        )
    chosen = selection.parse(options.ranks) if options.ranks else None
    rules = load_hang_rules(options.rules)
    find_patience(options.patience)
    _check_terminal()

    from rankdbg.frontends.top.reading import LiveReading
    from rankdbg.frontends.top.screen import TopScreen, die_by
    from rankdbg.frontends.top.views import View
    from rankdbg.frontends.watch.sessions import opener
    from rankdbg.investigations.watch.reconnecting import Reaching

    reaching = Reaching(opener(options))
    cluster = reaching.session().cluster  # its errors come before the screen
    if cluster.saved:
        raise BadInput("a snapshot does not change", hint=f"rankdbg ps -t {cluster.target}")
    view = View(chosen=chosen, every=options.every, target=cluster.target)
    screen = TopScreen(
        view,
        lambda changed: LiveReading(reaching, rules, options.job, options.every, changed),
    )
    number = screen.run()
    if number:
        die_by(number)
    return 0


def _check_terminal() -> None:
    hint = "rankdbg ps prints the same once"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("top needs a terminal: its input or output is a file or a pipe", hint=hint)
    if os.environ.get("TERM", "dumb") == "dumb":
        raise BadInput("top cannot draw on a terminal with TERM=dumb", hint=hint)
