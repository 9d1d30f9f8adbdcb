"""Stop, or log, at a line of a running job, without editing it.

  rankdbg break train.py:88
  rankdbg break src/train.py:88 if 'loss != loss' --ranks tp=0
  rankdbg break 'train.py:88 if loss > 3 ranks(tp=0)'
  rankdbg break train.py:88 log 'loss={loss:.3f}'
  rankdbg break --list                  each with its hits and what it logged
  rankdbg break --clear [FILE:LINE]     one, or all

FILE is a path or the end of one; for code that is in no file, the name that stacks show.
Functions that are executing have the break at once.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankdbg.types import Answer, Silence

RANKS = re.compile(r"(?:^|\s+)(ranks\((?:[^()]|\([^()]*\))*\))\s*")


class Place(NamedTuple):
    file: str
    line: int
    condition: str = ""
    log: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)
    parser.add_argument(
        "words", nargs="*", metavar="FILE:LINE [if CONDITION] [log TEXT] [ranks(...)]"
    )
    parser.add_argument("--ranks", help="which ranks (default: all)")
    parser.add_argument(
        "--all", action="store_true", dest="everything", help="processes that are not ranks too"
    )
    parser.add_argument("--list", action="store_true", help="the breaks that are set")
    parser.add_argument("--clear", action="store_true", help="take this one away, or all")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.breaking import clear_breaks, set_break
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.breaks import BreakList, BreakReport, ClearReport
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.terminal import Terminal

    place, chosen = parse(options.words)
    if chosen and options.ranks:
        raise BadInput(f"the ranks are said twice: {chosen} and --ranks {options.ranks}")
    options.ranks = chosen or options.ranks or "all"
    if place is None and not (options.list or options.clear):
        raise BadInput("break where?", hint="rankdbg break train.py:88")
    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        report: BreakList | BreakReport | ClearReport
        if options.list:
            report = BreakList(session.breaks(ranks), everybody)
        elif options.clear:
            file, line = (place.file, place.line) if place else (None, None)
            report = ClearReport(clear_breaks(session, ranks, file, line), everybody)
        else:
            assert place is not None
            report = BreakReport(set_break(session, ranks, *place), everybody, place)
        if options.json:
            print_json("break", report.as_json())
        else:
            report.print(Terminal())
    return 0 if report.good else 1


def parse(words: list[str]) -> tuple[Place | None, str]:
    """FILE:LINE and what happens there, None if not a word is said of it; and the ranks.
    From the words of a command line, or from all of it in one.

    `ranks(...)` at the end is a selection if what stands before it is complete. So there is
    no doubt: in `if x in ranks(3)` it is the condition's, in `if x > 3 ranks(3)` it cannot be.
    """
    text = words[0].strip() if len(words) == 1 else None
    parts = _split(text) if text is not None else words
    if text is None:
        found = RANKS.fullmatch(words[-1]) if words else None
        before = words[:-1]
    else:
        found = next((m for m in RANKS.finditer(text) if m.end() == len(text)), None)
        before = _split(text[: found.start()]) if found else []
    if found is not None:
        try:
            return _place(before), found[1]
        except BadInput:
            pass
    return _place(parts), ""


def _place(words: list[str]) -> Place | None:
    if not words:
        return None
    first, *rest = words
    file, colon, line = first.rpartition(":")
    if not (file and colon and line.isascii() and line.isdigit() and int(line)):
        raise BadInput(f"{first!r} is not FILE:LINE", hint="rankdbg break train.py:88")
    log = condition = ""
    if "log" in rest:
        at = rest.index("log")
        end = at + 2 if rest[at + 2 : at + 3] == ["if"] and not at else len(rest)
        log = " ".join(rest[at + 1 : end])
        rest = rest[:at] + rest[end:]
        _check(log, log, "what to log", f"f{log!r}")
    if rest:
        condition = " ".join(rest[1:]).strip()
        if rest[0] != "if":
            raise BadInput(
                f"{rest[0]!r} after FILE:LINE is neither 'if' nor 'log'",
                hint="ranks are written out there: ranks(tp=0)",
            )
        _check(condition, condition, "the condition", condition)
    return Place(_full(file), int(line), condition, log)


def places(answers: Iterable[Answer | Silence]) -> list[str]:
    """FILE:LINE of the breaks that ranks say are set."""
    values = [answer.value for answer in answers if hasattr(answer, "value")]
    return sorted({f"{b['file']}:{b['line']}" for value in values for b in value["breaks"]})


def _split(text: str) -> list[str]:
    """`train.py:88 if x > 3 log "x={x}"` -> its parts, the quotes of the text gone."""
    # <ipython-input-3>, <doctest name[0]>: names of what is in no file may have blanks.
    pattern = r"(<[^>]*>:\d+|\S+)(?:\s+if\s+(.*?))?(?:\s+log\s+(['\"])(.*)\3)?\s*"
    match = re.fullmatch(pattern, text, re.DOTALL)
    if match is None:
        return text.split()
    place, condition, _, log = match.groups()
    parts = [place, *(["if", condition] if condition is not None else [])]
    return parts + (["log", log] if log is not None else [])


def _check(text: str, shown: str, name: str, code: str) -> None:
    if not text:
        raise BadInput(f"{name} is missing")
    try:
        compile(code, "<break>", "eval")
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadInput(f"{name} is not Python: {reason}", shown) from None


def _full(file: str) -> str:
    """./train.py and ~/train.py are seen from here, not from where the ranks are."""
    seen = os.path.expanduser(file)
    return os.path.abspath(seen) if seen.startswith(("./", "../", "/")) else seen
