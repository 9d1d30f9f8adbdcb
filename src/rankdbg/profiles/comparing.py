"""Where time is spent, how that differs between ranks, and which rank is slowest.

A place is the innermost function of user code, or a line of it and what that has called: each
sample of a main thread is at one place, so the shares of a rank add up to 100 %. In a trace it
is an operator or a kernel, by self time.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rankdbg.process.user_code import innermost_user_frame, is_agent, is_user_code
from rankdbg.profiles.documents import Profile, Weighted
from rankdbg.types import Frame, Rank

# A difference of this share from the other ranks is reported.
FAR = 0.10
# A rank in one of these waits for others: communication libraries, operators, kernels.
_WAITING_FILES = ("/torch/distributed/", "/mpi4py/", "/horovod/", "/deepspeed/comm/")
# Workers' own loops are in the same file.
_WAITING_CALLS = ((("get", "wait"), "/ray/_private/worker.py"),)
_WAITING_NAMES = ("c10d::", "gloo:", "nccl:", "ncclDevKernel", "ncclKernel", "record_param_comms")

_WRAPPERS = {
    "wrapper",
    "inner",
    "_fn",
    "decorate_context",
    "_no_grad_wrapper",  # of torch's clip_grad_norm_
    "_use_grad",  # of its optimizers
    "with_counter",  # of its schedulers
    "__call__",
    "_call_impl",
    "_wrapped_call_impl",
}

_Key = tuple[Frame, str, str]


@dataclass(frozen=True)
class ProfileRow:
    """A place, and its share of the whole of each profile, by index."""

    frame: Frame
    calls: str  # what the user's line has called
    shares: tuple[float, ...]
    waits: bool
    phase: str = ""  # the phase of a training step, if known

    @property
    def mean(self) -> float:
        return statistics.fmean(self.shares)

    @property
    def median(self) -> float:
        return statistics.median(self.shares)

    def beyond(self, index: int) -> float:
        """How much more of it this one has than the others usually have."""
        return self.shares[index] - _median_without(self._ordered, self.shares[index])

    @cached_property
    def _ordered(self) -> list[float]:
        return sorted(self.shares)

    def far(self) -> list[int]:
        """The outliers, if there are few."""
        found = [i for i in range(len(self.shares)) if abs(self.beyond(i)) >= FAR]
        return found if len(self.shares) > 2 and 4 * len(found) <= len(self.shares) + 3 else []


def _median_without(ordered: Sequence[float], value: float) -> float:
    """Of all but one of this value: of ten thousand ranks each is compared with the others."""
    taken = bisect_left(ordered, value)
    left = len(ordered) - 1

    def at(place: int) -> float:
        return ordered[place + (place >= taken)]

    if left < 1:
        return 0.0
    return at(left // 2) if left % 2 else (at(left // 2 - 1) + at(left // 2)) / 2


@dataclass(frozen=True)
class Slowest:
    """The rank that waits least while the others wait for it."""

    index: int
    waits: float
    others_wait: float
    more: tuple[ProfileRow, ...]  # what it does more than the others, the largest first


def rows(
    profiles: Sequence[Profile], phase_of: Callable[[Iterable[Frame]], str] = lambda frames: ""
) -> list[ProfileRow]:
    """All places, the heaviest first; one row for each phase."""
    found: dict[_Key, list[float]] = defaultdict(lambda: [0.0] * len(profiles))
    lines: dict[_Key, dict[Frame, float]] = defaultdict(lambda: defaultdict(float))
    waits: set[_Key] = set()
    for index, profile in enumerate(profiles):
        for stack in profile.stacks:
            if not stack.main or not stack.frames:
                continue
            frame, calls = _place(stack)
            # In a function that does the work itself, the sampled line is random.
            phase = phase_of(reversed(stack.frames))
            key = frame if calls else frame._replace(line=0), calls, phase
            share = profile.share(stack.weight)
            found[key][index] += share
            lines[key][frame] += share
            if _waits(stack):
                waits.add(key)
    made = [
        ProfileRow(
            max(lines[key], key=lines[key].__getitem__), key[1], tuple(shares), key in waits, key[2]
        )
        for key, shares in found.items()
    ]
    return sorted(made, key=lambda row: -row.mean)


def _place(stack: Weighted) -> tuple[Frame, str]:
    inwards = stack.frames[::-1]
    index = innermost_user_frame(frame.file for frame in inwards)
    # Work of a library in a thread without user code.
    if index == 0 or not is_user_code(inwards[index].file):
        return inwards[0], ""
    of_libraries = [frame for frame in inwards[:index] if not is_agent(frame.file)]
    called = [frame.function for frame in reversed(of_libraries)] or ["rankdbg"]
    return inwards[index], next((name for name in called if not _wraps(name)), called[0])


def _wraps(function: str) -> bool:
    """Whether it is only a wrapper around the user's call: decorators, torch modules."""
    return function.rpartition(".")[2] in _WRAPPERS


def of_one_role(ranks: Sequence[Rank]) -> list[int]:
    """The indices of ranks with the most frequent role. A driver only waits for its workers."""
    roles = Counter(rank.role for rank in ranks)
    role = max(roles, key=roles.__getitem__, default="")
    return [index for index, rank in enumerate(ranks) if rank.role == role]


def _waits(stack: Weighted) -> bool:
    return any(
        frame.function.startswith(_WAITING_NAMES)
        or any(part in frame.file for part in _WAITING_FILES)
        or any(frame.function in names and file in frame.file for names, file in _WAITING_CALLS)
        for frame in stack.frames
    )


def differing(
    all_rows: Sequence[ProfileRow], first: Sequence[int], second: Sequence[int]
) -> list[ProfileRow]:
    """The same places, sorted by the difference between the two sets of profiles."""
    return sorted(all_rows, key=lambda row: -abs(mean_of(row, second) - mean_of(row, first)))


def mean_of(row: ProfileRow, indices: Sequence[int]) -> float:
    return statistics.fmean(row.shares[index] for index in indices)


def find_slowest(all_rows: Sequence[ProfileRow], among: Sequence[int]) -> Slowest | None:
    """`among`: the indices of ranks that do the same work. None if all wait equally, or no rank
    waits."""
    if len(among) < 2:
        return None
    waiting = {i: sum(row.shares[i] for row in all_rows if row.waits) for i in among}
    index = min(among, key=waiting.__getitem__)
    others = statistics.median(share for i, share in waiting.items() if i != index)
    if others - waiting[index] < FAR:
        return None
    more = [row for row in all_rows if not row.waits and row.beyond(index) >= FAR / 2]
    more.sort(key=lambda row: -row.beyond(index))
    return Slowest(index, waiting[index], others, tuple(more))
