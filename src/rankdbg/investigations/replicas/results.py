"""What was found about replicas, as text, JSON and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.replicas import computation_words, words
from rankdbg.investigations.replicas.findings import (
    Computation,
    Figures,
    FirstDifference,
    KeptSteps,
    Magnitudes,
    Sinces,
)
from rankdbg.investigations.results import Result
from rankdbg.selection import format_ranks
from rankdbg.types import Rank, Silence
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.verdicts.replicas.kept_steps import FirstDifferingStep
from rankdbg.verdicts.replicas.magnitudes import Magnitude
from rankdbg.verdicts.replicas.odd_modules import OddModule
from rankdbg.verdicts.replicas.odd_operators import OddOperator
from rankdbg.verdicts.replicas.random_states import RandomNote
from rankdbg.wire.tensor_figures import TensorFigures

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

KINDS = ("parameter", "buffer")
ALL_KINDS = ("parameter", "buffer", "gradient", "optimizer", "random")


@dataclass(frozen=True, repr=False)
class Replicas(Result):
    """`step`: at which all were hashed; None: at once, while the program may have changed them.
    `all_ranks`: all ranks of the job, among which ranks are named. `resynced`: buffers that were not
    compared, because DDP overwrites them before each forward pass; `undecided`: biases that were not
    compared along tp, because they may be parts of a layer that is split there."""

    ranks: Sequence[Rank]
    all_ranks: Sequence[Rank]
    differences: Sequence[Difference]
    step: int | None
    tensors: int = 0
    bytes: int = 0  # in one rank
    seconds: float = 0.0  # of the slowest rank
    figures: Figures = field(default_factory=dict)
    magnitudes: Magnitudes = field(default_factory=dict)
    sinces: Sinces = field(default_factory=dict)
    keeping: KeptSteps = field(default_factory=KeptSteps)
    random: Sequence[RandomNote] = ()
    resynced: int = 0
    undecided: int = 0
    first: FirstDifference | None = None
    without: Sequence[Silence] = ()

    @property
    def is_faulty(self) -> bool:
        """Whether something differs by more than rounding, or a rank is suspected to compute wrongly."""
        computation = self.first.computation if self.first else None
        suspected = computation is not None and computation.suspect is not None
        return suspected or any(not self.is_rounding(each) for each in self.differences)

    def is_rounding(self, difference: Difference) -> bool:
        """Whether rounding explains all of it."""
        found = [self.magnitude_of(difference, group) for group in difference.groups[1:]]
        return all(each is not None and each.is_rounding for each in found)

    def magnitude_of(self, difference: Difference, group: Sequence[Rank]) -> Magnitude | None:
        """How far a group is from the largest one."""
        return self.magnitudes.get((group[0].process, difference.kind, difference.name))

    def since_of(self, difference: Difference) -> FirstDifferingStep | None:
        return self.sinces.get(difference.place)

    def summary(self) -> str:
        who = named(self.ranks, self.all_ranks)
        when = f"at step {self.step}" if self.step is not None else "now, while they may change"
        if not self.tensors:
            return f"{who}: no model of torch was found."
        if not self.differences:
            return f"No difference: {self.tensors} tensors of {who} {when}."
        first = self.differences[0]
        odd = f": {named(first.odd, self.all_ranks)}" if first.has_majority else ""
        count = len(self.differences)
        within = "" if self.is_faulty else " within rounding"
        return f"{count} of {self.tensors} tensors differ{within} {when}; the first is {first.name}{odd}"

    def figures_of(self, difference: Difference, group: Sequence[Rank]) -> TensorFigures | None:
        found = self.figures.get((group[0].process, difference.kind, difference.name))
        return found.figures if found else None

    def as_json(self) -> dict[str, Any]:
        return {
            "ranks": format_ranks(self.ranks, self.all_ranks),
            "step": self.step,
            "tensors": self.tensors,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "differences": [self._difference_json(each) for each in self.differences],
            "every": self.keeping.every,
            "kept": [*self.keeping.steps] if self.keeping.steps else None,
            "random": [self._random_json(each) for each in self.random],
            "resynced": self.resynced,
            "undecided": self.undecided,
            **({"first": self._first_json(self.first)} if self.first else {}),
            "no_response": [
                {"rank": each.rank.number, "reason": each.reason} for each in self.without
            ],
        }

    def _difference_json(self, difference: Difference) -> dict[str, Any]:
        since = self.since_of(difference)
        return {
            **self._tensor_json(difference),
            "shape": [*difference.shape],
            "dtype": difference.dtype,
            "along": [*difference.along],
            "within_rounding": self.is_rounding(difference),
            "since": _since_json(since),
            "groups": [self._group_json(difference, group) for group in difference.groups],
        }

    def _group_json(self, difference: Difference, group: Sequence[Rank]) -> dict[str, Any]:
        of_group = self.figures_of(difference, group)
        figures = asdict(of_group) if of_group else {}
        found = self.magnitude_of(difference, group)
        measured = ("max_difference", "within_rounding", "not_finite", "partial")
        apart = {name: getattr(found, name) for name in measured} if found else {}
        return {"ranks": format_ranks(group, self.all_ranks), **figures, **apart}

    def _tensor_json(self, difference: Difference) -> dict[str, Any]:
        odd = format_ranks(difference.odd, self.all_ranks) if difference.has_majority else ""
        return {"kind": difference.kind, "name": difference.name, "odd": odd}

    def _random_json(self, note: RandomNote) -> dict[str, Any]:
        return {
            "generator": note.generator,
            "dimension": note.dimension,
            "equal": note.equal,
            "ranks": format_ranks(note.ranks, self.all_ranks),
            "text": words.random_text(note, self.all_ranks),
        }

    def _first_json(self, first: FirstDifference) -> dict[str, Any]:
        return {
            "since": _since_json(first.since),
            "tensors": [self._tensor_json(each) for each in first.differences],
            "causes": [
                {
                    "kind": each.kind,
                    "name": each.name,
                    "ranks": format_ranks(each.ranks, self.all_ranks),
                    "text": words.cause_text(each, self.all_ranks),
                }
                for each in first.causes
            ],
            "modules": self._modules_json(first.computation),
            "operator": self._operator_json(first.computation),
        }

    def _modules_json(self, found: Computation | None) -> dict[str, Any]:
        text = {"text": computation_words.modules_text(found, self.all_ranks)}
        if found is None:
            return text
        odd = found.modules.first
        return {
            **text,
            "step": found.step,
            "calls": found.modules.calls,
            "compared": found.modules.compared,
            "module": odd.module if odd else None,
            "phase": odd.phase if odd else None,
            "odd": self._odd(odd),
            "again": found.again,
            "data": [
                {
                    "module": each.module,
                    "odd": format_ranks(each.odd, self.all_ranks),
                    "text": computation_words.data_text(each, self.all_ranks),
                }
                for each in found.data
            ],
        }

    def _operator_json(self, found: Computation | None) -> dict[str, Any] | None:
        if found is None or found.operators is None:
            return None
        odd, suspect = found.operators.first, found.suspect
        return {
            "text": computation_words.operator_text(found, self.all_ranks),
            "seen": found.operators.seen,
            "name": odd.name if odd else None,
            "differs": odd.kind if odd else None,
            "odd": self._odd(odd),
            "repeats": odd.repeats if odd else None,
            "corrupt": format_ranks([suspect], self.all_ranks) if suspect else "",
        }

    def _odd(self, found: OddModule | OddOperator | None) -> str:
        """Empty without a majority."""
        return format_ranks(found.odd, self.all_ranks) if found and found.has_majority else ""

    def records(self) -> list[dict[str, Any]]:
        """One for each group of equal ranks of each tensor that differs."""
        return [
            {"kind": each.kind, "name": each.name, **self._group_json(each, group)}
            for each in self.differences
            for group in each.groups
        ]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Table, TableRow

        rows = [
            TableRow(
                (each.name, named(group, self.all_ranks), self._apart(each, group)),
                "differs" if each.has_majority and group != each.groups[0] else "",
            )
            for each in self.differences
            for group in each.groups
        ]
        return [Table(("tensor", "ranks", "max |Δ|"), rows)]

    def _apart(self, difference: Difference, group: Sequence[Rank]) -> str:
        found = self.magnitude_of(difference, group)
        if found is None or found.max_difference is None:
            return ""
        rounding = ", within rounding" if found.within_rounding else ""
        return f"{found.max_difference:.3g}{rounding}"


def _since_json(since: FirstDifferingStep | None) -> dict[str, Any] | None:
    if since is None:
        return None
    return {"step": since.step, "equal_at": since.equal_at, "at_least": since.at_least}
