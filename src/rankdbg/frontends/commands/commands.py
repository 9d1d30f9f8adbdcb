"""What can be typed at the shell's prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rankdbg import selection
from rankdbg.errors import BadInput, RankdbgError
from rankdbg.frontends.commands.arrivals import Arrivals
from rankdbg.frontends.commands.attach import Attached
from rankdbg.frontends.commands.lines import InputLines
from rankdbg.frontends.reports.answers import print_answers
from rankdbg.frontends.reports.breaks import print_breaks
from rankdbg.frontends.reports.casts import print_cast
from rankdbg.frontends.reports.sources import warn_of_differences
from rankdbg.frontends.reports.stacks import print_stacks
from rankdbg.frontends.reports.stops import print_pauses, print_stops
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.answers import Answers
from rankdbg.investigations.expressions import check_expression
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.investigations.stops import break_places
from rankdbg.investigations.stops.break_answers import BreakList, BreaksCleared, BreakSet
from rankdbg.investigations.stops.breaks import clear_breaks, set_break
from rankdbg.investigations.stops.casts import CastOutputs
from rankdbg.investigations.stops.debugger_commands import check_command
from rankdbg.investigations.stops.stop_addresses import StopAddress, command, parse_address
from rankdbg.investigations.stops.stop_sources import Sources
from rankdbg.investigations.stops.stopped_ranks import PausedRanks, RankStops
from rankdbg.session import Session
from rankdbg.text.amounts import counted
from rankdbg.types import Rank

# How long a command waits for its ranks; later answers are shown when they arrive.
CAST_SECONDS = 2.0
SHORT = {"l": "list", "a": "attach", "c": "continue", "q": "quit", "h": "help", "?": "help"}

HELP = """\
list [RANKS]            which ranks are stopped, where and why
attach RANK             pdb on one rank; detach, Ctrl-D or Ctrl-C leaves it as it is
cast RANKS COMMAND      send a pdb command to many ranks; equal outputs once
continue [RANKS]        let stopped ranks continue
pause RANKS             stop running ranks where they are
break FILE:LINE [if CONDITION] [log "x={x}"] [ranks(tp=0)]
                        stop or log at a line; without arguments: list the breaks
