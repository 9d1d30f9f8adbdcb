"""Where the shell's lines come from: a terminal, or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TextIO

Completer = Callable[[str], Iterable[str]]


class Lines(Protocol):
    """An iterator of lines, that can also ask for one with another prompt."""

    interactive: bool
    complete: Completer

    def __iter__(self) -> Iterator[str]: ...

    def ask(self, prompt: str) -> str | None:
        """One line, or None where there is none any more."""


def lines_of(stream: TextIO) -> Lines:
    if stream.isatty() and sys.stdout.isatty():
        return TerminalLines()
    return PipedLines(stream)


class PipedLines:
    """Commands from a pipe or a file, one a line; a line that ends with \\ goes on."""

    interactive = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.complete: Completer = lambda text: ()

    def __iter__(self) -> Iterator[str]:
        while (line := self.ask("")) is not None:
            yield line

    def ask(self, prompt: str) -> str | None:
        line = self._stream.readline()
        if not line:
            return None
        while line.endswith("\\\n"):
            line = line[:-2] + "\n" + self._stream.readline()
        return line.removesuffix("\n")


class TerminalLines:
    """prompt_toolkit: history, completion, several lines with Alt-Enter."""

    interactive = True

    def __init__(self) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer as ToolkitCompleter
        from prompt_toolkit.completion import Completion
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings

        self.complete: Completer = lambda text: ()
        lines = self

        class Candidates(ToolkitCompleter):
            def get_completions(self, document, event):  # type: ignore[no-untyped-def]
                text = document.text_before_cursor
                word = text.rpartition(" ")[2]
                for candidate in lines.complete(text):
                    if candidate.startswith(word):
                        yield Completion(candidate, start_position=-len(word))

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event) -> None:  # type: ignore[no-untyped-def]
            event.current_buffer.insert_text("\n")

        path = _history_file()
        history = FileHistory(str(path)) if path else InMemoryHistory()
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=Candidates(),
            complete_while_typing=False,
            key_bindings=keys,
        )

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
        from prompt_toolkit.patch_stdout import patch_stdout

        try:
            with patch_stdout():  # answers that arrive meanwhile are printed above
                return self._session.prompt(prompt)
        except EOFError:
            return None


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
