"""What can be typed at the shell's prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rankdbg import selection
from rankdbg.errors import BadInput, RankdbgError
from rankdbg.frontends.breaking import clear_breaks, set_break
from rankdbg.frontends.cli import break_
from rankdbg.frontends.cli.ask import check_expression
from rankdbg.frontends.cli.cast import check_command
from rankdbg.frontends.reports.answers import AnswerReport
from rankdbg.frontends.reports.breaks import BreakList, BreakReport, ClearReport
from rankdbg.frontends.reports.casts import CastReport
from rankdbg.frontends.reports.pauses import PauseReport
from rankdbg.frontends.reports.sources import Sources
from rankdbg.frontends.reports.stacks import StackReport
from rankdbg.frontends.reports.stops import StopReport
from rankdbg.frontends.shell.arrivals import Arrivals
from rankdbg.frontends.shell.attach import Attached
from rankdbg.frontends.shell.typing import Lines
from rankdbg.frontends.terminal import Terminal
from rankdbg.session import Session
from rankdbg.types import Rank

# So long a command waits for its ranks; those who need longer are shown when they arrive.
CAST_SECONDS = 2.0
SHORT = {"l": "list", "a": "attach", "c": "continue", "q": "quit", "h": "help", "?": "help"}

HELP = """\
list [RANKS]            which ranks are stopped, where and why
attach RANK             pdb on one rank; detach, Ctrl-D or Ctrl-C leaves it as it is
cast RANKS COMMAND      one pdb command to many ranks; equal outputs once
continue [RANKS]        let stopped ranks go on
pause RANKS             stop running ranks where they are
break FILE:LINE [if CONDITION] [log "x={x}"] [ranks(tp=0)]
                        stop, or log, at a line of a running job; alone: those that are set
