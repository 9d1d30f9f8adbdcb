"""Python tracebacks in logs: where one ends, and what the error was in a chain of several."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankdbg.logs.patterns import Hit

_START = "Traceback (most recent call last)"
_CHAIN = re.compile(
    r"(During handling of the above exception|The above exception was the direct cause)"
)
_ERROR = re.compile(r"^(?P<name>[A-Za-z_][\w.]*(?:\([\w.]+\))?)(?::\s|$|:$)(?P<text>.*)")
_NAMES = re.compile(
    r"(Error|Exception|Exit|Interrupt|Iteration|Warning|Failure|Fault|Timeout|Died|OOM)\b|^[A-Z]\w+$"
)


@dataclass(frozen=True)
class Traceback:
    first: int  # line numbers
    last: int
    errors: tuple[str, ...]  # of a chain, the cause first
    where: str  # File "train.py", line 8, in step: the innermost frame of the first

    @property
    def error(self) -> str:
        return self.errors[0]


def read_traceback(hit: Hit) -> Traceback | None:
    """The whole of it, chains included, from the line that starts it. None if it is cut short."""
    prefix = hit.text[: hit.text.index(_START)]
    errors: list[str] = []
    where, last, inside = "", hit.line, True
    for number, raw in enumerate(hit.after, hit.line + 1):
        line = _without(prefix, raw)
        if not line.strip():
            continue
        if line.startswith((" ", "\t", "|", "+")) and inside:
            if not errors and line.lstrip().startswith("File "):
                where = line.strip()
            continue
        if _START in line:
            inside, last = True, number
        elif _CHAIN.search(line):
            inside, last = False, number
        elif inside and (match := _ERROR.match(line)) and _NAMES.search(match["name"]):
            errors.append(line.strip())
            inside, last = False, number
        elif not inside:
            break
    return Traceback(hit.line, last, tuple(errors), where) if errors else None


def _without(prefix: str, line: str) -> str:
    """The line without what its logger put before it: the same text, or the same form of it."""
    if prefix and line.startswith(prefix):
        return line[len(prefix) :]
    if not prefix.strip():
        return line.removeprefix(prefix)
    form = re.sub(r"\d+", r"\\d+", re.escape(prefix))
    match = re.match(form, line)
    return line[match.end() :] if match else line
