"""`rankdbg watch` as a process of its own in tests, and the processes that it consists of."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from jobs import PROGRAMS, command
from waiting import PATIENCE, wait_for

WATCHED = str(PROGRAMS / "watched.py")
QUICK = ("--hang-after", "1", "--look-every", "0.3", "--cuda", "none")


class Watch:
    """In a folder of its own; what it says goes to a file there. Ended, whole, with the test."""

    def __init__(
        self,
        place: Path,
        environment: Mapping[str, str],
        *words: object,
        limit: str = "",
        **settings: Any,
    ) -> None:
        """`limit` as of jobs.command."""
        self.place = place
        self._mark = f"WATCHED_BY_TEST={os.urandom(8).hex()}"
        name, _, value = self._mark.partition("=")
        self._said = place / "said.txt"
        stderr: IO[bytes] | int = self._said.open("wb")
        self.process = subprocess.Popen(
            command("watch", *words, limit=limit),
            env={**environment, name: value},
            cwd=place,
            **{"stdin": subprocess.DEVNULL, "stderr": stderr, **settings},
        )

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        while found := self.processes():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(PATIENCE)

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def wait_until_said(self, text: str, patience: float = PATIENCE) -> None:
        wait_for(lambda: text in self.said, lambda: f"{text!r} in {self.said!r}", patience)

    def wait_for_file(self, name: str) -> str:
        wait_for((self.place / name).exists, lambda: f"{name}; said: {self.said!r}")
        return (self.place / name).read_text()

    def processes(self, *words: str) -> list[int]:
        """Of this watch, what it has started included, with these words in their command lines."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                mine = self._mark.encode() in (entry / "environ").read_bytes().split(b"\0")
                if mine and command and all(word in command for word in words):
                    found.append(int(entry.name))
        return found

    def watching_process(self) -> int:
        """Once it looks at the job: its node process is there."""
        wait_for(lambda: self.processes("rankdbg.node"), "a node process")
        return wait_for(lambda: self.processes("watch.beside"), "the watching process")[0]