clear [FILE:LINE] [ranks(tp=0)]     take this break away, or all
ask RANKS EXPRESSION    a value from ranks, stopped or running
where [RANKS]           one merged tree of their stacks
why                     who holds the others up, where, why
quit                    leave; the stops stay
short: l a c q h        ranks: all  3  0-6,9  tp=0  ranks(pp=2, dp=(1,3))"""


class Commands:
    def __init__(self, session: Session, job: str | None, terminal: Terminal, lines: Lines) -> None:
        self._session = session
        self._job = job
        self._terminal = terminal
        self._lines = lines
        self._sources = Sources(session)
        self._arrivals = Arrivals(self._sources, terminal)
        self._table: dict[str, Callable[[str], None]] = {
            "list": self._list,
            "attach": self._attach,
            "cast": self._cast,
            "continue": self._continue,
            "pause": self._pause,
            "break": self._break,
            "clear": self._clear,
            "ask": self._ask,
            "where": self._where,
            "why": self._why,
            "help": self._help,
        }
        lines.complete = self.complete

    def greet(self) -> None:
        """Open on what is stopped."""
        everybody = self._everybody()
        report = StopReport(self._sources.stops(everybody), everybody)
        self._sources.tell(everybody)
        count = len(report.stops)
        self._terminal.print(
            f"{count} stop{'s' * (count != 1)} in {len(everybody)} ranks.  help for help."
        )
        if count:
            report.print(self._terminal)

    def execute(self, line: str) -> bool:
        """Do what the line says; False if it says to leave."""
        name, _, rest = line.strip().partition(" ")
        name = SHORT.get(name, name)
        if not name:
            return True
        if name in ("quit", "exit"):
            return False
        if name == "detach":
            self._terminal.print("not attached to a rank")
            return True
        command = self._table.get(name)
        if command is None:
            raise BadInput(f"no command {name!r}", f"commands: {', '.join(self._table)}, quit")
        command(rest.strip())
        return True

    def close(self) -> None:
        self._arrivals.close(0.0 if self._lines.interactive else self._session.timeout)

    def complete(self, text: str) -> Iterable[str]:
        name, blank, rest = text.lstrip().partition(" ")
        if not blank:
            return [*self._table, "quit"]
        if name in ("break", "clear"):
            return self._complete_break(name, rest)
        if " " in rest.strip() or SHORT.get(name, name) not in self._table:
            return ()
        try:
            ranks = self._everybody()
        except RankdbgError:
            return ()
        dimensions = sorted({f"{key}=" for rank in ranks for key in rank.coordinates})
        return ["all", "ranks(", *dimensions, *(str(r.number) for r in ranks)]

    def _complete_break(self, name: str, rest: str) -> Iterable[str]:
        """The places of the breaks there are; after one, what may follow it."""
        try:
            ranks = self._everybody()
            if " " in rest:
                dimensions = sorted({key for rank in ranks for key in rank.coordinates})
                words = ["if", "log"] if name == "break" and " " not in rest.strip() else []
                return [*words, "ranks(", *(f"ranks({dimension}=" for dimension in dimensions)]
            answers = self._session.breaks(ranks)
        except RankdbgError:
            return ()
        return [*break_.places(answers), "ranks("]

    # --- the commands -------------------------------------------------------------------

    def _everybody(self) -> list[Rank]:
        return self._session.job(self._job)

    def _chosen(self, text: str) -> tuple[list[Rank], list[Rank]]:
        everybody = self._everybody()
        return selection.pick(selection.parse(text or "all"), everybody), everybody

    def _list(self, rest: str) -> None:
        ranks, everybody = self._chosen(rest)
        report = StopReport(self._sources.stops(ranks), everybody)
        self._sources.tell(everybody)
        report.print(self._terminal)

    def _attach(self, rest: str) -> None:
        if not rest:
            raise BadInput("attach to which rank?", hint="attach 3")
        ranks, everybody = self._chosen(rest)
        if len(ranks) != 1:
            which = selection.format_ranks(ranks, everybody)
            raise BadInput(f"attach takes one rank, not {which}", hint=f"cast {rest} COMMAND")
        self._arrivals.forget(ranks)
        attached = Attached(self._session, self._sources, ranks[0], self._terminal, self._lines)
        attached.converse()

    def _cast(self, rest: str) -> None:
        where, command = split_selection(rest)
        if not command:
            raise BadInput("cast what?", hint="cast ranks(:) p loss")
        self._send(where, check_command(command, yes=False))

    def _continue(self, rest: str) -> None:
        self._send(rest, "continue\n")

    def _send(self, where: str, line: str | None) -> None:
        ranks, everybody = self._chosen(where)
        self._arrivals.forget(ranks)
        report = CastReport(self._sources.command(ranks, line, CAST_SECONDS), everybody)
        self._sources.tell(everybody)
        report.print(self._terminal)
        self._arrivals.expect([answer.rank for answer in report.running], everybody)

    def _pause(self, rest: str) -> None:
        if not rest:
            raise BadInput("pause which ranks?", hint="pause all")
        ranks, everybody = self._chosen(rest)
        PauseReport(self._session.pause(ranks), everybody).print(self._terminal)

    def _break(self, rest: str) -> None:
        place, chosen = break_.parse([rest])
        ranks, everybody = self._chosen(chosen)
        if place is None:
            BreakList(self._session.breaks(ranks), everybody).print(self._terminal)
            return
        answers = set_break(self._session, ranks, *place)
        BreakReport(answers, everybody, place).print(self._terminal)

    def _clear(self, rest: str) -> None:
        place, chosen = break_.parse([rest])
        ranks, everybody = self._chosen(chosen)
        file, line = place[:2] if place else (None, None)
        answers = clear_breaks(self._session, ranks, file, line)
        ClearReport(answers, everybody).print(self._terminal)

    def _ask(self, rest: str) -> None:
        where, expression = split_selection(rest)
        if not expression:
            raise BadInput("ask what?", hint="ask all loss")
        check_expression(expression)
        ranks, everybody = self._chosen(where)
        report = AnswerReport(self._session.evaluate(ranks, expression), everybody)
        report.print(self._terminal, every_value=False)

    def _where(self, rest: str) -> None:
        ranks, everybody = self._chosen(rest)
        seen, silent = self._session.stacks(ranks)
        StackReport(seen, silent, everybody).print(self._terminal, full=False, with_locals=False)

    def _why(self, rest: str) -> None:
        from rankdbg.frontends.looking import Looking, find_verdict
        from rankdbg.frontends.reports.verdicts import VerdictReport
        from rankdbg.verdicts.hang_rules import load_hang_rules

        ranks, everybody = self._chosen(rest)
        looking = Looking(self._session, ranks, everybody)
        verdict, evidence = find_verdict(looking, load_hang_rules())
        VerdictReport(verdict, evidence, everybody).print(self._terminal)

    def _help(self, rest: str) -> None:
        for line in HELP.splitlines():
            self._terminal.print(line)


def split_selection(text: str) -> tuple[str, str]:
    """`ranks(tp=0, dp=1) p x` -> the selection and the rest. Blanks inside brackets are the
    selection's own."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == " " and depth <= 0:
            return text[:place], text[place + 1 :].strip()
    return text, ""
