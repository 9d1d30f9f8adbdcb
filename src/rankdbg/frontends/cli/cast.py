"""Send one debugger command to many stopped ranks; equal outputs are grouped.

  rankdbg cast all n
  rankdbg cast 'ranks(tp=0)' p loss
  rankdbg cast 0-3 '!x = [1, 2]'
  rankdbg cast thread=trainer p loss      of one thread, or one of its actors

Any pdb command. Equal outputs are shown once, with their ranks. If the command has not
returned in a rank (a step into a collective waits for the other ranks), the rank is listed
with its current position; cast the command `.` later to see its output.
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("--yes", action="store_true", help="really quit: this terminates the ranks")
    parser.add_argument(
        "command",
        nargs="+",
        metavar="COMMAND",
        help="a pdb command; quote it if a word begins with -",
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.casts import print_cast
    from rankdbg.frontends.reports.ranks import choose_from
    from rankdbg.frontends.reports.sources import warn_of_differences
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.stops.casts import CastOutputs
    from rankdbg.investigations.stops.debugger_commands import check_command
    from rankdbg.investigations.stops.stop_addresses import command, parse_address
    from rankdbg.investigations.stops.stop_sources import Sources

    line = check_command(options.command, options.yes)
    with open_session(options) as session:
        address = parse_address(options.ranks)
        ranks, all_ranks = choose_from(session, options, address.ranks)
        sources = Sources(session)
        answers = command(sources, address, ranks, all_ranks, line)
        outputs = CastOutputs(answers, all_ranks, sources.take_differences())
        warn_of_differences(outputs.differences, all_ranks)
        if options.json:
            print_json("cast", outputs.as_json())
        else:
            print_cast(Terminal(), outputs)
    return 0 if outputs.answered else 1
