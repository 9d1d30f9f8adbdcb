"""One debugger command to many stopped ranks, and what came back, grouped.

  rankdbg cast all n
  rankdbg cast 'ranks(tp=0)' p loss
  rankdbg cast 0-3 '!x = [1, 2]'

Any command of pdb. Equal outputs are shown once, with their ranks. A rank that has not
come back (it has stepped into a collective, and waits for others) is named with where it
is; a later cast with the command `.` shows what has arrived since.
"""

from __future__ import annotations

import argparse

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, print_json

WAIT = "."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("--yes", action="store_true", help="yes, quit shall end the ranks")
    parser.add_argument(
        "command", nargs="+", metavar="COMMAND", help="in quotes if a word of it begins with -"
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.casts import CastReport
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.sources import Sources
    from rankdbg.frontends.terminal import Terminal

    line = check_command(options.command, options.yes)
    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        sources = Sources(session)
        report = CastReport(sources.command(ranks, line), everybody)
        warnings = sources.tell(everybody)
        if options.json:
            print_json("cast", {**report.as_json(), "warnings": warnings})
        else:
            report.print(Terminal())
    return 0 if report.answered else 1


def check_command(command: str | list[str], yes: bool) -> str | None:
    """The line for pdb; None where only the last one is waited for."""
    text = command if isinstance(command, str) else " ".join(command)
    if not command:
        raise BadInput("no command to cast", hint="rankdbg cast all p loss")
    if text.strip() == WAIT:
        return None
    if text.strip() in ("q", "quit", "exit"):
        if not yes:
            raise BadInput(
                f"{text.strip()} would end these ranks, and with them the job",
                hint="rankdbg continue lets them go on; if it is meant: cast --yes",
            )
        return "quit rank\n"
    if "\n" in text:
        # pdb reads a line; several are a block of code.
        return f"!exec({text!r})\n"
    return text + "\n"
