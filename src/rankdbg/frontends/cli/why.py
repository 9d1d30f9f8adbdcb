"""Who holds the others up, where, why, and what to do.

  rankdbg why                        look at the job, and say
  rankdbg why --outside              ask no agent: from outside alone
  rankdbg why --rules mine.toml      with rules of your own first
  rankdbg why --save DIR             keep it; look again with -t snapshot:DIR

Looks at states, stacks, waits and collectives, more than once: who comes on is not stuck.
A job that moves, starts or waits for work is said to do so, and nobody is accused.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg.frontends.cli import add_common, add_save, positive, print_json, seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--samples", type=positive, default=3, metavar="N", help="how many looks (default: 3)"
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=seconds,
        default=1.0,
        metavar="SECONDS",
        help="how long to watch (default: 1)",
    )
    parser.add_argument(
        "--longest",
        type=seconds,
        default=6.0,
        metavar="SECONDS",
        help="watch for up to this long where that settles it (default: 6)",
    )
    parser.add_argument("--outside", action="store_true", help="ask no agent")
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE|DIR",
        help="rules of your own, before rankdbg's (docs/reference/rules.md)",
    )
    add_save(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.looking import Looking, find_verdict
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.verdicts import VerdictReport
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.verdicts.hang_rules import load_hang_rules

    rules = load_hang_rules(options.rules)
    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        looking = Looking(session, ranks, everybody, options.outside)
        verdict, evidence = find_verdict(
            looking, rules, options.seconds, options.samples, options.longest
        )
        report = VerdictReport(verdict, evidence, everybody)
        if options.json:
            print_json("why", report.as_json())
        else:
            report.print(Terminal())
        if options.save:
            session.save(options.save)
            sys.stderr.write(f"saved; look again with: rankdbg why -t snapshot:{options.save}\n")
    return 0
