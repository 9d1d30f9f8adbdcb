"""What two looks at the variables of a process tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rankdbg.investigations.hangs import readings
from rankdbg.types import Frame, ProcessKey, Rank, RunningKernel
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives
from rankdbg.wire.answers import Vitals

LOOP = Frame("search", "/job/train.py", 40)


def looks(*values: dict[str, str]) -> list[readings.Variables]:
    return [((LOOP, each),) for each in values]


@pytest.mark.parametrize(
    ("before", "after", "differs", "counts"),
    [
        ({"i": "1"}, {"i": "1"}, False, False),
        ({"i": "1", "best": "0.5"}, {"i": "9", "best": "0.5"}, True, True),
        ({"i": "1", "total": "3"}, {"i": "9", "total": "45"}, True, False),
        ({"i": "9"}, {"i": "1"}, True, False),
        ({"loss": "0.5"}, {"loss": "0.4"}, True, False),
        ({"i": "1"}, {}, True, False),
        ({"now": "1763410000.25"}, {"now": "1763410001.5"}, False, False),
    ],
)
def test_variables_of_two_looks(
    before: dict[str, str], after: dict[str, str], differs: bool, counts: bool
) -> None:
    seen = looks(before, after)
    assert (readings.differ(seen), readings.only_counts(seen)) == (differs, counts)


def test_a_number_in_a_comprehension() -> None:
    """Its elements are computed meanwhile."""
    inside = Frame("<genexpr>", "/job/train.py", 40)
    seen: list[readings.Variables] = [((inside, {"i": number}),) for number in ("1", "9")]
    assert readings.differ(seen) and not readings.only_counts(seen)


def test_another_function() -> None:
    """Its variables are others, and tell nothing."""
    other = ((Frame("load", "/job/train.py", 9), {"i": "5"}),)
    seen = [*looks({"i": "1"}), other]
    assert not readings.differ(seen) and not readings.only_counts(seen)


def test_what_our_own_looks_have_done() -> None:
    """It does not count, all else does."""
    first = Vitals(woken=5, switches=7, read=100, written=1)
    before = Vitals(woken=6, switches=9, read=150, written=2)
    after = Vitals(woken=8, switches=12, read=9150, written=5)
    settled = readings.without_ours(first, before, after)
    assert (settled.woken, settled.switches) == (7, 10)
    assert (settled.read, settled.written) == (9100, 4)


A_KERNEL = RunningKernel("spin", grid=(1, 1, 1), block=(32, 1, 1), launch="7 0x01 sm 0, warp 2")
AT_A_LINE = replace(A_KERNEL, file="/job/my kernels.py", line=6)
NEXT_LAUNCH = replace(A_KERNEL, launch="8 0x01 sm 0, warp 2")


@pytest.mark.parametrize(
    ("later", "ended", "says"),
    [
        ([], None, "runs"),
        ([[A_KERNEL], [NEXT_LAUNCH, A_KERNEL]], False, "does not end"),
        ([[A_KERNEL], [NEXT_LAUNCH]], True, "had ended some seconds later"),
        ([[]], True, "had ended some seconds later"),
    ],
)
def test_a_kernel_in_several_looks(later: Any, ended: bool | None, says: str) -> None:
    """It goes on while each look finds the same launch of it."""
    (kernel,) = readings.kernels([A_KERNEL], later)
    assert kernel.ended is ended
    assert kernel.sentence == f"spin (grid 1x1x1, block 32x1x1) {says}"


def test_the_line_of_a_kernel() -> None:
    (kernel,) = readings.kernels([AT_A_LINE], ())
    assert kernel.text == "spin (grid 1x1x1, block 32x1x1) at my kernels.py:6"


@pytest.mark.parametrize(
    ("later", "counted_on", "entered"),
    [((1, False), False, False), ((1, True), True, False), ((2, False), True, True)],
)
def test_collectives_of_two_looks(later: tuple[int, bool], counted_on: bool, entered: bool) -> None:
    """The second look may tell of the same collective, that it is finished, or of another."""
    before, after = (recorded(*each) for each in ((1, False), later))
    assert bool(readings.counted_on(before, after)) is counted_on
    assert bool(readings.entered_more(before, after)) is entered


def recorded(number: int, finished: bool) -> dict[ProcessKey, RecordedCollectives]:
    rank = Rank(ProcessKey("node-1", 101, 1), "job", number=0)
    last = Operation("0", "all_reduce", number, finished=finished)
    return {rank.process: RecordedCollectives(rank, Trace(0, (last,)))}
