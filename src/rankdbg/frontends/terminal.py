"""Text for a terminal or a pipe: width, colour, and characters that its encoding has."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

_PLAIN = str.maketrans(
    {"├": "|", "└": "`", "─": "-", "│": "|", "…": "...", "×": "x", "·": ".", "–": "-"}
)


class Terminal:
    """Colour only adds: nothing is lost without it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        is_terminal = self._stream.isatty()
        self.width = shutil.get_terminal_size((80, 24)).columns if is_terminal else 80
        self._coloured = (
            is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        self._plain = not _can_encode(self._stream.encoding)

    def print(self, line: str = "") -> None:
        line = line.rstrip()
        if self._plain:
            line = line.translate(_PLAIN).encode("ascii", "backslashreplace").decode()
        self._stream.write(line.encode("utf-8", "replace").decode("utf-8") + "\n")

    def bold(self, text: str) -> str:
        return self._style("1", text)

    def red(self, text: str) -> str:
        return self._style("31;1", text)

    def dim(self, text: str) -> str:
        return self._style("2", text)

    def _style(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured and text else text


def _can_encode(encoding: str | None) -> bool:
    try:
        "├└─│…×·".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def cut(text: str, width: int) -> str:
    """At most `width` characters, on one line."""
    text = text.replace("\n", "\\n")
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def cut_path(text: str, width: int) -> str:
    """At most `width` characters; the end of a path tells more than its beginning."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
