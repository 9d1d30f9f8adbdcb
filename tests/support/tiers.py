"""What `make test` leaves to `make test-all`: further cases of what it tries already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

from agents import find_python

T = TypeVar("T")

extra = pytest.mark.extra

also_without = pytest.mark.parametrize(
    "agent", [True, pytest.param(False, marks=extra)], ids=["agent", "outside"]
)

# The two ways to trace: sys.settrace, and sys.monitoring, which came with 3.12.
_BOTH_WAYS = ("3.10", "3.13")


def chiefly_two(versions: Iterable[str]) -> list[str]:
    """Versions of Python, of which `make test` takes two, or all where one of these is not here."""
    every = [*versions]
    both_are_here = all(each in every and find_python(each) for each in _BOTH_WAYS)
    return chiefly(_BOTH_WAYS if both_are_here else every, every)


def chiefly(chosen: Iterable[T], values: Iterable[T]) -> list[T]:
    """All these values as parameters of a test, of which `make test` takes the chosen ones."""
    kept, every = [*chosen], [*values]
    assert all(value in every for value in kept), f"{kept} are not all in {every}"
    return [value if value in kept else pytest.param(value, marks=extra) for value in every]
