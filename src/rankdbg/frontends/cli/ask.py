"""Evaluate an expression in ranks, without stopping them, and group the equal answers.

  rankdbg ask all loss
  rankdbg ask 'ranks(tp=0)' 'model.layers[0].weight.grad.norm()'
  rankdbg ask 3 'len(batch)' --frame train_step

The expression is evaluated in the rank's main thread, in the innermost frame of user code
or in the frame given by --frame. The rank keeps running.

Secrets that you ask for are shown in a terminal. In a pipe, a file, --json and a snapshot
(--save) they are masked.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("expression", metavar="EXPRESSION", help="any Python expression")
    parser.add_argument(
        "--frame",
        metavar="N|FUNCTION",
        help="frame number (0 is the innermost, 1 its caller) or function name",
    )
    parser.add_argument("--thread", metavar="NAME", help="thread name (default: main)")
    parser.add_argument("--values", action="store_true", help="show every distinct value")
    parser.add_argument("--save", metavar="DIR", help="save the answers as a snapshot")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.answers import print_answers
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.answers import Answers
    from rankdbg.investigations.expressions import check_expression, parse_frame

    check_expression(options.expression)
    frame = parse_frame(options.frame)
    with open_session(options) as session:
        ranks, all_ranks = choose(session, options)
        came = session.evaluate(ranks, options.expression, frame, options.thread)
        answers = Answers(came, all_ranks, options.expression)
        if options.json:
            print_json("ask", answers.as_json())
        else:
            print_answers(Terminal(), answers, every_value=options.values)
        if options.save:
            session.save(options.save)
            sys.stderr.write(f"saved; open it with -t snapshot:{options.save}\n")
    return 0 if answers.answered else 1
