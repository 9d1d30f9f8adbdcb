"""pdb on one rank, until the user leaves or the rank goes on."""

from __future__ import annotations

import time
from typing import Any

from rankdbg.frontends.reports.sources import Sources
from rankdbg.frontends.shell.typing import Lines
from rankdbg.frontends.terminal import Terminal
from rankdbg.selection import format_ranks
from rankdbg.session import Session
from rankdbg.types import Rank, Silence

PATIENCE = 0.5


class Attached:
    def __init__(
        self, session: Session, sources: Sources, rank: Rank, terminal: Terminal, lines: Lines
    ) -> None:
        self._session = session
        self._sources = sources
        self._rank = rank
        self._terminal = terminal
        self._lines = lines
        self._name = f"rank {format_ranks([rank])}"

    def converse(self) -> None:
        """`detach`, Ctrl-D and Ctrl-C leave at any moment, also while the rank runs."""
        state = self._command(None, 0.2)
        if state is None:
            return
        coordinates = " ".join(f"{name}={value}" for name, value in self._rank.coordinates.items())
        head = " · ".join(filter(None, (self._name, coordinates, self._rank.host)))
        self._terminal.print(
            f"[{self._terminal.bold(head)}]  {state['kind']} {state['why']}".rstrip()
        )
        self._show(state)
        try:
            while state is not None and state["state"] != "ended":
                if state["state"] == "running":
                    state = self._wait()
                    continue
                line = self._lines.ask(self._prompt(state))
                if line is None or line.strip() == "detach":
                    break
                if line.strip() in ("q", "quit", "exit") and "Pdb" in state["prompt"]:
                    if not self._really_quit():
                        continue
                    line = "quit rank"
                state = self._command(line + "\n", PATIENCE)
                self._show(state)
        except KeyboardInterrupt:
            self._terminal.print()
        if state is not None and state["state"] == "ended":
            self._terminal.print(f"{self._name} goes on")

    def _prompt(self, state: dict[str, Any]) -> str:
        own = str(state["prompt"])
        return f"({self._name}) " if own.startswith("(Pdb)") else own

    def _command(self, line: str | None, wait: float) -> dict[str, Any] | None:
        (answer,) = self._sources.command([self._rank], line, wait)
        self._sources.tell([self._rank])
        if isinstance(answer, Silence):
            self._terminal.print(f"{self._name} is silent: {answer.reason}")
            return None
        state: dict[str, Any] = answer.value
        if state["state"] == "none":
            self._terminal.print(f"{self._name} is not stopped; it is{_place(state)}")
            return None
        return state

    def _wait(self) -> dict[str, Any] | None:
        """The rank runs: wait with the user, who may leave. A script does not wait for ever."""
        deadline = time.monotonic() + self._session.timeout
        told = False
        while True:
            state = self._command(None, PATIENCE)
            if state is None or state["state"] != "running":
                self._show(state)
                return state
            if not told:
                self._terminal.print(
                    self._terminal.dim(f"still running{_place(state)}; Ctrl-C leaves it running")
                )
                told = True
            if not self._lines.interactive and time.monotonic() > deadline:
                return None

    def _show(self, state: dict[str, Any] | None) -> None:
        if state is not None and state["state"] != "running":
            for line in str(state["output"]).rstrip("\n").splitlines():
                self._terminal.print(line)

    def _really_quit(self) -> bool:
        answer = self._lines.ask(
            f"quit ends {self._name}, and with it perhaps the job. Sure? [no] "
        )
        return (answer or "").strip().lower() in ("y", "yes")


def _place(state: dict[str, Any]) -> str:
    if not state.get("where"):
        return ""
    function, file, line = state["where"]
    return f" in {function} {file.rpartition('/')[2]}:{line}"
