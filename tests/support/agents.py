"""Single programs with an agent, asked directly on their sockets, ended by pid."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from rankdbg import wire
from rankdbg.node import relay
from rankdbg.node.service import Service
from rankdbg.process.rendezvous import Address
from waiting import PATIENCE, wait_for

BOOTSTRAP = Path(wire.__file__).parents[1] / "agent" / "bootstrap"


class Programs:
    """Programs that start with RANKDBG=1 and a directory of their own."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.directory = scratch / "agents"
        self.python: Path | str = sys.executable
        self._started: list[subprocess.Popen[str]] = []

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "RANK" not in name}
        return {**kept, "RANKDBG": "1", "RANKDBG_DIR": str(self.directory), **changes}

    def _command(self, words: tuple[object, ...]) -> list[str]:
        """A text of several lines, or one with brackets, is code; a Path is a script."""
        last = words[-1]
        code = isinstance(last, str) and ("\n" in last or "(" in last)
        ending = ["-c", textwrap.dedent(str(last))] if code else [str(last)]
        return [str(self.python), *map(str, words[:-1]), *ending]

    def start(self, *words: object, env: dict[str, str] | None = None, **settings: Any) -> Any:
        """Start a program, and wait until it has printed a line (its pid, or `ready`)."""
        settings = {"stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **settings}
        process = subprocess.Popen(
            self._command(words),
            env=self.environment(**env or {}),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **settings,
        )
        self._started.append(process)
        assert process.stdout is not None
        process.said = process.stdout.readline().strip()  # type: ignore[attr-defined]
        assert process.said, process.stderr and process.stderr.read()  # type: ignore[attr-defined]
        return process

    def run(self, *words: object, agent: bool = True, **settings: Any) -> Any:
        """Run a program to its end, with or without an agent."""
        changes = {"RANKDBG": "1" if agent else "0", **settings.pop("env", {})}
        settings = {"capture_output": True, "text": True, "timeout": PATIENCE, **settings}
        environment = self.environment(**changes)
        return subprocess.run(self._command(words), env=environment, check=False, **settings)

    def socket(self, pid: int) -> Path:
        return self.directory / f"{pid}.sock"

    def card(self, pid: int) -> Path:
        return self.directory / f"{pid}.json"

    def ask(self, pid: int, question: str, seconds: float = 10.0, **arguments: Any) -> Any:
        """The answer of the agent in that process, or a relay.NoAnswer."""
        sockets = {pid: str(self.socket(pid))}
        message = {"ask": question, **arguments}
        return relay.ask_agents(sockets, {pid: message}, time.monotonic() + seconds)[pid]

    def evaluate(self, pid: int, expression: str, **arguments: Any) -> Any:
        return self.ask(pid, "evaluate", expression=expression, **arguments)

    def interrupt(self, pid: int) -> None:
        """Ask for what never ends: it must be late, and its thread must end."""
        late = self.evaluate(pid, "[0 for _ in iter(int, 1)]", timeout=0.1)
        assert late.keys() == {"late", "interrupted"}, late
        frames = "__import__('sys')._current_frames().values()"
        count = f"sum(f.f_code.co_filename == '<rankdbg ask>' for f in {frames})"
        # The one that counts is an evaluation itself.
        wait_for(lambda: self.evaluate(pid, count).get("text") == "1", "the endless loop ends")

    def end_while_asked(self, *flags: str, env: dict[str, str] | None = None) -> None:
        """Start a program, let it end in the middle of questions: it must end as ever."""
        code = "import sys; print('ready', flush=True); sys.stdin.readline()"
        question = wire.encode({"id": 1, "ask": "stacks", "threads": "all", "locals": True})
        program = self.start(*flags, code, env=env, stdin=subprocess.PIPE)
        clients = [self.connect(program.pid) for _ in range(5)]
        for client in clients:
            client.sendall(wire.encode(wire.hello()) + question * 50)
        assert program.communicate("\n", timeout=PATIENCE) == ("", "")
        assert program.returncode == 0
        for client in clients:
            client.close()

    def answers(self, pid: int) -> bool:
        return self.ask(pid, "ping") == {}

    def connect(self, pid: int) -> socket.socket:
        """A bare connection, on which a test can say whatever it wants."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        with Address(str(self.socket(pid))) as address:
            connection.connect(address)
        return connection

    def roster(self) -> dict[int, Any]:
        """What a node sees in this directory: pid -> row."""
        before = os.environ.get("RANKDBG_DIR")
        os.environ["RANKDBG_DIR"] = str(self.directory)
        try:
            answer = Service({}).answer({"ask": "roster", "where": False})["answer"]
        finally:
            os.environ.pop("RANKDBG_DIR")
            if before is not None:
                os.environ["RANKDBG_DIR"] = before
        return {row["pid"]: row for row in answer["processes"]}

    def end(self) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the children that it forked
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()


def memory(pid: int) -> int:
    """The most bytes that a process has ever had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def threads_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


VERSIONS = Path("~/.pyenv/versions").expanduser()


def python(version: str) -> Path:
    """The interpreter of that version; the test is skipped where there is none."""
    return find_python(version) or pytest.skip(f"no Python {version} here")


@functools.cache
def find_python(version: str) -> Path | None:
    for place in sorted(VERSIONS.glob(f"{version}.*/bin/python")):
        return place
    named = shutil.which(f"python{version}")
    if (
        named
        and subprocess.run([named, "-c", ""], capture_output=True, check=False).returncode == 0
    ):
        return Path(named)
    return None
