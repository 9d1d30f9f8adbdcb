"""The terminal: alternate screen, keys and signals. Only what has changed is written to it.

Of prompt_toolkit, which the shell needs too. Where the lines are those that are on the screen,
nothing is written at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys as Names
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Attrs, Style

from rankdbg.frontends.standard_streams import unguarded
from rankdbg.frontends.terminal import plain_text
from rankdbg.frontends.top.drawing import draw
from rankdbg.frontends.top.keys import Keys
from rankdbg.frontends.top.reading import LiveReading, job_names
from rankdbg.frontends.top.views import Line, View, job_places

TICK_SECONDS = 1.0  # for what gets older on the screen
_NAMED = {
    "up": Names.Up, "down": Names.Down, "pageup": Names.PageUp, "pagedown": Names.PageDown,
    "home": Names.Home, "end": Names.End, "enter": Names.Enter, "escape": Names.Escape,
    "backspace": Names.Backspace,
}  # fmt: skip


class TopScreen:
    def __init__(
        self, view: View, open_reading: Callable[[Callable[[], None]], LiveReading]
    ) -> None:
        output = unguarded(sys.stdout)
        self._view = view
        self._is_new = True  # nothing has been opened yet
        self._lines: list[Line] = []
        self._plain = plain_text(output)
        drawn_on: Any = create_output(output)
        drawn_on.enable_cpr = False
        self._output = drawn_on
        self._app: Application[int] = Application(
            layout=Layout(Window(FormattedTextControl(self._text, show_cursor=False))),
            key_bindings=self._keys(),
            full_screen=True,
            style=_style(),
            output=self._output,
            enable_page_navigation_bindings=False,
        )
        # A key that stands alone is not the beginning of another one: Esc.
        self._app.ttimeoutlen = 0.1
        self._app.timeoutlen = 0.1
        self._loop = asyncio.new_event_loop()
        self._reading = open_reading(self._note_change)

    def run(self) -> int:
        """Until a key or a signal ends it; returns that signal, or 0."""
        messages = io.StringIO()  # would be written across the screen
        try:
            with contextlib.redirect_stderr(messages):
                self._reading.start()
                return self._loop.run_until_complete(self._run())
        except (EOFError, OSError):  # the terminal has gone
            return signal.SIGHUP
        finally:
            self._reading.close()
            sys.stderr.write(messages.getvalue())

    async def _run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self._loop.add_signal_handler(number, self._end, number)
        ticking = self._loop.create_task(self._tick())
        try:
            return await self._app.run_async(set_exception_handler=False)
        finally:
            ticking.cancel()

    def _end(self, number: int) -> None:
        if self._app.is_running and self._app.future and not self._app.future.done():
            self._app.exit(result=number)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._redraw()

    # --- what is shown ----------------------------------------------------------------------

    def _note_change(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._redraw)

    def _redraw(self) -> None:
        if self._draw() != self._lines:
            self._app.invalidate()

    def _draw(self) -> list[Line]:
        picture = self._reading.picture
        if self._is_new and picture.look is not None:
            self._is_new = False
            self._view = replace(self._view, places=job_places(job_names(picture.look)))
        size = self._output.get_size()
        return draw(self._view, picture, size.columns, size.rows, time.monotonic())

    def _text(self) -> StyleAndTextTuples:
        self._lines = self._draw()
        pieces: StyleAndTextTuples = []
        for line in self._lines:
            pieces += [
                (f"class:top-{style}" if style else "", self._plain(text)) for style, text in line
            ]
            pieces.append(("", "\n"))
        return pieces[:-1]

    # --- keys -------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        bindings = KeyBindings()
        for name, key in _NAMED.items():
            bindings.add(key)(lambda event, name=name: self._press(name))
        bindings.add(Names.ControlH)(lambda event: self._press("backspace"))
        bindings.add(Names.Any)(lambda event: self._press(event.data))
        bindings.add(Names.BracketedPaste)(lambda event: self._paste(event.data))
        bindings.add("c-c")(lambda event: self._end(0))
        bindings.add("<sigint>")(lambda event: self._end(signal.SIGINT))
        bindings.add("c-z")(lambda event: event.app.suspend_to_background())
        bindings.add("c-l")(lambda event: event.app.renderer.clear())
        return bindings

    def _paste(self, text: str) -> None:
        if self._view.typed is not None:
            for character in text.split("\n")[0]:
                self._press(character)

    def _press(self, key: str) -> None:
        if len(key) > 1 and key not in _NAMED:
            return  # a key that means nothing here
        size = self._output.get_size()
        keys = Keys(self._reading.picture, (size.columns, size.rows), time.monotonic())
        self._view, effect = keys.press(self._view, key)
        self._reading.every = self._view.every
        self._reading.set_paused(self._view.paused)
        if effect == "quit":
            self._end(0)
        elif not isinstance(effect, str):
            self._reading.request(effect)
        self._redraw()


def _style() -> Style:
    if os.environ.get("NO_COLOR"):
        return Style([])
    dim = "dim" if "dim" in Attrs._fields else ""
    return Style(
        [
            ("top-head", "reverse"),
            ("top-cursor", "reverse"),
            ("top-bold", "bold"),
            ("top-red", "bold fg:ansired"),
            ("top-dim", dim),
        ]
    )


def die_by(number: int) -> None:
    """As if the signal had not been handled: who started the command is to see it."""
    sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
