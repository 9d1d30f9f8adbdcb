"""Stop running ranks where they are: each at the next Python line of its main thread.

  rankdbg pause all
  rankdbg pause tp=0
  rankdbg pause 3 --cancel     cancel a pause that has not taken effect

A rank that is in C code (waiting in a collective, for a lock or in recv) is listed with
its current position, and stops as soon as it returns to Python.
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument(
        "--cancel", action="store_true", help="cancel pauses that have not taken effect"
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.stops import print_pauses
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.stops.stopped_ranks import PausedRanks

    with open_session(options) as session:
        ranks, all_ranks = choose(session, options)
        paused = PausedRanks(session.pause(ranks, options.cancel), all_ranks)
        if options.json:
            print_json("pause", paused.as_json())
        else:
            print_pauses(Terminal(), paused)
    return 0 if paused.answered else 1
