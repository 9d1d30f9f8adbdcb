"""The events of a Chrome trace as a stream, for files of any size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

PORTION = 1 << 20
LONGEST_EVENT = 64 << 20
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,20})')
_scan = json.JSONDecoder().raw_decode


class TraceEvents:
    """Iterate once, to the end."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.whole = False  # whether the list of events is complete
        self._text = ""
        self._at = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (begin := _BEGIN.search(self._text)) is None:
            if not self._more():
                return
        self._at = begin.end()
        while (event := self._next()) is not None:
            yield event

    def _next(self) -> dict[str, Any] | None:
        while True:
            matched = _BETWEEN.match(self._text, self._at)
            start = matched.end() if matched else self._at
            if start < len(self._text):
                if self._text[start] == "]":
                    self._at, self.whole = start, True
                    return None
                try:
                    event, self._at = _scan(self._text, start)
                    return event if isinstance(event, dict) else {}
                except RecursionError:  # not of a profiler
                    return None
                except ValueError:  # split between two reads, or a truncated file
                    pass
            self._at = start
            if len(self._text) - start > LONGEST_EVENT or not self._more():
                return None

    def _more(self) -> bool:
        portion = self._file.read(PORTION)
        self._text, self._at = self._text[self._at :] + portion, 0
        return bool(portion)


def find_base(file: TextIO) -> int:
    """The base of the times of a trace. It is written before or after the events; older traces
    have none and use times since 1970: 0."""
    kept = ""
    while portion := file.read(PORTION):
        text = kept + portion
        if found := _BASE.search(text):
            return int(found[1])
        kept = text[-64:]
    return 0
