"""Stop or log at a line of a running job, without editing it.

  rankdbg break train.py:88
  rankdbg break src/train.py:88 if 'loss != loss' --ranks tp=0
  rankdbg break 'train.py:88 if loss > 3 ranks(tp=0)'
  rankdbg break train.py:88 log 'loss={loss:.3f}'
  rankdbg break --list                  list the breaks, with hits and log
  rankdbg break --clear [FILE:LINE]     remove one, or all

FILE is a path or the end of a path; for code without a file, use the name shown by stacks.
A break takes effect at once, also in functions that are executing.
"""

from __future__ import annotations

import argparse
from typing import Any

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)
    parser.add_argument(
        "words", nargs="*", metavar="FILE:LINE [if CONDITION] [log TEXT] [ranks(...)]"
    )
    parser.add_argument("--ranks", help="which ranks (default: all)")
    parser.add_argument(
        "--all", action="store_true", dest="everything", help="include processes that are not ranks"
    )
    parser.add_argument("--list", action="store_true", help="list the breaks that are set")
    parser.add_argument("--clear", action="store_true", help="remove this break, or all")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.breaks import print_breaks
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.stops.break_answers import (
        BreakAnswers,
        BreakList,
        BreaksCleared,
        BreakSet,
    )
    from rankdbg.investigations.stops.break_places import parse
    from rankdbg.investigations.stops.breaks import clear_breaks, set_break

    place, chosen = parse(options.words)
    if chosen and options.ranks:
        raise BadInput(f"ranks given twice: {chosen} and --ranks {options.ranks}")
    options.ranks = chosen or options.ranks or "all"
    if place is None and not (options.list or options.clear):
        raise BadInput("no line given", hint="rankdbg break train.py:88")
    with open_session(options) as session:
        ranks, all_ranks = choose(session, options)
        answers: BreakAnswers[Any]
        if options.list:
            answers = BreakList(session.breaks(ranks), all_ranks)
        elif options.clear:
            file, line = (place.file, place.line) if place else (None, None)
            answers = BreaksCleared(clear_breaks(session, ranks, file, line), all_ranks)
        else:
            assert place is not None
            answers = BreakSet(set_break(session, ranks, *place), all_ranks, place)
        if options.json:
            print_json("break", answers.as_json())
        else:
            print_breaks(Terminal(), answers)
    return 0 if answers.good else 1
