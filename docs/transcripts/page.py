"""A page as lines and commands: the output below a command can be replaced, all else stays."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FENCE = "```"
IN_A_SHELL = "$ "
PROMPT = re.compile(r"\$ |rankdbg> |\(rank \d+\) ")


@dataclass
class Command:
    """One that a reader can type, and what the page shows below it."""

    prompt: str
    text: str  # with its continuation lines
    shown: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As scenarios call it: the prompt of a shell goes without saying."""
        return self.text if self.prompt == IN_A_SHELL else self.prompt + self.text

    def show(self, output: list[str]) -> None:
        """An empty line before the next command stays."""
        gap = self.shown[len("\n".join(self.shown).rstrip().splitlines()) :]
        self.shown = [*output, *gap]

    def lines(self) -> list[str]:
        return [*(self.prompt + self.text).split("\n"), *self.shown]


def parse(text: str) -> list[str | Command]:
    """Commands are in blocks without a language, behind a prompt."""
    parts: list[str | Command] = []
    command: Command | None = None
    block: str | None = None  # its first line
    for line in text.split("\n"):
        if line.startswith(FENCE):
            block, command = line if block is None else None, None
        if block == FENCE and (prompt := PROMPT.match(line)):
            command = Command(prompt[0], line[prompt.end() :])
            parts.append(command)
        elif command is None:
            parts.append(line)
        elif command.text.endswith("\\") and not command.shown:
            command.text += f"\n{line}"
        else:
            command.shown.append(line)
    return parts


def commands_of(parts: list[str | Command]) -> list[Command]:
    return [part for part in parts if isinstance(part, Command)]


def written(parts: list[str | Command]) -> str:
    lines: list[str] = []
    for part in parts:
        lines += part.lines() if isinstance(part, Command) else [part]
    return "\n".join(lines)
