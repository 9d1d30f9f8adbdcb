"""The shell: a prompt for a job, interactive or scripted.

__init__     the loop: reads and executes lines
holding      ranks that wait for a stopped one do not time out
line_editor  edits one line in a terminal: history and completion
typing       where lines come from: a terminal, or a pipe
"""

from __future__ import annotations

import sys

from rankdbg.errors import RankdbgError
from rankdbg.frontends.commands.commands import Commands
from rankdbg.frontends.commands.lines import InputLines
from rankdbg.frontends.shell.holding import ShellHold
from rankdbg.frontends.shell.typing import lines_of
from rankdbg.frontends.terminal import Terminal, print_error
from rankdbg.session import Session


def run_shell(session: Session, job: str | None) -> int:
    """Until the lines end or the user leaves. From a pipe, a mistake ends with status 2."""
    terminal = Terminal()
    lines = lines_of(sys.stdin)
    commands = Commands(session, job, terminal, lines)
    holding = ShellHold(session, job)
    holding.begin()
    try:
        return _converse(commands, holding, lines, terminal)
    finally:
        holding.end()


def _converse(commands: Commands, holding: ShellHold, lines: InputLines, terminal: Terminal) -> int:
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
            print_error(error)
            status = error.exit_status
        except KeyboardInterrupt:
            terminal.print("(interrupted; the ranks are not affected)")
        sys.stdout.flush()
    commands.close()
    return 0 if lines.interactive else status
