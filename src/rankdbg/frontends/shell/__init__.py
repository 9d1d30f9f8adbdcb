"""The shell: a prompt on a job, for people and for pipes.

__init__    the loop: a line in, what it does out
commands    what can be typed
attach      pdb on one rank
arrivals    answers that come after the command has returned
holding     ranks that wait for a stopped one do not time out
typing      where lines come from: a terminal with history and completion, or a pipe
"""

from __future__ import annotations

import sys

from rankdbg.errors import RankdbgError
from rankdbg.frontends.cli import report
from rankdbg.frontends.shell.commands import Commands
from rankdbg.frontends.shell.holding import Holding
from rankdbg.frontends.shell.typing import Lines, lines_of
from rankdbg.frontends.terminal import Terminal
from rankdbg.session import Session


def run_shell(session: Session, job: str | None) -> int:
    """Until the lines end or the user leaves. From a pipe, a mistake ends with status 2."""
    terminal = Terminal()
    lines = lines_of(sys.stdin)
    commands = Commands(session, job, terminal, lines)
    holding = Holding(session, job)
    holding.begin()
    try:
        return _converse(commands, holding, lines, terminal)
    finally:
        holding.end()


def _converse(commands: Commands, holding: Holding, lines: Lines, terminal: Terminal) -> int:
    if lines.interactive:
        commands.greet()
    status = 0
    for line in lines:
        holding.begin()
        try:
            if not commands.execute(line):
                break
        except RankdbgError as error:
            sys.stdout.flush()
            report(error)
            status = error.exit_status
        except KeyboardInterrupt:
            terminal.print("(interrupted; the ranks go on as they were)")
        sys.stdout.flush()
    commands.close()
    return 0 if lines.interactive else status
