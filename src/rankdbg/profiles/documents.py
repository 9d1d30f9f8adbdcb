"""The profile of one rank, as sent by nodes (node/profiles/folded_stacks.py) and as used here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rankdbg.types import Frame, Rank

# Of samples, bytes and microseconds since 1970; sums of such numbers are numbers.
_MOST = 1e21


def amount(value: Any) -> float:
    """A number that is one: of nan and the infinities no picture can be drawn. Raises ValueError, TypeError
    or OverflowError."""
    number = float(value)
    if not abs(number) < _MOST:
        raise ValueError(f"invalid number {number:g}")
    return number


class Weighted(NamedTuple):
    """A stack, outermost frame first, and what it weighs in the profile's unit."""

    thread: str
    main: bool
    frames: tuple[Frame, ...]
    weight: float


@dataclass(frozen=True)
class Profile:
    rank: Rank
    unit: str  # samples, bytes or microseconds
    whole: float  # 100 %
    stacks: tuple[Weighted, ...]
    rate: float | None = None  # samples per second, if samples are the unit

    def share(self, weight: float) -> float:
        return weight / self.whole if self.whole else 0.0


def read_profile(rank: Rank, documents: Iterable[Mapping[str, Any]]) -> Profile:
    """Several documents of one rank have the same unit: the memory of the process and of its GPUs.
    Raises KeyError, TypeError, IndexError, ValueError or OverflowError if they are invalid."""
    unit, whole, rate = "", 0.0, None
    stacks: list[Weighted] = []
    for document in documents:
        unit = str(document["unit"])
        whole += amount(document["whole"])
        if unit == "samples":
            rate = amount(document["rate"])
        frames = [Frame(str(name), str(file), int(line)) for name, file, line in document["frames"]]
        for thread, main, indices, weight in document["stacks"]:
            chosen = tuple(frames[index] for index in indices)
            stacks.append(Weighted(str(thread), bool(main), chosen, amount(weight)))
    return Profile(rank, unit, whole, tuple(stacks), rate)
