"""The debug console of the parent's session: rankdbg's questions, and which ranks are open."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator

from rankdbg.errors import BadInput
from rankdbg.frontends.dap.announcing import named
from rankdbg.frontends.dap.hub import Hub
from rankdbg.frontends.reports.pauses import PauseReport
from rankdbg.frontends.shell.commands import Commands
from rankdbg.frontends.terminal import Terminal

HELP = """\
ranks(tp=0)             sessions for these ranks, and no others
add RANKS               a session for these too
drop RANKS              end their sessions; the ranks go on
only stopped            end the sessions of ranks that are not stopped
sessions                who has one, and who of them is stopped
continue [RANKS]        let stopped ranks go on, all or these
give RANKS              end their sessions and stop them for the shell (rankdbg shell)
lockstep [on|off]       continue and steps in one rank move all stopped ranks
ask RANKS EXPRESSION    a value from ranks, stopped or running
where [RANKS]           one merged tree of their stacks
list [RANKS]            who stands at a breakpoint() or an error, for the shell
cast RANKS COMMAND      a command to the pdb of those
why [RANKS]             who holds the others up, where, why

In the console of a rank, put rankdbg before it: rankdbg ask all loss"""

# What the shell's commands do is the same here.
_OF_THE_SHELL = ("ask", "cast", "where", "list", "why")


class Console:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._text = io.StringIO()
        self._shell = Commands(hub.session, hub.settings.job, Terminal(self._text), _NoLines())
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

    def execute(self, line: str) -> str:
        """What a line says. Raises RankdbgError."""
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
        hint = f"ask all {line}   asks the ranks" if line else ""
        raise BadInput(f"no command {name!r} here", f"there are: ranks(...), {known}", hint=hint)

    def complete(self, typed: str) -> Iterable[str]:
        if " " not in typed.strip():
            return [*self._table, *_OF_THE_SHELL, "ranks("]
        return ["all", "stopped", "on", "off", "ranks("]

    def _in_shell(self, line: str) -> str:
        with self._hub.asking():
            self._text.seek(0)
            self._text.truncate()
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
            raise BadInput(f"only what? not {rest!r}", hint="only stopped   (or: ranks(tp=0))")
        self._hub.drop([child for child in self._hub.children() if not child.is_stopped])
        return self._hub.summary()

    # --- moving ---------------------------------------------------------------------------------

    def _continue(self, rest: str) -> str:
        children = self._hub.of(rest) if rest else self._hub.children()
        moved = self._hub.continue_all(children)
        verb = "goes" if len(moved) == 1 else "go"
        return f"{named(moved, self._hub.everybody)} {verb} on" if moved else "no rank is stopped"

    def _give(self, rest: str) -> str:
        """They stop again as soon as they execute a line."""
        children = self._hub.of(_needed("give", rest))
        ranks = [child.rank for child in children]
        self._hub.drop(children)
        with self._hub.asking():
            report = PauseReport(self._hub.session.pause(ranks), self._hub.everybody)
        shown = io.StringIO()
        report.print(Terminal(shown))
        return shown.getvalue().rstrip() or "these ranks have no session"

    def _lockstep(self, rest: str) -> str:
        if rest not in ("", "on", "off"):
            raise BadInput(f"lockstep on or off, not {rest!r}")
        self._hub.lockstep = rest == "on" if rest else not self._hub.lockstep
        return f"lockstep is {'on' if self._hub.lockstep else 'off'}"


def _needed(command: str, rest: str) -> str:
    if not rest:
        raise BadInput(f"{command} which ranks?", hint=f"{command} 7")
    return rest


class _NoLines:
    """The shell's commands have no prompt here."""

    interactive = False
    complete: Callable[[str], Iterable[str]]

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def ask(self, prompt: str) -> str | None:
        return None
