"""How far values are apart, and whether rounding explains it."""

from __future__ import annotations

import math

import pytest

from rankdbg.verdicts.replicas.magnitudes import (
    Magnitude,
    differing_blocks,
    measure,
    read_values,
    spread,
)

NAN, INF = math.nan, math.inf


def test_the_largest_difference() -> None:
    found = measure([1.0, 2.0, -3.0], [1.0, 2.5, -4.0], "float32", 4.0)
    assert found == Magnitude(1.0, within_rounding=False)


@pytest.mark.parametrize(
    ("dtype", "apart", "rounding"),
    [
        ("float32", 1e-7, True),
        ("float32", 1e-5, False),
        ("bfloat16", 1e-2, True),
        ("bfloat16", 0.2, False),
        ("float64", 1e-15, True),
        ("float64", 1e-7, False),
        ("int64", 1.0, False),
        ("unheard", 1e-9, False),
    ],
)
def test_rounding_is_a_few_units_of_the_type(dtype: str, apart: float, rounding: bool) -> None:
    assert measure([1.0], [1.0 + apart], dtype, 1.0).within_rounding is rounding


def test_rounding_is_relative_to_the_tensor() -> None:
    """A sum of large numbers may be off by more than a small result."""
    assert measure([1e-3], [1e-3 + 1e-5], "float32", 100.0).within_rounding
    assert not measure([1e-3], [1e-3 + 1e-5], "float32", 1e-3).within_rounding


def test_the_sign_of_zero_is_rounding() -> None:
    assert measure([0.0], [-0.0], "float32", 1.0) == Magnitude(0.0, within_rounding=True)


def test_nan_in_one_of_two() -> None:
    """Is never rounding. In both it is no difference."""
    assert measure([NAN, 1.0], [2.0, 1.0], "float32", 2.0) == Magnitude(None, False, 1)
    assert measure([INF, 1.0], [2.0, 1.5], "float32", 2.0) == Magnitude(0.5, False, 1)
    assert measure([NAN], [NAN], "float32", 1.0).not_finite == 0
    assert measure([INF], [INF], "float32", 1.0).not_finite == 0


def test_a_part_proves_no_rounding() -> None:
    found = measure([1.0], [1.0 + 1e-7], "float32", 1.0, partial=True)
    assert found.within_rounding and not found.is_rounding
    elsewhere = measure([1.0], [1.0], "float32", 1.0, partial=True)
    assert (elsewhere.max_difference, elsewhere.within_rounding) == (None, False)


def test_blocks_from_all_parts() -> None:
    assert spread(range(100), 4) == [0, 25, 50, 75]
    assert spread([3, 5], 4) == [3, 5]


def test_damaged_answers_hold_nothing() -> None:
    assert differing_blocks("abc", "x") == []
    assert [*read_values("f", "abcde")] == []
    assert [*read_values("?", "AAAA")] == []
