"""Where time goes, place by place, how that spreads over the ranks, and who is the slowest.

A place is the innermost function of the user's, or a line of it and what that has called: each
sample of a main thread is at one place, so the shares of a rank add up to 100 %. In a trace it
is an operator or a kernel, by the time that it took itself.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rankdbg.profiles.documents import Profile, Weighted
from rankdbg.types import Frame
from rankdbg.user_code import innermost_user_frame, is_user_code

# So much more, or less, of a rank's whole than in the others is worth a word.
FAR = 0.10
# In these a rank waits for others: files of communication libraries, operators, kernels.
_WAITING_FILES = ("/torch/distributed/", "/mpi4py/", "/horovod/", "/deepspeed/comm/")
_WAITING_NAMES = ("c10d::", "gloo:", "nccl:", "ncclDevKernel", "ncclKernel", "record_param_comms")

_WRAPPERS = {
    "wrapper",
    "inner",
    "_fn",
    "decorate_context",
    "__call__",
    "_call_impl",
    "_wrapped_call_impl",
}

_Key = tuple[Frame, str]


@dataclass(frozen=True)
class Row:
    """A place, and its share of the whole of each profile, by index."""

    frame: Frame
    calls: str  # what the user's line has called
    shares: tuple[float, ...]
    waits: bool

    @property
    def mean(self) -> float:
        return statistics.fmean(self.shares)

    @property
    def median(self) -> float:
        return statistics.median(self.shares)

    def beyond(self, index: int) -> float:
        """How much more of it this one has than the others usually have."""
        others = self.shares[:index] + self.shares[index + 1 :]
        return self.shares[index] - (statistics.median(others) if others else 0.0)

    def far(self) -> list[int]:
        """Who stands out, if only few do."""
        found = [i for i in range(len(self.shares)) if abs(self.beyond(i)) >= FAR]
        return found if len(self.shares) > 2 and 4 * len(found) <= len(self.shares) + 3 else []


@dataclass(frozen=True)
class Slowest:
    """Who waits least for the others, while they wait."""

    index: int
    waits: float
    others_wait: float
    more: tuple[Row, ...]  # what it does more of, the most first


def rows(profiles: Sequence[Profile]) -> list[Row]:
    """All places, the heaviest first."""
    found: dict[_Key, list[float]] = defaultdict(lambda: [0.0] * len(profiles))
    lines: dict[_Key, dict[Frame, float]] = defaultdict(lambda: defaultdict(float))
    waits: set[_Key] = set()
    for index, profile in enumerate(profiles):
        for stack in profile.stacks:
            if not stack.main or not stack.frames:
                continue
            frame, calls = _place(stack)
            # Of a function that does the work itself, the line is a matter of chance.
            key = frame if calls else frame._replace(line=0), calls
            share = profile.share(stack.weight)
            found[key][index] += share
            lines[key][frame] += share
            if _waits(stack):
                waits.add(key)
    made = [
        Row(max(lines[key], key=lines[key].__getitem__), key[1], tuple(shares), key in waits)
        for key, shares in found.items()
    ]
    return sorted(made, key=lambda row: -row.mean)


def _place(stack: Weighted) -> tuple[Frame, str]:
    inwards = stack.frames[::-1]
    index = innermost_user_frame(frame.file for frame in inwards)
    # What a library does by itself, in a thread that never comes to the user's code.
    if index == 0 or not is_user_code(inwards[index].file):
        return inwards[0], ""
    called = [frame.function for frame in inwards[:index]][::-1]
    return inwards[index], next((name for name in called if not _wraps(name)), called[0])


def _wraps(function: str) -> bool:
    """Whether it only calls what the user has called: decorators, modules of torch."""
    return function.rpartition(".")[2] in _WRAPPERS


def _waits(stack: Weighted) -> bool:
    return any(
        frame.function.startswith(_WAITING_NAMES)
        or any(part in frame.file for part in _WAITING_FILES)
        for frame in stack.frames
    )


def differing(all_rows: Sequence[Row], first: Sequence[int], second: Sequence[int]) -> list[Row]:
    """The same places, those first in which the two sets of profiles differ most."""
    return sorted(all_rows, key=lambda row: -abs(mean_of(row, second) - mean_of(row, first)))


def mean_of(row: Row, indices: Sequence[int]) -> float:
    return statistics.fmean(row.shares[index] for index in indices)


def find_slowest(all_rows: Sequence[Row], count: int) -> Slowest | None:
    """None where all wait alike, or nobody is seen to wait."""
    if count < 2:
        return None
    waiting = [sum(row.shares[i] for row in all_rows if row.waits) for i in range(count)]
    index = min(range(count), key=waiting.__getitem__)
    others = statistics.median(waiting[:index] + waiting[index + 1 :])
    if others - waiting[index] < FAR:
        return None
    more = [row for row in all_rows if not row.waits and row.beyond(index) >= FAR / 2]
    more.sort(key=lambda row: -row.beyond(index))
    return Slowest(index, waiting[index], others, tuple(more))
