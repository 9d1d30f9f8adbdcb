"""What runs for a page: scenes, each with the commands that it plays, in the order of the page."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transcripts.page import Command
from transcripts.shell import Shell
from waiting import wait_for

PATIENCE = 120.0  # for what a scene has started
REPEATED = 60.0  # seconds, for the same command to show what its page is about


class NotAsShown(Exception):
    """A command has not printed what its page is about."""


@dataclass(frozen=True)
class Scene:
    """`play` brings about the situation; `commands` are the beginnings of those that it types."""

    play: Callable[[Play], None]
    commands: tuple[str, ...]
    own_pids: bool = True  # else those of the machine, as the kernel's log has them


@dataclass(frozen=True)
class NotRun:
    reason: str
    commands: tuple[str, ...]


Scenario = Sequence[Scene | NotRun]


def assign(commands: list[Command], scenario: Scenario) -> list[list[Command]]:
    """The commands of each part of the scenario: each part has its own in the order of the page.
    ValueError where these do not match."""
    assigned: list[list[Command]] = [[] for _ in scenario]
    for command in commands:
        for part, its_own in zip(scenario, assigned, strict=True):
            expected = part.commands[len(its_own) : len(its_own) + 1]
            if expected and command.name.startswith(expected[0]):
                its_own.append(command)
                break
        else:
            raise ValueError(f"no scenario: {command.name}")
    for part, its_own in zip(scenario, assigned, strict=True):
        if len(its_own) < len(part.commands):
            raise ValueError(f"not in the page: {part.commands[len(its_own)]}")
    return assigned


Keep = Callable[[list[str]], list[str]]


def everything(lines: list[str]) -> list[str]:
    return lines


def first(count: int) -> Keep:
    return lambda lines: [*lines[:count], "…"] if len(lines) > count else lines


def last(count: int) -> Keep:
    return lambda lines: ["…", *lines[-count:]] if len(lines) > count else lines


def cut_lines(lines: list[str]) -> list[str]:
    """Where the page says that long ones are cut."""
    return [line if len(line) <= 80 else f"{line[:79].rpartition(' ')[0]} …" for line in lines]


def said_by_rankdbg(lines: list[str]) -> list[str]:
    """Without what the job's own processes print."""
    return [line for line in lines if line.startswith("rankdbg")]


class Play:
    """Types the commands of a scene one after another, and puts their output into the page."""

    def __init__(self, commands: list[Command]) -> None:
        self._left = list(commands)
        self.through: list[str] = []  # what is put before the user's shell, as srun is

    def run(
        self,
        shows: str = "",
        keep: Keep = everything,
        typed: str = "",
        beginning: str = "",
        **environment: str,
    ) -> str:
        """The next command, again until its output has the text without which its page is wrong.
        `typed` replaces what is in the page, where numbers of this run are in the command."""
        command = self._next(beginning)
        command.text = typed or command.text
        seen = ""

        def look() -> bool:
            nonlocal seen
            if seen:  # whoever runs this should know that it took another attempt
                sys.stderr.write(f"{seen}  no {shows!r} in it; again\n")
            seen = run_in_shell(command.text, environment, self.through)
            return shows in seen

        try:
            wait_for(look, seconds=REPEATED)
        except AssertionError:
            raise NotAsShown(f"$ {command.text}\n{seen}no {shows!r} in it") from None
        command.show(keep(seen.splitlines()))
        return seen

    def start(self, beginning: str = "", **environment: str) -> Background:
        """The next command (or a later one, where the page shows first what is of interest),
        which runs on while others are typed."""
        return Background(self._next(beginning), environment, self.through)

    def open_shell(self, *texts: str) -> None:
        """The next command is `rankdbg shell`, and prints these before its prompt."""
        command = self._next()
        self._shell = Shell(command.text)
        command.show(self._shell.wait_for_prompt(*texts))

    def type(self, *texts: str) -> None:
        """The next line, at the prompt of that shell. Its output is complete with these."""
        command = self._next()
        command.show(self._shell.type(command.text, *texts))

    def _next(self, beginning: str = "") -> Command:
        command = next(each for each in self._left if each.name.startswith(beginning))
        self._left.remove(command)
        sys.stderr.write(f"  {command.prompt}{command.text}\n")
        return command

    def check_complete(self) -> None:
        if self._left:
            raise NotAsShown(f"not played: {self._left[0].name}")


class Background:
    """A command that runs on; the page has what it has printed by then."""

    def __init__(
        self, command: Command, environment: dict[str, str], through: Sequence[str] = ()
    ) -> None:
        self._command = command
        self._output = Path(tempfile.mkstemp(prefix="output-")[1])
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*through, "bash", "-c", command.text.removesuffix("&")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def show(self, *texts: str, keep: Keep = everything) -> None:
        """As soon as it has printed all of these."""
        self.wait_for(*texts)
        self._command.show(keep(self.output.splitlines()))

    def wait_for(self, *texts: str) -> None:
        wait_for(
            lambda: all(text in self.output for text in texts),
            lambda: f"{texts} in what $ {self._command.text} prints: {self.output}",
            PATIENCE,
        )


def run_in_shell(
    line: str, environment: dict[str, str] | None = None, through: Sequence[str] = ()
) -> str:
    """What it prints, wherever to."""
    done = subprocess.run(
        [*through, "bash", "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout.decode()


def wait_until(line: str, *texts: str, through: Sequence[str] = (), **environment: str) -> None:
    """Until this command, which is not in the page, prints all of these."""
    seen = ""

    def look() -> bool:
        nonlocal seen
        seen = run_in_shell(line, environment, through)
        return all(text in seen for text in texts)

    wait_for(look, lambda: f"{texts} in what $ {line} prints: {seen}", PATIENCE)
