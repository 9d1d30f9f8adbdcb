"""nan and inf in all ranks: which tensors have some now, and which rank had the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rankdbg.investigations.rank_labels import frame_json, label, named, silent_json
from rankdbg.investigations.results import (
    RankAnswers,
    rank_record,
    silent_records,
)
from rankdbg.selection import format_ranks
from rankdbg.session import Session
from rankdbg.types import Answer, Rank, Silence
from rankdbg.verdicts.nonfinite.first_values import (
    BadTensor,
    find_bad,
    first_of,
    origin_sentence,
)
from rankdbg.wire.nan_answers import NanArmed, NanFigures, NanFinding, NanReport

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

CATCH = "rankdbg run --stop-on-nan -- COMMAND"


@dataclass(frozen=True, repr=False)
class NanState(RankAnswers[NanReport]):
    """What is not finite now, and what armed ranks have found."""

    stopped: Sequence[Rank] = ()  # those that are still stopped where they found it

    @cached_property
    def ranks(self) -> list[Rank]:
        return [answer.rank for answer in self.answered]

    @cached_property
    def bad(self) -> list[BadTensor]:
        return find_bad(self.ranks, {a.rank.process: a.value for a in self.answered})

    @cached_property
    def innocent(self) -> list[BadTensor]:
        """Not finite, and no fault: masks in buffers, gradients under a loss scaler."""
        reports = {a.rank.process: a.value for a in self.answered}
        return find_bad(self.ranks, reports, faults=False)

    @cached_property
    def findings(self) -> list[tuple[Rank, NanFinding]]:
        """The first one first."""
        return first_of([(a.rank, a.value.found) for a in self.answered if a.value.found])

    @property
    def armed(self) -> list[Rank]:
        return [answer.rank for answer in self.answered if answer.value.armed]

    @property
    def without_gradients(self) -> list[Rank]:
        """Whose gradients could not be read, because a backward pass went on."""
        return [answer.rank for answer in self.answered if answer.value.lacks_gradients]

    @property
    def checked(self) -> int:
        """Tensors of a rank."""
        return max((answer.value.checked for answer in self.answered), default=0)

    @property
    def is_bad(self) -> bool:
        return bool(self.bad or self.findings)

    def when(self) -> str:
        steps = {answer.value.step for answer in self.answered}
        known = sorted(step for step in steps if step is not None)
        if not known:
            return "now"
        return f"at step {known[0]}" if len(steps) == 1 else f"at steps {known[0]}-{known[-1]}"

    def summary(self) -> str:
        who = named(self.ranks, self.all_ranks)
        if self.findings:
            return self._first()
        if not self.answered:
            return "No rank has answered."
        if not any(answer.value.models for answer in self.answered):
            return f"{who}: no model of torch was found."
        if not self.bad:
            return f"No nan and no inf: {self.checked} tensors of {who} {self.when()}."
        return self.count_sentence()

    def _first(self) -> str:
        rank, found = self.findings[0]
        step = f" at step {found.step}" if found.step is not None else ""
        part = found.which if found.phase == "forward" else "gradient"
        where = f"the {part} of {found.module}"
        return f"The first {found.kind} is in {named([rank], self.all_ranks)}{step}, in {where}"

    def count_sentence(self) -> str:
        odd = {rank.process: rank for each in self.bad for rank in each.ranks}
        who = named([rank for rank in self.ranks if rank.process in odd], self.all_ranks)
        count = f"{len(self.bad)} of {self.checked} tensors"
        return f"nan or inf in {count} {self.when()}, in {who}; the first is {self.bad[0].name}"

    def advice(self) -> str:
        """What to do next; empty if there is nothing."""
        if self.findings:
            return self._advice_at_a_stop()
        if not self.bad:
            return ""
        again = f"to stop at the first one next time: {CATCH}"
        return f"the first one is over, and was not caught; {again}"

    def _advice_at_a_stop(self) -> str:
        rank, found = self.findings[0]
        one = label([rank], self.all_ranks)
        held = any(each.process == rank.process for each in self.stopped)
        texts = []
        if held:
            texts.append(f"rankdbg shell, then attach {one}, looks at it")
            if not found.exact:
                texts.append("rankdbg run --stop-on-nan=exact stops in the module itself")
        if self.armed:
            armed = named(self.armed, self.all_ranks)
            texts.append(f"{armed}: still armed, and would stop too: rankdbg nan --disarm")
        if held:
            texts.append(f"rankdbg continue {one} resumes the rank")
        else:
            texts.append("it has continued since; rankdbg nan --arm waits for the next one")
        return "; ".join(texts)

    def as_json(self) -> dict[str, Any]:
        return {
            "ranks": format_ranks(self.ranks, self.all_ranks),
            "tensors": self.checked,
            "without_gradients": format_ranks(self.without_gradients, self.all_ranks)
            if self.without_gradients
            else "",
            "bad": [self._bad_json(each) for each in self.bad],
            "expected": [self._bad_json(each) for each in self.innocent],
            "first": self._finding_json(*self.findings[0]) if self.findings else None,
            "found": [self._finding_json(*each) for each in self.findings],
            "armed": format_ranks(self.armed, self.all_ranks) if self.armed else "",
            "steps": [
                {"rank": answer.rank.number, "step": answer.value.step} for answer in self.answered
            ],
            "next": self.advice(),
            "no_response": silent_json(self.no_response),
        }

    def _bad_json(self, bad: BadTensor) -> dict[str, Any]:
        return {
            "kind": bad.kind,
            "name": bad.name,
            "shape": [*bad.shape],
            "dtype": bad.dtype,
            "ranks": format_ranks(bad.ranks, self.all_ranks),
            "groups": [
                {"ranks": format_ranks(members, self.all_ranks), "nan": nan, "inf": inf}
                for (nan, inf), members in bad.groups
            ],
        }

    def _finding_json(self, rank: Rank, found: NanFinding) -> dict[str, Any]:
        return {
            "rank": format_ranks([rank], self.all_ranks),
            **asdict(found),
            "tensors": [_figures_json(each) for each in found.tensors],
            "where": frame_json(found.where),
            "text": origin_sentence(found),
            "stopped": any(each.process == rank.process for each in self.stopped),
        }

    def records(self) -> list[dict[str, Any]]:
        """One for each tensor of each rank that is not finite."""
        rows = [
            rank_record(rank, kind=each.kind, name=each.name, nan=nan, inf=inf)
            for each in self.bad
            for (nan, inf), members in each.groups
            for rank in members
            if nan or inf
        ]
        return [*rows, *silent_records(self.no_response)]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Table, TableRow

        rows = [
            TableRow(
                (each.name, named(members, self.all_ranks), counts_text(nan, inf)),
                "not finite" if nan or inf else "",
            )
            for each in self.bad
            for (nan, inf), members in each.groups
        ]
        return [Table(("tensor", "ranks", "values"), rows)]


def _figures_json(tensor: NanFigures) -> dict[str, Any]:
    known = asdict(tensor)
    figures = known.pop("figures")
    return {**known, **figures}


def counts_text(nan: int, inf: int) -> str:
    texts = [f"{count} {name}" for name, count in (("nan", nan), ("inf", inf)) if count]
    return ", ".join(texts) or "finite"


@dataclass(frozen=True, repr=False)
class NanArming(RankAnswers[NanArmed]):
    """Which ranks stop at their first value that is not finite, from now on or no more."""

    def groups(self) -> list[tuple[str, list[Rank]]]:
        """Equal answers, with their ranks."""
        found: dict[str, list[Rank]] = {}
        for answer in self.answered:
            found.setdefault(_armed_text(answer.value), []).append(answer.rank)
        return [*found.items()]

    @property
    def good(self) -> bool:
        return bool(self.answered) and not any(answer.value.why for answer in self.answered)

    def summary(self) -> str:
        texts = [f"{named(ranks, self.all_ranks)}: {text}" for text, ranks in self.groups()]
        return "; ".join(texts) or "No rank has answered."

    def as_json(self) -> dict[str, Any]:
        groups = [
            {"ranks": format_ranks(ranks, self.all_ranks), "text": text}
            for text, ranks in self.groups()
        ]
        armed = [answer.rank for answer in self.answered if answer.value.armed]
        return {
            "armed": format_ranks(armed, self.all_ranks) if armed else "",
            "groups": groups,
            "no_response": silent_json(self.no_response),
        }

    def records(self) -> list[dict[str, Any]]:
        rows = [
            rank_record(answer.rank, armed=answer.value.armed, why=answer.value.why)
            for answer in self.answered
        ]
        return [*rows, *silent_records(self.no_response)]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Table, TableRow

        rows = [TableRow((named(ranks, self.all_ranks), text)) for text, ranks in self.groups()]
        return [Table(("ranks", "state"), rows)]


def _armed_text(value: NanArmed) -> str:
    if value.why:
        return f"not armed: {value.why}"
    if value.armed:
        return "armed already" if value.was else "armed: stops at its first nan"
    return "disarmed" if value.was else "was not armed"


def read(session: Session, ranks: Sequence[Rank], all_ranks: Sequence[Rank]) -> NanState:
    replies = session.nan(ranks)
    found = [r.rank for r in replies if isinstance(r, Answer) and r.value.found]
    stopped: list[Rank] = []
    for reply in session.stops(found) if found else ():
        if not isinstance(reply, Silence) and any(s.kind == "nan" for s in reply.value.stops):
            stopped.append(reply.rank)
    return NanState(replies, all_ranks, stopped)


def arm(
    session: Session,
    ranks: Sequence[Rank],
    all_ranks: Sequence[Rank],
    on: bool = True,
    exact: bool = False,
) -> NanArming:
    return NanArming(session.arm_nan(ranks, on, exact), all_ranks)
