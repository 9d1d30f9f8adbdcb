"""A real terminal, in tmux: keys in, what one sees out."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rankdbg.node.machine.processes import read_stat
from waiting import ANSWER_SECONDS, wait_for

TOP = f"{sys.executable} -m rankdbg top --timeout {ANSWER_SECONDS:g}"
_PASSED = ("RANKDBG_DIR", "PYTHONPATH", "PATH", "NO_COLOR", "XDG_STATE_HOME")


class Screen:
    def __init__(self, socket: Path) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("needs tmux")
        self._socket = socket
        self._tmux = ["tmux", "-S", str(socket)]

    def start(self, command: str, columns: int = 80, rows: int = 60) -> None:
        words = ["-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows)]
        subprocess.run([*self._tmux, *words, command], check=True)
        subprocess.run([*self._tmux, "set", "-g", "remain-on-exit", "on"], check=True)

    def type(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def line(self, text: str) -> None:
        self.type("-l", text)
        self.type("Enter")

    def resize(self, columns: int, rows: int) -> None:
        words = ["resize-window", "-x", str(columns), "-y", str(rows)]
        subprocess.run([*self._tmux, *words], check=True)

    def record(self, file: Path) -> None:
        """From now on what is written to the terminal, byte by byte."""
        subprocess.run([*self._tmux, "pipe-pane", "-O", f"cat > {file}"], check=True)

    def text(self) -> str:
        words = [*self._tmux, "capture-pane", "-p"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def told(self, what: str) -> str:
        """Of the pane, as tmux names it: alternate_on, cursor_flag, pane_pid."""
        words = [*self._tmux, "display", "-p", f"#{{{what}}}"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def wait(self, *texts: str) -> str:
        """The screen, as soon as all of these are on it."""

        def seen() -> str | None:
            screen = self.text()
            return screen if all(text in screen for text in texts) else None

        return wait_for(seen, lambda: f"{texts}; the screen:\n{self.text()}")

    def wait_without(self, text: str) -> str:
        """The screen, as soon as this is not on it."""

        def seen() -> str | None:
            screen = self.text()
            return None if text in screen else screen or " "

        return wait_for(seen, lambda: f"without {text}; the screen:\n{self.text()}")

    def at(self, prompt: str, text: str) -> None:
        """Type a line, once that prompt is the last thing on the screen."""

        def is_there() -> bool:
            return self.text().rstrip().rpartition("\n")[2].strip() == prompt

        wait_for(is_there, lambda: f"prompt {prompt}; the screen:\n{self.text()}")
        self.line(text)

    def wait_for_the_end(self) -> None:
        """By the process itself: tmux is slow to say that a pane is dead."""
        pid = self.told("pane_pid")

        def is_over() -> bool:
            stat = read_stat(int(pid))
            return stat is None or stat.state == "Z"

        wait_for(is_over, lambda: f"the end; the screen:\n{self.text()}")

    def close(self) -> None:
        if self._socket.exists():
            subprocess.run([*self._tmux, "kill-server"], check=False)


class OpenTop:
    """Opens `rankdbg top`, or a command line with it, in a terminal of its own."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._screens: list[Screen] = []

    def __call__(self, environment: Mapping[str, str], *words: str, line: str = "") -> Screen:
        screen = Screen(self._scratch / f"tmux-{len(self._screens)}")
        self._screens.append(screen)
        given = [f"export {n}={shlex.quote(environment[n])};" for n in _PASSED if n in environment]
        command = line or f"exec {TOP} {shlex.join(words)}"
        screen.start(" ".join([*given, command]), 80, 24)
        return screen

    def close(self) -> None:
        for screen in self._screens:
            screen.close()
