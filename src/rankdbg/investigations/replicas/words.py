"""Sentences about replicas that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.replicas.findings import FirstDifference, KeptSteps
from rankdbg.types import Rank
from rankdbg.verdicts.replicas.causes import Cause, Kind
from rankdbg.verdicts.replicas.magnitudes import Magnitude
from rankdbg.verdicts.replicas.random_states import RandomNote

NOT_A_FAULT = "kernels that add in another order do that, and it is not a fault"
CAUSES: dict[Kind, str] = {
    "rounding": "{name} differs within rounding: {not_a_fault}.",
    "left out": "{name} is left out of the optimizer in {ranks}; the optimizers of the others have it.",
    "no gradient": "{name} has no gradient in {ranks}, and has one in the others: it is frozen there, or "
    "the forward pass does not use it.",
    "gradient": "The gradients of {name} differ ({ranks}): they are not reduced across these ranks, "
    "reduced wrongly, clipped by different norms, as by those of shards, or computed from different data "
    "or dropout masks.",
    "settings": "The optimizers update {name} with different settings ({ranks}): {values}.",
    "optimizer": "The gradients of {name} are equal, its optimizer state is not ({ranks}): the state was "
    "loaded differently, or gradients differed before.",
    "outside": "Gradients and optimizer state of {name} are equal, the parameter is not ({ranks}): it was "
    "changed outside of the optimizer, as by a flipped bit, a load, or a broadcast that is missing.",
    "buffer": "{name} is a buffer ({ranks}): each rank computes it from its own data, and no broadcast "
    "makes it equal.",
    "unknown": "{name} differs ({ranks}). The gradients are cleared before a step starts, so the "
    "cause is not known: call rankdbg.progress(step) before the program clears them.",
}


def cause_texts(causes: Sequence[Cause], all_ranks: Sequence[Rank]) -> list[str]:
    """A sentence for all ranks of which the same is true, and for all tensors."""
    by_tensor: dict[object, list[Cause]] = {}
    for each in causes:
        by_tensor.setdefault((each.kind, each.values, each.name), []).append(each)
    alike: dict[object, list[Cause]] = {}
    for first, *rest in by_tensor.values():
        ranks = tuple(rank for each in (first, *rest) for rank in each.ranks)
        processes = frozenset(rank.process for rank in ranks)
        cause = replace(first, ranks=ranks)
        alike.setdefault((cause.kind, cause.values, processes), []).append(cause)
    return [cause_text(first, all_ranks, len(rest)) for first, *rest in alike.values()]


def cause_text(cause: Cause, all_ranks: Sequence[Rank], more: int = 0) -> str:
    """`more`: tensors of which the same is true."""
    return CAUSES[cause.kind].format(
        name=f"{cause.name} (and {more} more)" if more else cause.name,
        ranks=named(cause.ranks, all_ranks),
        values=" / ".join(cause.values),
        not_a_fault=NOT_A_FAULT,
    )


def undecided_text(count: int) -> str:
    biases = "1 bias that may be a part" if count == 1 else f"{count} biases that may be parts"
    return f"not compared along the dimensions that split layers: {biases} of a layer"


def magnitude_text(magnitude: Magnitude, dtype: str) -> str:
    """differs, max |Δ| at least 0.0003"""
    texts = [f"differs within rounding of {dtype}" if magnitude.within_rounding else "differs"]
    if magnitude.max_difference is not None:
        least = "at least " if magnitude.partial else ""
        texts.append(f"max |Δ| {least}{magnitude.max_difference:.3g}")
    if magnitude.not_finite:
        texts.append(f"{magnitude.not_finite} nan or inf in one of the two only")
    return ", ".join(texts)


def first_text(first: FirstDifference, all_ranks: Sequence[Rank]) -> str:
    """since step 51; equal at step 50: 1.weight (rank 1)"""
    shown = [f"{e.name} ({named(e.odd, all_ranks)})" for e in first.differences[:3]]
    more = len(first.differences) - len(shown)
    names = ", ".join(shown) + (f" and {more} more" if more else "")
    if first.since is not None and first.since.step is None:
        return f"{first.since}, the last kept one: {names}"
    return f"{first.since or 'the step is not known, as no hashes are kept (--every N)'}: {names}"


def random_text(note: RandomNote, all_ranks: Sequence[Rank]) -> str:
    ranks = named(note.ranks, all_ranks)
    more = f" (and {note.sets - 1} more such sets of ranks)" if note.sets > 1 else ""
    along = f" along {note.dimension}" if note.dimension else ""
    if note.equal:
        return (
            f"{note.generator} generator: {ranks}{more} have the same state{along}: all these replicas "
            "draw the same dropout masks."
        )
    return (
        f"{note.generator} generator: {ranks}{more} have different states{along}: dropout in parts that "
        "each of them has whole differs there."
    )


def keeping_text(keeping: KeptSteps) -> str:
    if not keeping.every:
        return ""
    steps = f", steps {keeping.steps[0]} to {keeping.steps[1]}" if keeping.steps else ""
    each = "every step" if keeping.every == 1 else f"every {keeping.every} steps"
    return f"hashes are kept {each}{steps}"