clear [FILE:LINE] [ranks(tp=0)]     remove this break, or all
ask RANKS EXPRESSION    evaluate an expression in ranks, stopped or running
where [RANKS]           their stacks, merged into one tree
why                     which rank holds the others up, where and why
quit                    leave the shell; stopped ranks stay stopped
short: l a c q h        ranks: all  3  0-6,9  tp=0  Rollout 0-3  ranks(pp=2, dp=(1,3))
                        one thread or actor of a rank: thread=trainer"""


class Commands:
    def __init__(
        self, session: Session, job: str | None, terminal: Terminal, lines: InputLines
    ) -> None:
        self._session = session
        self._job = job
        self._terminal = terminal
        self._lines = lines
        self._sources = Sources(session)
        self._arrivals = Arrivals(self._sources, terminal, lines)
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
        self._skips_to_detach = False
        self._was_released = False  # the rank that a script was attached to, by itself

    def greet(self) -> None:
        """List the stopped ranks."""
        all_ranks, answers = self._sources.job_with_stops(self._job)
        found = RankStops(answers, all_ranks)
        self._warn(all_ranks)
        count = len(found.stops)
        self._terminal.print(
            f"{counted(count, 'stop')} in {counted(len(all_ranks), 'rank')}.  Type help for help."
        )
        if count:
            print_stops(self._terminal, found)

    def _warn(self, all_ranks: list[Rank]) -> None:
        warn_of_differences(self._sources.take_differences(), all_ranks)

    def execute(self, line: str) -> bool:
        """Execute a line; False if it is quit."""
        name, _, rest = line.strip().partition(" ")
        name = SHORT.get(name, name)
        if not name:
            return True
        if self._skips_to_detach:
            self._skips_to_detach = name != "detach"
            return True
        if name == "detach":
            self._terminal.print("not attached to a rank")
            return True
        if name in ("quit", "exit"):
            return False
        self._session.forget()  # a shell that is open for days would keep all answers
        command = self._table.get(name)
        if command is None:
            raise BadInput(f"unknown command {name!r}", f"commands: {', '.join(self._table)}, quit")
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
            ranks = self._all_ranks()
        except RankdbgError:
            return ()
        dimensions = sorted({f"{key}=" for rank in ranks for key in rank.coordinates})
        roles = sorted({selection.glob(rank.role) for rank in ranks if rank.role})
        numbers = [str(rank.number) for rank in ranks if rank.number is not None]
        return ["all", "ranks(", *dimensions, *roles, *numbers]

    def _complete_break(self, name: str, rest: str) -> Iterable[str]:
        """The places of the breaks there are; after one, what may follow it."""
        try:
            ranks = self._all_ranks()
            if " " in rest:
                dimensions = sorted({key for rank in ranks for key in rank.coordinates})
                words = ["if", "log"] if name == "break" and " " not in rest.strip() else []
                return [*words, "ranks(", *(f"ranks({dimension}=" for dimension in dimensions)]
            answers = self._session.breaks(ranks)
        except RankdbgError:
            return ()
        return [*break_places.places(answers), "ranks("]

    # --- the commands -------------------------------------------------------------------

    def _all_ranks(self) -> list[Rank]:
        return self._session.job(self._job)

    def _chosen(self, text: str) -> tuple[list[Rank], list[Rank]]:
        all_ranks = self._all_ranks()
        return selection.pick(selection.parse(text or "all"), all_ranks), all_ranks

    def _addressed(self, text: str) -> tuple[StopAddress, list[Rank], list[Rank]]:
        address = parse_address(text or "all")
        all_ranks = self._all_ranks()
        return address, selection.pick(address.ranks, all_ranks), all_ranks

    def _list(self, rest: str) -> None:
        if rest:
            ranks, all_ranks = self._chosen(rest)
            answers = self._sources.stops(ranks)
        else:
            all_ranks, answers = self._sources.job_with_stops(self._job)
        self._warn(all_ranks)
        print_stops(self._terminal, RankStops(answers, all_ranks))

    def _attach(self, rest: str) -> None:
        # The lines that follow in a script are for that rank: `c` must not continue all ranks.
        self._skips_to_detach = not self._lines.interactive
        if not rest:
            raise BadInput("no rank given", hint="attach 3")
        address, ranks, all_ranks = self._addressed(rest)
        if len(ranks) != 1:
            which = selection.format_ranks(ranks, all_ranks)
            raise BadInput(f"attach takes one rank, not {which}", hint=f"cast {rest} COMMAND")
        self._arrivals.forget(ranks)
        attached = Attached(
            self._session, self._sources, address, ranks[0], all_ranks, self._terminal, self._lines
        )
        outcome = attached.converse()
        if outcome == "failed" and self._skips_to_detach:
            raise BadInput(
                f"attach {rest} failed: the lines that follow it, up to detach, are skipped"
            )
        self._skips_to_detach = False
        self._was_released = outcome == "ended" and not self._lines.interactive

    def _cast(self, rest: str) -> None:
        where, command = split_selection(rest)
        if not command:
            raise BadInput("no command given", hint="cast ranks(:) p loss")
        self._send(where, check_command(command, yes=False))

    def _continue(self, rest: str) -> None:
        if not rest and self._was_released:
            raise BadInput(
                "the attached rank is already running; continue would continue all other ranks",
                hint="to do that: continue all",
            )
        self._send(rest, "continue\n")

    def _send(self, where: str, line: str | None) -> None:
        address, ranks, all_ranks = self._addressed(where)
        self._arrivals.forget(ranks)
        answers = command(self._sources, address, ranks, all_ranks, line, CAST_SECONDS)
        outputs = CastOutputs(answers, all_ranks)
        self._warn(all_ranks)
        print_cast(self._terminal, outputs)
        running = [answer.rank for answer in outputs.running]
        self._arrivals.expect(running, all_ranks, address.threads or address.actors)

    def _pause(self, rest: str) -> None:
        if not rest:
            raise BadInput("no ranks given", hint="pause all")
        ranks, all_ranks = self._chosen(rest)
        print_pauses(self._terminal, PausedRanks(self._session.pause(ranks), all_ranks))

    def _break(self, rest: str) -> None:
        place, chosen = break_places.parse([rest])
        ranks, all_ranks = self._chosen(chosen)
        if place is None:
            print_breaks(self._terminal, BreakList(self._session.breaks(ranks), all_ranks))
            return
        answers = set_break(self._session, ranks, *place)
        print_breaks(self._terminal, BreakSet(answers, all_ranks, place))

    def _clear(self, rest: str) -> None:
        place, chosen = break_places.parse([rest])
        ranks, all_ranks = self._chosen(chosen)
        file, line = place[:2] if place else (None, None)
        answers = clear_breaks(self._session, ranks, file, line)
        print_breaks(self._terminal, BreaksCleared(answers, all_ranks))

    def _ask(self, rest: str) -> None:
        where, expression = split_selection(rest)
        if not expression:
            raise BadInput("no expression given", hint="ask all loss")
        check_expression(expression)
        ranks, all_ranks = self._chosen(where)
        answers = self._session.evaluate(ranks, expression)
        print_answers(self._terminal, Answers(answers, all_ranks, expression))

    def _where(self, rest: str) -> None:
        ranks, all_ranks = self._chosen(rest)
        seen, silent = self._session.stacks(ranks)
        print_stacks(self._terminal, MergedStacks(seen, silent, all_ranks))

    def _why(self, rest: str) -> None:
        from rankdbg.frontends.reports.verdicts import print_verdict
        from rankdbg.investigations.hangs.further_looks import judge_ranks
        from rankdbg.verdicts.hangs.hang_rules import load_hang_rules

        ranks, all_ranks = self._chosen(rest)
        found = judge_ranks(self._session, ranks, all_ranks, load_hang_rules(), kernels=True)
        print_verdict(self._terminal, found)

    def _help(self, rest: str) -> None:
        for line in HELP.splitlines():
            self._terminal.print(line)


def split_selection(text: str) -> tuple[str, str]:
    """`ranks(tp=0, dp=1) p x` -> the selection and the rest. Spaces inside brackets and quotes,
    beside commas, and between a role and its numbers belong to the selection."""
    depth, quote = 0, ""
    for place, letter in enumerate(text):
        if quote or letter in "'\"":
            quote = "" if letter == quote else quote or letter
            continue
        depth += (letter == "(") - (letter == ")")
        if letter == " " and depth <= 0 and not _goes_on(text[:place], text[place + 1 :].lstrip()):
            return text[:place], text[place + 1 :].strip()
    return text, ""


def _goes_on(before: str, after: str) -> bool:
    """Whether a selection does, over the space between these: `driver, Rollout 0-3`."""
    before = before.rstrip()
    if before.endswith((",", ";")) or after.startswith((",", ";")):
        return True
    item = re.split("[,;]", before)[-1].strip()
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "quoted", item)
    is_role = bare not in ("", "all", "*") and not re.search(r"[=()]|^[\d:-]| ", bare)
    return is_role and re.match(r"\d[\d:,-]*(\s|,|;|$)", after) is not None
