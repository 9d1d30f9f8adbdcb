"""Edits one line in a terminal: history, completion, search, several lines with Alt-Enter.

Of prompt_toolkit, but without its PromptSession: that one draws toolbars, menus and a frame which
the shell does not have, starts an event loop for each line, and asks the terminal for its cursor.
For a short line that takes 8.5 ms of a processor at best, and 4 ms here (a busy machine, in turns).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.controls import SearchBufferControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import (
    BeforeInput,
    HighlightIncrementalSearchProcessor,
    ReverseSearchProcessor,
)
from prompt_toolkit.output import create_output

from rankdbg.text.escapes import visible_line

MENU_LINES = 8  # below the prompt, while it completes


class _Candidates(Completer):
    def __init__(self, complete: Callable[[str], Iterable[str]]) -> None:
        self._complete = complete

    def get_completions(self, document, event):  # type: ignore[no-untyped-def]
        text = document.text_before_cursor
        word = text.rpartition(" ")[2]
        for candidate in self._complete(text):
            if candidate.startswith(word) and candidate == visible_line(candidate):
                yield Completion(candidate, start_position=-len(word))


class LineEditor:
    def __init__(
        self, output: TextIO, history: Path | None, complete: Callable[[str], Iterable[str]]
    ) -> None:
        self._prompt = ""
        self._buffer = Buffer(
            completer=_Candidates(complete),
            history=FileHistory(str(history)) if history else InMemoryHistory(),
            accept_handler=self._accept,
        )
        drawn_on: Any = create_output(output)
        drawn_on.enable_cpr = False  # menus have room without knowing where the cursor is
        self._app: Application[str] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            output=drawn_on,
            terminal_size_polling_interval=None,  # the terminal sends a signal
            reverse_vi_search_direction=True,  # Ctrl-R begins with the last line
        )
        self._loop = asyncio.new_event_loop()

    def read(self, prompt: str) -> str:
        """Raises KeyboardInterrupt at Ctrl-C, and EOFError at Ctrl-D."""
        self._prompt = prompt
        self._buffer.reset()
        self._app.layout.focus(self._buffer)
        return self._loop.run_until_complete(self._app.run_async())

    def call_above(self, function: Callable[[], None]) -> None:
        """From any thread: call it in the thread that reads, where it may print above the prompt.
        While no line is read, the next read() calls it first."""

        def call() -> None:
            run_in_terminal(function)

        self._loop.call_soon_threadsafe(call)

    def _accept(self, buffer: Buffer) -> bool:
        self._app.exit(result=buffer.text)
        return True  # the text is shown until the next line is read

    def _layout(self) -> Layout:
        search = SearchBufferControl(input_processors=[ReverseSearchProcessor()])
        line = BufferControl(
            self._buffer,
            input_processors=[
                HighlightIncrementalSearchProcessor(),
                BeforeInput(lambda: self._prompt),
            ],
            include_default_input_processors=False,
            search_buffer_control=search,
            preview_search=True,
        )
        searches = has_focus(search)
        window = Window(line, height=self._height, wrap_lines=True)
        body = HSplit(
            [
                ConditionalContainer(window, ~searches),
                ConditionalContainer(Window(search, height=1), searches),
            ]
        )
        menu = Float(CompletionsMenu(max_height=16), xcursor=True, ycursor=True, transparent=True)
        return Layout(FloatContainer(body, [menu]), window)

    def _height(self) -> Dimension:
        completes = self._buffer.complete_state is not None and not self._app.is_done
        return Dimension(min=MENU_LINES) if completes else Dimension()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        edits = has_focus(self._buffer)
        is_empty = Condition(lambda: not self._buffer.text)

        @keys.add("enter", filter=edits)
        def _(event: Any) -> None:
            self._buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=edits)
        def _(event: Any) -> None:
            self._buffer.insert_text("\n")

        @keys.add("c-c", filter=edits)
        @keys.add("<sigint>")
        def _(event: Any) -> None:
            self._app.exit(exception=KeyboardInterrupt())

        @keys.add("c-d", filter=edits & is_empty)
        def _(event: Any) -> None:
            self._app.exit(exception=EOFError())

        return keys
