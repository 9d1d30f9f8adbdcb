"""Where the shell's lines come from: a terminal, or a pipe."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rankdbg.frontends.commands.lines import Completer, InputLines, Report
from rankdbg.frontends.standard_streams import unguarded
from rankdbg.text.escapes import visible_line


def lines_of(stream: TextIO) -> InputLines:
    if stream.isatty() and sys.stdout.isatty():
        return TerminalLines()
    return PipedLines(stream)


class PipedLines:
    """Commands from a pipe or a file, one a line; a line that ends with \\ goes on."""

    interactive = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.complete: Completer = lambda text: ()
        self._late: list[Report] = []
        self._is_reading = False
        self._turn = threading.Lock()

    def __iter__(self) -> Iterator[str]:
        while (line := self.ask("")) is not None:
            yield line

    def ask(self, prompt: str) -> str | None:
        with self._turn:
            _print_all(self._late)
            self._is_reading = True
        line = self._stream.readline()
        if not line:
            return None  # no command follows: what is still late is printed as it arrives
        with self._turn:
            self._is_reading = False
        while line.endswith("\\\n"):
            line = line[:-2] + "\n" + self._stream.readline()
        return line.removesuffix("\n")

    def show_late(self, report: Report) -> None:
        with self._turn:
            self._late.append(report)
            if self._is_reading:
                _print_all(self._late)


class TerminalLines:
    """Lines that are edited, with history and completion."""

    interactive = True

    def __init__(self) -> None:
        from rankdbg.frontends.shell.line_editor import LineEditor

        self.complete: Completer = lambda text: ()
        self._late: list[Report] = []
        stdout = unguarded(sys.stdout)
        self._editor = LineEditor(stdout, _history_file(), lambda text: self.complete(text))

    def __iter__(self) -> Iterator[str]:
        while True:
            try:
                line = self.ask("rankdbg> ")
            except KeyboardInterrupt:
                continue  # as in every shell: a fresh line
            if line is None:
                return
            yield line

    def ask(self, prompt: str) -> str | None:
        try:
            return self._editor.read(visible_line(prompt))
        except EOFError:
            return None

    def show_late(self, report: Report) -> None:
        self._late.append(report)
        self._editor.call_above(lambda: _print_all(self._late))


def _print_all(reports: list[Report]) -> None:
    while reports:
        reports.pop(0)()
    sys.stdout.flush()


def _history_file() -> Path | None:
    """A file of this user's; none where there is no home to keep it in."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    try:
        directory = Path(state, "rankdbg")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        history = directory / "history"
        history.touch(mode=0o600)
    except OSError:
        return None
    return history
