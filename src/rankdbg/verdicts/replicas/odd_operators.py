"""Operators of one module in all ranks -> the first that differs, and in what.

All ranks run the same operators one after the other, until something differs:

    operator    another operator: the program takes another path
    arguments   numbers, sizes or types that it is called with
    inputs      a tensor that is none of the module's inputs, parameters and buffers
    outputs     inputs are equal bit for bit and outputs are not

Outputs of operators that draw random numbers or call other ranks may differ; what comes after them is
not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.odd_modules import odd_ranks
from rankdbg.wire.replica_answers import OperatorCall

Kind = Literal["operator", "arguments", "inputs", "outputs"]
NONE = "no operator"


@dataclass(frozen=True)
class OddOperator:
    """`odd`: the ranks that differ from most; all of `ranks` if there is no majority. `values`: what
    most have, and what the odd ones have. `repeats`: of `outputs`, whether each rank makes the same
    again when it repeats the operator; None: it was not repeated."""

    kind: Kind
    name: str
    phase: str
    ranks: tuple[Rank, ...]
    odd: tuple[Rank, ...]
    values: tuple[str, ...] = ()
    repeats: bool | None = None

    @property
    def has_majority(self) -> bool:
        return len(self.odd) < len(self.ranks)


@dataclass(frozen=True)
class OperatorPass:
    """`seen`: how many operators the rank with most of them has run."""

    seen: int
    first: OddOperator | None


def find_odd_operator(
    ranks: Sequence[Rank], operators: Mapping[ProcessKey, Sequence[OperatorCall]]
) -> OperatorPass:
    """`ranks`: those whose module had equal inputs and parameters."""
    lists = [(rank, operators.get(rank.process, ())) for rank in ranks]
    seen = max((len(some) for _, some in lists), default=0)
    may_differ = False  # tensors, from now on
    for number in range(seen):
        members = [
            (rank, some[number] if number < len(some) else OperatorCall(NONE))
            for rank, some in lists
        ]
        found = _look(members)
        if found is None or (may_differ and found.kind == "inputs"):
            continue
        if found.kind == "outputs" and any(each.free for _, each in members):
            may_differ = True
        elif may_differ and found.kind != "outputs":
            break  # it may depend on these tensors
        else:
            return OperatorPass(seen, found)
    return OperatorPass(seen, None)


_Members = Sequence[tuple[Rank, OperatorCall]]


def _look(members: _Members) -> OddOperator | None:
    """The first in which they differ."""
    values: dict[Kind, list[tuple[Rank, str]]] = {
        "operator": [(rank, each.name) for rank, each in members],
        "arguments": [(rank, each.arguments) for rank, each in members],
        "inputs": [(rank, each.inputs) for rank, each in members],
        "outputs": [(rank, each.outputs) for rank, each in members],
    }
    for kind, of_ranks in values.items():
        if odd := odd_ranks(of_ranks):
            call, ranks = members[0][1], tuple(rank for rank, _ in members)
            told = _values(of_ranks, odd) if kind in ("operator", "arguments") else ()
            repeats = _repeats(members) if kind == "outputs" else None
            return OddOperator(kind, call.name, call.phase, ranks, odd, told, repeats)
    return None


def _values(of_ranks: Sequence[tuple[Rank, str]], odd: Sequence[Rank]) -> tuple[str, ...]:
    usual = Counter(value for _, value in of_ranks).most_common(1)[0][0]
    others = {value: None for rank, value in of_ranks if rank in odd and value != usual}
    return usual, *others


def _repeats(members: _Members) -> bool | None:
    if not all(each.repeated for _, each in members):
        return None
    return all(each.repeated == each.outputs for _, each in members)
