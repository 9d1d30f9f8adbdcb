"""The debug console of the parent session: rankdbg's commands, and which ranks have sessions."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator

from rankdbg.errors import BadInput, RankdbgError
from rankdbg.frontends.commands.commands import Commands
from rankdbg.frontends.dap.announcing import named
from rankdbg.frontends.dap.hub import Hub
from rankdbg.frontends.dap.protocol import Connection, Message
from rankdbg.frontends.reports.stops import print_pauses
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.stops.stopped_ranks import PausedRanks

HELP = """\
ranks(tp=0)             open sessions for these ranks only
add RANKS               open sessions for these ranks, too
drop RANKS              end their sessions; the ranks continue
only stopped            end the sessions of ranks that are not stopped
sessions                which ranks have sessions, and which are stopped
continue [RANKS]        let all stopped ranks continue, or these
give RANKS              end their sessions and stop them for the shell (rankdbg shell)
lockstep [on|off]       continue and step all stopped ranks together
ask RANKS EXPRESSION    evaluate an expression in ranks, stopped or running
where [RANKS]           their stacks, merged into one tree
list [RANKS]            ranks stopped at a breakpoint() or an error, for the shell
cast RANKS COMMAND      send a command to the pdb of these ranks
why [RANKS]             which rank holds the others up, where and why

In the console of a rank, begin with rankdbg: rankdbg ask all loss"""

# The same commands as in the shell.
_OF_THE_SHELL = ("ask", "cast", "where", "list", "why")


class Console:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._text = io.StringIO()
        self._lines = _NoLines()
        self._shell = Commands(
            hub.session, hub.settings.job, Terminal(self._text, shows_secrets=True), self._lines
        )
        self._table: dict[str, Callable[[str], str]] = {
            "add": self._add,
            "drop": self._drop,
            "only": self._only,
            "sessions": lambda rest: hub.summary(),
            "continue": self._continue,
            "give": self._give,
            "lockstep": self._lockstep,
            "help": lambda rest: HELP,
        }

    def answer(self, client: Connection, request: Message, line: str, end: str = "") -> None:
        """Execute a line typed in an editor, in a new thread: it may take seconds."""

        def execute() -> None:
            try:
                said = self.execute(line)
            except RankdbgError as error:
                client.refuse(request, f"{error}{end}")
            else:
                client.respond(request, {"result": f"{said}{end}", "variablesReference": 0})

        threading.Thread(target=execute, daemon=True).start()

    def execute(self, line: str) -> str:
        """Execute a line. Raises RankdbgError."""
        line = line.strip()
        name, _, rest = line.partition(" ")
        name = {"c": "continue", "h": "help", "?": "help"}.get(name, name)
        if line.startswith("ranks("):
            return self._hub.choose(line)
        if name in _OF_THE_SHELL:
            return self._in_shell(f"{name} {rest}")
        if name in self._table:
            return self._table[name](rest.strip())
        known = ", ".join([*self._table, *_OF_THE_SHELL])
        hint = f"to evaluate it in the ranks: ask all {line}" if line else ""
        raise BadInput(f"unknown command {name!r}", f"commands: ranks(...), {known}", hint=hint)

    def complete(self, typed: str) -> Iterable[str]:
        if " " not in typed.strip():
            return [*self._table, *_OF_THE_SHELL, "ranks("]
        return ["all", "stopped", "on", "off", "ranks("]

    def _in_shell(self, line: str) -> str:
        with self._hub.asking():
            self._text.seek(0)
            self._text.truncate()
            self._lines.print_late()
            self._shell.execute(line)
            return self._text.getvalue().rstrip()

    # --- the set of sessions --------------------------------------------------------------------

    def _add(self, rest: str) -> str:
        return self._hub.add(_needed("add", rest))

    def _drop(self, rest: str) -> str:
        self._hub.drop(self._hub.of(_needed("drop", rest)))
        return self._hub.summary()

    def _only(self, rest: str) -> str:
        if rest != "stopped":
            raise BadInput(
                f"invalid argument {rest!r} of only: expected stopped",
                hint="only stopped   (or: ranks(tp=0))",
            )
        self._hub.drop([child for child in self._hub.children() if not child.is_stopped])
        return self._hub.summary()

    # --- moving ---------------------------------------------------------------------------------

    def _continue(self, rest: str) -> str:
        children = self._hub.of(rest) if rest else self._hub.children()
        moved = self._hub.continue_all(children)
        verb = "continues" if len(moved) == 1 else "continue"
        return f"{named(moved, self._hub.all_ranks)} {verb}" if moved else "no rank is stopped"

    def _give(self, rest: str) -> str:
        """The ranks stop again as soon as they execute a line."""
        children = self._hub.of(_needed("give", rest))
        ranks = [child.rank for child in children]
        self._hub.drop(children)
        with self._hub.asking():
            paused = PausedRanks(self._hub.session.pause(ranks), self._hub.all_ranks)
        shown = io.StringIO()
        print_pauses(Terminal(shown), paused)
        return shown.getvalue().rstrip() or "these ranks have no session"

    def _lockstep(self, rest: str) -> str:
        if rest not in ("", "on", "off"):
            raise BadInput(f"invalid argument {rest!r} of lockstep: expected on or off")
        self._hub.lockstep = rest == "on" if rest else not self._hub.lockstep
        return f"lockstep is {'on' if self._hub.lockstep else 'off'}"


def _needed(command: str, rest: str) -> str:
    if not rest:
        raise BadInput(f"no ranks given to {command}", hint=f"{command} 7")
    return rest


class _NoLines:
    """The shell commands have no prompt here."""

    interactive = False
    complete: Callable[[str], Iterable[str]]

    def __init__(self) -> None:
        self._late: list[Callable[[], None]] = []

    def show_late(self, report: Callable[[], None]) -> None:
        """With the answer to the next line: nothing can be added to one that was given."""
        self._late.append(report)

    def print_late(self) -> None:
        while self._late:
            self._late.pop(0)()

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def ask(self, prompt: str) -> str | None:
        return None
