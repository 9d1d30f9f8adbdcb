"""Stop running ranks where they are: each at the next line of Python of its main thread.

  rankdbg pause all
  rankdbg pause tp=0
  rankdbg pause 3 --cancel     it has not stopped yet, and shall not

A rank that is in C (it waits in a collective, for a lock, in recv) is named with where it
is, and stops as soon as it comes back.
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("--cancel", action="store_true", help="what has not stopped yet shall not")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.pauses import PauseReport
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.terminal import Terminal

    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        report = PauseReport(session.pause(ranks, options.cancel), everybody)
        if options.json:
            print_json("pause", report.as_json())
        else:
            report.print(Terminal())
    return 0 if report.answers else 1
