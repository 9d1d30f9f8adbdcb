"""Text for a terminal or a pipe: width, colour, and characters that its encoding has.

Every report goes through Terminal.print(), which escapes untrusted text (escapes.py). Styles are
private characters that such text cannot contain, and become terminal codes only there.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable
from typing import TextIO

from rankdbg.errors import RankdbgError
from rankdbg.frontends.standard_streams import StandardStream
from rankdbg.text.amounts import duration as duration
from rankdbg.text.cutting import cut as cut
from rankdbg.text.cutting import cut_path as cut_path
from rankdbg.text.escapes import visible_line

_PLAIN = str.maketrans(
    {
        "├": "|",
        "└": "`",
        "─": "-",
        "│": "|",
        "…": "...",
        "×": "x",
        "·": ".",
        "–": "-",
        "→": "->",
        "▼": "v",
    }
)


def _unguessable_characters(count: int) -> list[str]:
    """Of those for private use, others in each run: a rank cannot know them. One character is
    hardly wider than none where styled text is measured."""
    first = 0x100000 + int.from_bytes(os.urandom(2), "big") % 0xFF00
    return [chr(first + number) for number in range(count)]


_BOLD, _RED, _DIM, _END = _unguessable_characters(4)
_CODES = str.maketrans({_BOLD: "\x1b[1m", _RED: "\x1b[31;1m", _DIM: "\x1b[2m", _END: "\x1b[0m"})


class Terminal:
    """Colour only adds: nothing is lost without it."""

    def __init__(self, stream: TextIO | None = None, shows_secrets: bool | None = None) -> None:
        """`shows_secrets`: those that the user asks for by name (None: if it is a terminal)."""
        self._stream = stream or sys.stdout
        is_terminal = self._stream.isatty()
        self.shows_secrets = is_terminal if shows_secrets is None else shows_secrets
        self.width = shutil.get_terminal_size((80, 24)).columns if is_terminal else 80
        self._coloured = (
            is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        self._plain = not _can_encode(self._stream.encoding)

    def print(self, line: str = "") -> None:
        """One line: a newline in it is text of others that should have been split before."""
        self._write(self._shown(line.rstrip()) + "\n")

    def show_progress(self, line: str = "") -> None:
        """A line that the next one replaces; an empty one leaves none."""
        self._write(f"\r{self._shown(line)}\x1b[K")
        self._stream.flush()

    def bold(self, text: str) -> str:
        return self._style(_BOLD, text)

    def red(self, text: str) -> str:
        return self._style(_RED, text)

    def dim(self, text: str) -> str:
        return self._style(_DIM, text)

    def _style(self, mark: str, text: str) -> str:
        return f"{mark}{text}{_END}" if self._coloured and text else text

    def _shown(self, line: str) -> str:
        line = visible_line(line)
        if self._coloured:
            line = line.translate(_CODES)
        if self._plain:
            line = line.translate(_PLAIN).encode("ascii", "backslashreplace").decode()
        return line

    def _write(self, text: str) -> None:
        if isinstance(self._stream, StandardStream):
            self._stream.write_shown(text)
        else:
            self._stream.write(text)


class PageTerminal(Terminal):
    """A report for a screen: `lines` of pieces of text, each with `bold`, `red`, `dim` or no style."""

    def __init__(self, width: int) -> None:
        super().__init__(io.StringIO())
        self.width = width
        self._coloured, self._plain = True, False
        self.lines: list[list[tuple[str, str]]] = []

    def _write(self, text: str) -> None:
        for line in text.removesuffix("\n").split("\n"):
            self.lines.append(_pieces(line))

    def _shown(self, line: str) -> str:
        return visible_line(line).expandtabs()


def _pieces(line: str) -> list[tuple[str, str]]:
    names = {_BOLD: "bold", _RED: "red", _DIM: "dim", _END: ""}
    pieces, style, begun = [], "", 0
    for at, character in enumerate(line):
        if character in names:
            pieces.append((style, line[begun:at]))
            style, begun = names[character], at + 1
    pieces.append((style, line[begun:]))
    return [piece for piece in pieces if piece[1]]


def print_error(error: RankdbgError) -> None:
    terminal = Terminal(sys.stderr)
    first, *rest = str(error).split("\n")
    terminal.print(f"{terminal.red('error:')} {first}")
    for line in rest:
        terminal.print(line)


def plain_text(stream: TextIO) -> Callable[[str], str]:
    """Makes text one that this stream can write."""
    if _can_encode(stream.encoding):
        return str
    return lambda text: text.translate(_PLAIN).encode("ascii", "backslashreplace").decode()


def _can_encode(encoding: str | None) -> bool:
    try:
        "├└─│…×·".encode(encoding or "utf-8")  # none: text in memory
    except (LookupError, UnicodeEncodeError):
        return False
    return True
