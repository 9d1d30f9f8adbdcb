"""The ranks whose messages are wanted, also where only logs say which ranks there are."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from rankdbg import selection
from rankdbg.types import ProcessKey, Rank


def chosen(ranks: str, known: Sequence[Rank]) -> tuple[Container[int] | None, frozenset[int]]:
    """The numbers and pids that a selection picks; empty picks all, also processes that are not ranks."""
    if not ranks:
        return None, frozenset()
    if not known:
        return PickedNumbers(ranks), frozenset()
    return numbers_and_pids(selection.pick(selection.parse(ranks), known))


def numbers_and_pids(ranks: Sequence[Rank]) -> tuple[frozenset[int], frozenset[int]]:
    """By which lines of logs name them."""
    numbers = frozenset(rank.number for rank in ranks if rank.number is not None)
    return numbers, frozenset(rank.pid for rank in ranks)


class PickedNumbers:
    """The numbers that a selection picks if the existing ranks are not known."""

    def __init__(self, text: str) -> None:
        self._selection = selection.parse(text)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and selection.matches(self._selection, as_rank(number))

    def check(self, numbers: Iterable[int]) -> None:
        """Raises SelectionError if the selection matches none of the ranks in the logs."""
        selection.pick(self._selection, [as_rank(number) for number in numbers])


def as_rank(number: int) -> Rank:
    """From logs alone, only the number of a rank is known."""
    return Rank(ProcessKey("", number, 0), "", number)
