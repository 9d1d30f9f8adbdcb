"""`rankdbg shell` in a terminal of 80 columns: lines are typed, and what appears is read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

from waiting import wait_for

PROMPT = re.compile(r"(rankdbg>|\(rank \d+\)) ?$")
# The editor moves to the beginning of the line and erases it, before it writes it anew.
_ERASED = re.compile(r"[^\n]*\x1b\[\d+D(?:\x1b\[0m)?\x1b\[J")
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Shell:
    def __init__(self, line: str) -> None:
        self._terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
        settings = {"env": {**os.environ, "TERM": "xterm"}, "start_new_session": True}
        self.process = subprocess.Popen(
            ["bash", "-c", line], stdin=other, stdout=other, stderr=other, **settings
        )  # type: ignore[call-overload]
        os.close(other)
        self._seen = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 65536):
                self._seen += data
        except OSError:
            return  # it has ended

    def shown(self, since: int = 0) -> str:
        return _CODES.sub("", _ERASED.sub("", self._seen[since:].decode(errors="replace")))

    def wait_for_prompt(self, *texts: str, since: int = 0, patience: float = 60.0) -> list[str]:
        """The lines that have appeared before it, as soon as all of these are among them."""

        def look() -> bool:
            shown = self.shown(since)
            return bool(PROMPT.search(shown)) and all(text in shown for text in texts)

        wait_for(look, lambda: f"{texts} and a prompt in {self.shown(since)!r}", patience)
        return self.shown(since).split("\n")[:-1]

    def type(self, line: str, *texts: str) -> list[str]:
        """What a line prints. The first of the lines is what was typed."""
        since = len(self._seen)
        os.write(self._terminal, f"{line}\r".encode())
        return self.wait_for_prompt("\n", *texts, since=since)[1:]
