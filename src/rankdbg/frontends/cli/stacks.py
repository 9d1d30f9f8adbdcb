"""One merged tree of all ranks' stacks, each branch with its ranks.

  rankdbg stacks                      the main thread of every rank
  rankdbg stacks tp=0 --threads all   all threads of these ranks
  rankdbg stacks --outside            never ask the agents, read the processes with py-spy
  rankdbg stacks --save DIR           keep it; look again with -t snapshot:DIR

Several samples tell what moves from what stands still. A rank whose agent does not
answer is read from outside; one that cannot be read either is listed with the reason.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg.frontends.cli import add_common, positive, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument("--threads", choices=("main", "all"), default="main")
    parser.add_argument(
        "--samples", type=positive, default=3, metavar="N", help="how many (default: 3)"
    )
    parser.add_argument("--outside", action="store_true", help="read with py-spy, ask no agent")
    parser.add_argument("--locals", action="store_true", help="show variables of the user's frames")
    parser.add_argument("--full", action="store_true", help="show every frame of libraries")
    parser.add_argument("--save", metavar="DIR", help="keep what was seen as a snapshot")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.stacks import StackReport
    from rankdbg.frontends.terminal import Terminal

    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        seen, silent = session.stacks(
            ranks,
            threads=options.threads,
            samples=options.samples,
            outside=options.outside,
            with_locals=options.locals,
        )
        report = StackReport(seen, silent, everybody)
        if options.json:
            print_json("stacks", report.as_json())
        else:
            report.print(Terminal(), full=options.full, with_locals=options.locals)
        if options.save:
            session.save(options.save)
            sys.stderr.write(f"saved; look again with: rankdbg stacks -t snapshot:{options.save}\n")
    return 0 if seen else 1
