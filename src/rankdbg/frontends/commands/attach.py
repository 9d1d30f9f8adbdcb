"""pdb on one rank, until the user leaves or the rank goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from rankdbg.frontends.commands.lines import InputLines
from rankdbg.frontends.reports.sources import warn_of_differences
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.stops.stop_addresses import StopAddress, command, has_several_actors
from rankdbg.investigations.stops.stop_sources import Sources
from rankdbg.session import Session
from rankdbg.types import Answer, Rank, Reply, Silence
from rankdbg.wire.answers import StopReport

PATIENCE = 0.5
# How it was left: there was nothing to attach to, by the user, or because the rank went on.
Outcome = Literal["failed", "left", "ended"]


class Attached:
    def __init__(
        self,
        session: Session,
        sources: Sources,
        address: StopAddress,
        rank: Rank,
        all_ranks: Sequence[Rank],
        terminal: Terminal,
        lines: InputLines,
    ) -> None:
        self._session = session
        self._sources = sources
        self._address = address
        self._rank = rank
        self._all_ranks = all_ranks
        self._terminal = terminal
        self._lines = lines
        self._name = " ".join((named([rank], all_ranks), *address.threads))

    def converse(self) -> Outcome:
        """`detach`, Ctrl-D and Ctrl-C leave at any moment, also while the rank runs."""
        state = self._command(None, 0.2)
        if state is None:
            return "failed"
        self._greet(state)
        try:
            while state is not None:
                if state.state == "ended":
                    if (stopped_again := self._next_stop()) is None:
                        break
                    state = stopped_again
                    self._greet(state)
                if state.state == "running":
                    state = self._wait()
                    continue
                line = self._lines.ask(self._prompt(state))
                if line is None or line.strip() == "detach":
                    return "left"
                if line.strip() in ("q", "quit", "exit") and "Pdb" in state.prompt:
                    if not self._really_quit():
                        continue
                    line = "quit rank"
                self._session.forget()
                state = self._command(line + "\n", PATIENCE)
                self._show(state)
        except KeyboardInterrupt:
            self._terminal.print()
            return "left"
        if state is not None:
            self._terminal.print(f"{self._name} continues")
        return "ended"

    def _greet(self, state: StopReport) -> None:
        coordinates = " ".join(f"{name}={value}" for name, value in self._rank.coordinates.items())
        head = " · ".join(filter(None, (self._name, coordinates, self._rank.host)))
        self._terminal.print(f"[{self._terminal.bold(head)}]  {state.kind} {state.why}".rstrip())
        self._show(state)

    def _next_stop(self) -> StopReport | None:
        """The next stop, if the rank has stopped again at once."""
        threads = self._address.threads or self._address.actors
        (answer,) = self._sources.command(
            [self._rank], None, PATIENCE, next_stop=True, threads=threads
        )
        if isinstance(answer, Silence) or answer.value.state not in ("stopped", "running"):
            return None
        return answer.value

    def _prompt(self, state: StopReport) -> str:
        return f"({self._name}) " if state.prompt.startswith("(Pdb)") else state.prompt

    def _command(self, line: str | None, wait: float) -> StopReport | None:
        answer = self._answer(line, wait)
        warn_of_differences(self._sources.take_differences(), [self._rank])
        if isinstance(answer, Silence):
            self._terminal.print(f"no response from {self._name}: {answer.reason}")
            return None
        state = answer.value
        if state.state == "none":
            self._terminal.print(f"{self._name} is not stopped; it is{_place(state)}")
            return None
        return state

    def _answer(self, line: str | None, wait: float) -> Reply[StopReport]:
        ranks = [self._rank]
        answer = command(self._sources, self._address, ranks, self._all_ranks, line, wait)[0]
        if isinstance(answer, Answer) and has_several_actors(self._rank) and answer.value.thread:
            # The commands that follow are for the same actor.
            self._address = replace(self._address, threads=(answer.value.thread,))
        return answer

    def _wait(self) -> StopReport | None:
        """Wait while the rank runs; the user may leave, and a script waits up to the timeout."""
        deadline = time.monotonic() + self._session.timeout
        announced = False
        while True:
            state = self._command(None, PATIENCE)
            if state is None or state.state != "running":
                self._show(state)
                return state
            if not announced:
                self._terminal.print(
                    self._terminal.dim(f"still running{_place(state)}; Ctrl-C leaves it running")
                )
                announced = True
            if not self._lines.interactive and time.monotonic() > deadline:
                return None

    def _show(self, state: StopReport | None) -> None:
        if state is not None and state.state != "running":
            output = state.output.rstrip("\n")
            for line in output.split("\n") if output else ():
                self._terminal.print(line)

    def _really_quit(self) -> bool:
        answer = self._lines.ask(
            f"quit terminates {self._name}, and possibly the job. Really quit? [no] "
        )
        return (answer or "").strip().lower() in ("y", "yes")


def _place(state: StopReport) -> str:
    if state.where is None:
        return ""
    function, file, line = state.where
    return f" in {function} {file.rpartition('/')[2]}:{line}"
