"""Evaluate an expression in ranks, without stopping them, and group the equal answers.

  rankdbg ask all loss
  rankdbg ask 'ranks(tp=0)' 'model.layers[0].weight.grad.norm()'
  rankdbg ask 3 'len(batch)' --frame train_step

It is evaluated where the rank's main thread is now: in the innermost frame of user
code, or in the one that --frame names. The rank goes on meanwhile.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg.errors import BadInput, ExpressionError
from rankdbg.frontends.cli import add_common, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("expression", metavar="EXPRESSION", help="any Python expression")
    parser.add_argument(
        "--frame",
        metavar="N|FUNCTION",
        help="which frame: 0 is the innermost, 1 its caller; or the name of its function",
    )
    parser.add_argument("--thread", metavar="NAME", help="which thread (default: main)")
    parser.add_argument("--values", action="store_true", help="show every different value")
    parser.add_argument("--save", metavar="DIR", help="keep the answers as a snapshot")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.answers import AnswerReport
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.terminal import Terminal

    check_expression(options.expression)
    frame = parse_frame(options.frame)
    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        answers = session.evaluate(ranks, options.expression, frame, options.thread)
        report = AnswerReport(answers, everybody)
        if options.json:
            print_json("ask", {"expression": options.expression, **report.as_json()})
        else:
            report.print(Terminal(), every_value=options.values)
        if options.save:
            session.save(options.save)
            sys.stderr.write(f"saved; look again with -t snapshot:{options.save}\n")
    return 0 if report.answered else 1


def check_expression(expression: str) -> None:
    """Say what is wrong here, rather than once in every rank."""
    try:
        compile(expression, "<expression>", "eval")
    except SyntaxError as error:
        text = (expression.splitlines() or [""])[(error.lineno or 1) - 1 :][:1]
        start = max(0, (error.offset or 1) - 1)
        raise ExpressionError(
            f"not a Python expression: {error.msg}",
            text[0] if text else "",
            start,
            max(start + 1, (error.end_offset or 0) - 1),
            hint="ask takes one expression; statements are for a debugger",
        ) from None
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise BadInput(f"not a Python expression: {error}") from None


def parse_frame(text: str | None) -> int | str | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    if not all(part.isidentifier() or part.startswith("<") for part in text.split(".")):
        raise BadInput(f"--frame takes a number or the name of a function, not {text!r}")
    return text
