"""Values of the blocks in which two tensors differ -> how far they are apart, and whether rounding can
explain it."""

from __future__ import annotations

import math
from array import array
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass

# The distance from 1 to the next number.
_UNITS = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
# Sums in another order are a few units apart.
FEW = 8


@dataclass(frozen=True)
class Magnitude:
    """How far a group of ranks is from the largest one. `max_difference`: None if all values that
    differ are nan or infinite in one of them only; `not_finite` counts these. `partial`: not all
    differing blocks were compared. `step`: at which these values were read."""

    max_difference: float | None
    within_rounding: bool
    not_finite: int = 0
    partial: bool = False
    step: int | None = None

    @property
    def is_rounding(self) -> bool:
        """All of it, and nothing else."""
        return self.within_rounding and not self.partial


def differing_blocks(one: str, other: str) -> list[int]:
    """By the hashes of all blocks."""
    mine, theirs = _decoded(one), _decoded(other)
    count = min(len(mine), len(theirs)) // 8
    return [n for n in range(count) if mine[n * 8 : n * 8 + 8] != theirs[n * 8 : n * 8 + 8]]


def spread(numbers: Sequence[int], most: int) -> list[int]:
    """So many of them at most, from all parts of the tensor."""
    if len(numbers) <= most:
        return [*numbers]
    return [numbers[n * len(numbers) // most] for n in range(most)]


def read_values(letter: str, text: str) -> Sequence[float]:
    values: array[float] = array(letter if letter in ("f", "d", "q") else "f")
    raw = _decoded(text)
    values.frombytes(raw[: len(raw) // values.itemsize * values.itemsize])
    return values


def _decoded(text: str) -> bytes:
    """Of what a rank has sent: nothing, if that is damaged."""
    try:
        return b64decode(text)
    except ValueError:
        return b""


def measure(
    one: Sequence[float],
    other: Sequence[float],
    dtype: str,
    largest: float,
    partial: bool = False,
    step: int | None = None,
) -> Magnitude:
    """`largest`: absolute value of the whole tensor."""
    difference, not_finite = 0.0, 0
    for mine, theirs in zip(one, other, strict=False):
        if mine == theirs:
            continue
        if math.isfinite(mine) and math.isfinite(theirs):
            difference = max(difference, abs(mine - theirs))
        elif not (math.isnan(mine) and math.isnan(theirs)):
            not_finite += 1
    unit = _UNITS.get(dtype, 0.0)
    rounding = bool(unit) and not not_finite and difference <= FEW * unit * largest
    if partial and not difference:  # what differs is in another part
        return Magnitude(None, False, not_finite, partial, step)
    known = difference if difference or not not_finite else None
    return Magnitude(known, rounding, not_finite, partial, step)
