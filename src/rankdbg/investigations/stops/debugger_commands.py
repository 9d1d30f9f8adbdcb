"""Commands for pdb in many ranks, checked before they are sent."""

from __future__ import annotations

from rankdbg.errors import BadInput

WAIT = "."


def check_command(command: str | list[str], yes: bool) -> str | None:
    """The line for pdb; None to wait for the last one."""
    text = command if isinstance(command, str) else " ".join(command)
    if not command:
        raise BadInput("no command given", hint="rankdbg cast all p loss")
    if text.strip() == WAIT:
        return None
    if text.strip() in ("q", "quit", "exit"):
        if not yes:
            raise BadInput(
                f"{text.strip()} would terminate these ranks, and with them the job",
                hint="to let them continue: rankdbg continue; to really quit: cast --yes",
            )
        return "quit rank\n"
    if "\n" in text:
        # pdb reads a line; several are a block of code.
        return f"!exec({text!r})\n"
    return text + "\n"
