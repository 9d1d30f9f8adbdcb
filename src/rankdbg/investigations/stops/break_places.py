"""Parses the place of a break: `train.py:88 if loss > 3 log 'loss={loss}' ranks(tp=0)`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from rankdbg.errors import BadInput
from rankdbg.types import Answer, Reply
from rankdbg.wire.answers import BreakReports

RANKS = re.compile(r"(?:^|\s+)(ranks\((?:[^()]|\([^()]*\))*\))\s*")


class BreakRequest(NamedTuple):
    file: str
    line: int
    condition: str = ""
    log: str = ""


def parse(words: list[str]) -> tuple[BreakRequest | None, str]:
    """FILE:LINE with condition and log text, None if not given; and the ranks. The input is a
    command line, as separate words or as one.

    `ranks(...)` at the end is a selection if the text before it is complete: in
    `if x in ranks(3)` it belongs to the condition, in `if x > 3 ranks(3)` it does not.
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


def _place(words: list[str]) -> BreakRequest | None:
    if not words:
        return None
    first, *rest = words
    file, colon, line = first.rpartition(":")
    if not (file and colon and line.isascii() and line.isdigit() and len(line) < 10 and int(line)):
        raise BadInput(
            f"invalid line {first!r}: expected FILE:LINE", hint="rankdbg break train.py:88"
        )
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
                f"invalid {rest[0]!r} after FILE:LINE: expected 'if' or 'log'",
                hint="to select ranks, write ranks(tp=0)",
            )
        _check(condition, condition, "the condition", condition)
    return BreakRequest(_full(file), int(line), condition, log)


def _split(text: str) -> list[str]:
    """`train.py:88 if x > 3 log "x={x}"` -> its parts, with the text unquoted."""
    # <ipython-input-3>, <doctest name[0]>: names of code without a file may contain spaces.
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
        raise BadInput(f"{name} is not valid Python: {reason}", shown) from None


def _full(file: str) -> str:
    """./train.py and ~/train.py are local paths, not paths on the nodes."""
    seen = os.path.expanduser(file)
    return os.path.abspath(seen) if seen.startswith(("./", "../", "/")) else seen


def places(answers: Iterable[Reply[BreakReports]]) -> list[str]:
    """FILE:LINE of the breaks that are set in ranks."""
    values = [answer.value for answer in answers if isinstance(answer, Answer)]
    return sorted({f"{b.file}:{b.line}" for value in values for b in value.breaks})
