"""How far differing tensors are apart, without sending them: hashes of their blocks first, then the
values of blocks that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankdbg.investigations.replicas.common_steps import CommonSteps
from rankdbg.investigations.replicas.findings import Figures, Magnitudes
from rankdbg.session import Session
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.verdicts.replicas.magnitudes import (
    Magnitude,
    differing_blocks,
    measure,
    read_values,
    spread,
)
from rankdbg.wire.replica_answers import ReplicaBlocks, TensorBlocks

# Differing tensors that are looked into, and groups of equal ranks of each.
MOST_TENSORS, MOST_GROUPS = 50, 16
# Bytes of values of one tensor (an agent sends no more), and of all.
MOST_OF_ONE, MOST_OF_ALL = 256 * 1024, 4 << 20

_Key = tuple[str, str]
_Pair = tuple[Difference, Rank, Rank]


def measure_differences(
    session: Session, steps: CommonSteps, differences: Sequence[Difference]
) -> tuple[Figures, Magnitudes]:
    """Of one rank of each group of equal ones: figures, and how far it is from the largest group."""
    shown = differences[:MOST_TENSORS]
    if not shown:
        return {}, {}
    firsts = [(each, [group[0] for group in each.groups[:MOST_GROUPS]]) for each in shown]
    ranks = [*{rank.process: rank for _, some in firsts for rank in some}.values()]
    keys = [*{each.key: None for each in shown}]
    found = steps.ask(ranks, lambda step: session.replica_blocks(ranks, keys, step, steps.timeout))
    figures = _by_place(found.answers)
    pairs = [(each, some[0], other) for each, some in firsts for other in some[1:]]
    differing = {
        _place(pair, 2): (pair, numbers) for pair in pairs if (numbers := _differing(pair, figures))
    }
    wanted = _wanted(differing, figures)
    magnitudes = _measured(differing, figures, figures, {}, found.step)
    if wanted:
        some, blocks = [*wanted], [*wanted.values()]
        asked = steps.ask(
            ranks, lambda step: session.replica_blocks(ranks, some, step, steps.timeout, blocks)
        )
        values = _by_place(asked.answers)
        magnitudes.update(_measured(differing, values, figures, wanted, asked.step))
    return figures, magnitudes


def _by_place(
    answers: Sequence[tuple[Rank, ReplicaBlocks]],
) -> dict[tuple[ProcessKey, str, str], TensorBlocks]:
    return {
        (rank.process, each.kind, each.name): each
        for rank, value in answers
        for each in value.tensors
    }


def _place(pair: _Pair, which: int) -> tuple[ProcessKey, str, str]:
    rank: Rank = pair[which]  # type: ignore[assignment]
    return rank.process, pair[0].kind, pair[0].name


def _differing(pair: _Pair, figures: Figures) -> list[int]:
    one, other = figures.get(_place(pair, 1)), figures.get(_place(pair, 2))
    return differing_blocks(one.hashes, other.hashes) if one and other else []


_Differing = Mapping[tuple[ProcessKey, str, str], tuple[_Pair, list[int]]]


def _wanted(differing: _Differing, figures: Figures) -> dict[_Key, list[int]]:
    """The blocks of each tensor whose values have not been sent with the hashes."""
    numbers: dict[_Key, set[int]] = {}
    sizes: dict[_Key, int] = {}
    for place, (pair, found) in differing.items():
        if not figures[place].values:
            numbers.setdefault(pair[0].key, set()).update(found)
            sizes[pair[0].key] = figures[place].block
    room = min(MOST_OF_ONE, MOST_OF_ALL // max(1, len(numbers)))
    return {
        key: spread(sorted(found), max(1, room // max(1, sizes[key])))
        for key, found in numbers.items()
    }


def _measured(
    differing: _Differing,
    values: Figures,
    figures: Figures,
    wanted: Mapping[_Key, Sequence[int]],
    step: int | None,
) -> Magnitudes:
    found: dict[tuple[ProcessKey, str, str], Magnitude] = {}
    for place, (pair, numbers) in differing.items():
        one, other = values.get(_place(pair, 1)), values.get(place)
        if one is None or other is None or not one.values or not other.values:
            continue
        if wanted and pair[0].key not in wanted:
            continue
        outline = figures[_place(pair, 1)].figures
        partial = bool(wanted) and not {*numbers} <= {*wanted[pair[0].key]}
        found[place] = measure(
            read_values(one.format, one.values),
            read_values(other.format, other.values),
            pair[0].dtype,
            max(abs(outline.min or 0.0), abs(outline.max or 0.0)),
            partial,
            step,
        )
    return found
