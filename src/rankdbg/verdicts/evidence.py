"""What is known of each rank of a job that may hang: plain values, made by whoever looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rankdbg import grouping
from rankdbg.types import Frame, Rank, Stack
from rankdbg.user_code import innermost_user_frame, is_native, is_user_code
from rankdbg.verdicts.collectives import Findings
from rankdbg.verdicts.gpu_signs import Sign as GpuSign

# A main thread that used this share of the time computes.
BUSY_SHARE = 0.2
# Waits that wake up by themselves to look again: to have run says nothing there.
_POLLING = {
    "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2",
    "nanosleep", "clock_nanosleep", "sched_yield",
}  # fmt: skip
_WOKEN = 2  # times: more than the end of what it was in when we came

Frames = tuple[Frame, ...]


@dataclass(frozen=True)
class Child:
    pid: int
    name: str
    state: str
    command: str = ""
    wchan: str = ""


@dataclass(frozen=True)
class Vitals:
    """What the kernel says; counters are totals."""

    at: float = 0.0  # seconds of the node's clock
    state: str = ""
    why: str = ""  # the state in words
    wchan: str = ""
    call: str = ""  # the system call in which the main thread waits
    on: str = ""  # the file, socket or process that it waits for
    age: float = 0.0
    cpu: float = 0.0
    ready: float = 0.0  # could have run, but others had the processors
    switches: int = 0
    children: tuple[Child, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One rank over the time for which it was watched."""

    rank: Rank
    samples: Sequence[Sequence[Stack]] = ()
    before: Vitals = Vitals()
    after: Vitals = Vitals()
    native: Sequence[Stack] = ()
    gil: str = ""  # the thread that held the GIL whenever somebody looked from outside
    silence: str = ""  # why its agent did not answer, or nothing could be read
    counted_on: bool = False  # its recorder has new collectives
    gpus: Sequence[GpuSign] = ()  # what the figures of its GPUs are signs of

    @property
    def number(self) -> int:
        """Of the rank; of a process that has none, its pid."""
        return self.rank.number if self.rank.number is not None else self.rank.pid

    # --- the main thread ----------------------------------------------------------------

    @cached_property
    def _main(self) -> tuple[Frames, bool]:
        return grouping.common_stack(
            [stack.frames for sample in self.samples for stack in sample if stack.main]
        )

    @property
    def frames(self) -> Frames:
        """Innermost first; of a thread that moves, what all samples share."""
        return self._main[0]

    @property
    def moving(self) -> bool:
        return self._main[1]

    @cached_property
    def place(self) -> Frame | None:
        """The user's line in which it is."""
        if not self.frames:
            return None
        return self.frames[innermost_user_frame(frame.file for frame in self.frames)]

    @cached_property
    def there(self) -> int:
        """In how many samples it was there."""
        place = self.place
        return sum(
            any((f.function, f.file) == (place.function, place.file) for f in stack.frames)
            for sample in self.samples
            for stack in sample
            if stack.main and place
        )

    @cached_property
    def library(self) -> Frames:
        """What the innermost line of the user's has called; all, if there is no such line."""
        index = innermost_user_frame(frame.file for frame in self.frames)
        if index == 0 and self.frames and not is_user_code(self.frames[0].file):
            return self.frames
        return self.frames[:index]

    @cached_property
    def native_main(self) -> Frames:
        """Those of C and C++ alone: a method of Python may have the name of a function there."""
        main = next((stack.frames for stack in self.native if stack.main), ())
        return tuple(frame for frame in main if is_native(frame.file))

    # --- other threads ------------------------------------------------------------------

    @cached_property
    def others(self) -> dict[str, tuple[Frames, bool]]:
        """The other threads of Python: their stacks, and whether they move."""
        found: dict[str, list[Frames]] = {}
        for sample in self.samples:
            for stack in sample:
                if not stack.main:
                    found.setdefault(stack.thread, []).append(stack.frames)
        return {name: grouping.common_stack(stacks) for name, stacks in found.items()}

    @cached_property
    def blocked_threads(self) -> list[str]:
        """Others that stand in a call of the user's code into C: a lock, a read, a sleep."""
        return [
            name
            for name, (frames, moving) in self.others.items()
            if frames and not moving and is_user_code(frames[0].file)
        ]

    # --- movement -----------------------------------------------------------------------

    @cached_property
    def roams(self) -> bool:
        """Whether its samples are in different functions of the user's: it is at work there,
        where one that goes round in circles is found in one function."""
        functions = {
            _function(stack.frames) for sample in self.samples for stack in sample if stack.main
        }
        return len(functions) > 1

    @property
    def seconds(self) -> float:
        """For which it was watched."""
        return self.after.at - self.before.at

    @property
    def busy(self) -> float:
        """The share of the time in which its main thread was not waiting for anything."""
        if self.seconds <= 0:
            return 0.0
        before, after = self.before, self.after
        return (after.cpu + after.ready - before.cpu - before.ready) / self.seconds

    @property
    def computes(self) -> bool:
        return self.busy > BUSY_SHARE

    @property
    def stirred(self) -> bool:
        """Whether it has come on: another line, another collective, or it was woken from a
        wait that does not end by itself."""
        if self.moving or self.counted_on:
            return True
        # Between two waits of a poll it runs for a moment, and is in no call.
        if (self.after.call or self.before.call) in _POLLING:
            return False
        return not self.computes and self.after.switches - self.before.switches >= _WOKEN

    @property
    def motionless(self) -> bool:
        """Whether its main thread has not even run."""
        ran = self.after.switches - self.before.switches >= _WOKEN
        return not (self.moving or self.counted_on or self.computes or ran)

    @property
    def state(self) -> str:
        """Of the process. One at work is in state D for a moment now and then (a page fault, a
        read): what counts is one that was and is in it."""
        if self.after.state == "D" and (self.before.state != "D" or self.moving):
            return "S"
        return self.after.state

    @property
    def stop(self) -> str:
        """Why it stands in the debugger, if it does."""
        if self.rank.state == "stopped" and self.after.state not in ("T", "t"):
            return self.rank.detail or "stopped"
        return ""


def _function(frames: Frames) -> tuple[str, str]:
    """The innermost of the user's that has a name: not a comprehension in it."""
    for frame in frames:
        name = frame.function.rpartition(".")[2]
        if is_user_code(frame.file) and not name.startswith("<"):
            return name, frame.file
    return "", ""


@dataclass(frozen=True)
class Evidence:
    """A job."""

    ranks: Sequence[Seen]
    collectives: Findings | None = None  # of flight recorders, where there are any
    unseen_nodes: Sequence[str] = ()
    gone: Sequence[Rank] = ()  # ranks that have ended while others go on
    others: Sequence[Rank] = ()  # of the same job, which were not to be looked at

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """Numbers that a job of this size should have and nobody has."""
        members = [*(seen.rank for seen in self.ranks), *self.gone, *self.others]
        worlds = {rank.world for rank in members if rank.world}
        numbers = {rank.number for rank in members}
        if len(worlds) != 1 or self.unseen_nodes or None in numbers:
            return ()
        return tuple(sorted(set(range(worlds.pop())) - numbers))
