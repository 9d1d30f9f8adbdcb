"""What is known of each rank of a job that may hang: plain values, made by whoever looked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import dropwhile

from rankdbg import grouping
from rankdbg.process import identity
from rankdbg.process.user_code import (
    innermost_user_frame,
    is_native,
    is_standard_library,
    is_user_code,
)
from rankdbg.types import Frame, Rank, Stack, missing_ranks
from rankdbg.verdicts.collectives.worlds import World
from rankdbg.verdicts.hangs import progress
from rankdbg.verdicts.hangs.gpu_kernels import Kernel
from rankdbg.verdicts.hangs.gpu_signs import GpuSign
from rankdbg.verdicts.waits.ray_waits import RayEvidence
from rankdbg.verdicts.waits.unanswered import Unanswered
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence
from rankdbg.wire.answers import Vitals

Frames = tuple[Frame, ...]
_EVALUATES = ("_PyEval_", "PyEval_")  # the functions of the interpreter that run Python's code
_MOST_REASONS = 3


@dataclass(frozen=True)
class Seen:
    """One rank over the time for which it was watched."""

    rank: Rank
    samples: Sequence[Sequence[Stack]] = ()
    before: Vitals = field(default_factory=Vitals)
    after: Vitals = field(default_factory=Vitals)
    native: Sequence[Stack] = ()
    gil: str = ""  # the thread that held the GIL at every look from outside
    silence: str = ""  # why its agent did not answer, or nothing could be read
    counted_on: bool = False  # it has entered or finished a collective
    entered_more: bool = False  # it has entered one
    stepped: bool = False  # rankdbg.progress() has reported another step
    tasks_moved: bool = False  # of its event loop
    served_threads: Sequence[
        str
    ] = ()  # other threads, by name, for which what they wait for arrives
    variables_changed: bool = False  # of the user's functions that it is in, where looked at
    only_counts: bool = False  # one of them alone has changed, and that is a number that grows
    gpus: Sequence[GpuSign] = ()  # what the figures of its GPUs are signs of
    command_prefix: str = ""  # what a user types before a command that is to run on its node
    kernels: Sequence[Kernel] = ()  # that run there, by cuda-gdb
    master: str = ""  # HOST:PORT of the store to which it connects, or at which it waits
    names_group: bool | None = None  # its collective is of a group that the program names
    children: Sequence[Seen] = ()  # where these were looked at
    all_ranks: Sequence[Rank] = ()  # of its job, among which it is named
    active: bool | None = None  # whether it computed, by a dump; None: the vitals tell

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

    @property
    def knows_children(self) -> bool:
        """A stack dump tells of none, and no node has looked."""
        return self.after.at > 0

    @property
    def wait(self) -> Vitals:
        """The last look that found it in a system call: between two waits it is in none."""
        between = not (self.after.call or self.after.wchan or self.moving or self.computes)
        return self.before if between else self.after

    @cached_property
    def place(self) -> Frame | None:
        """The user's line in which it is."""
        return self.frames[_users_place(self.frames)] if self.frames else None

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
        index = _users_place(self.frames)
        if index == 0 and self.frames and not is_user_code(self.frames[0].file):
            return self.frames
        return self.frames[:index]

    @cached_property
    def in_event_loop(self) -> bool:
        """Whether its main thread runs asyncio."""
        return any("/asyncio/" in frame.file for frame in self.frames)

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

    @cached_property
    def has_event_loop(self) -> bool:
        """Whether another of its threads runs asyncio."""
        return any(
            "/asyncio/" in frame.file for frames, _ in self.others.values() for frame in frames
        )

    def seen_from(self, function: str) -> Seen | None:
        """The same with the thread that runs this function as the main one; None without one. What
        the kernel says of waits is left out: it is about the main thread."""
        names = {
            stack.thread
            for sample in self.samples
            for stack in sample
            if any(frame.function.rpartition(".")[2] == function for frame in stack.frames)
        }
        if not names:
            return None
        samples = [
            [replace(stack, main=True) for stack in sample if stack.thread in names][:1]
            for sample in self.samples
        ]
        before, after = (
            replace(look, call="", wchan="", on="", woken=0, switches=0)
            for look in (self.before, self.after)
        )
        return replace(self, samples=samples, before=before, after=after, active=self.computes)

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

    @cached_property
    def asleep(self) -> float | None:
        """For how long its main thread has done nothing but wait; None if that is not known, as of
        one that timers wake."""
        if self.before.asleep is None or not self.motionless or self.after.state not in ("S", "D"):
            return None
        is_woken = self.after.woken != self.before.woken
        return None if is_woken else self.before.asleep + self.seconds

    @property
    def busy(self) -> float:
        """The share of the time in which its main thread was not waiting for anything."""
        return progress.busy_share(self.before, self.after)

    @property
    def computes(self) -> bool:
        return (
            self.active if self.active is not None else progress.computes(self.before, self.after)
        )

    @property
    def gets_results(self) -> bool:
        """Whether its variables change. A loop that computes nothing but its own count does not get
        anywhere; one that sleeps meanwhile may count pieces of work."""
        return self.variables_changed and not (self.only_counts and self.computes)

    @property
    def computes_outside_python(self) -> bool:
        """In one call of C, or in a program that is none of Python's: a computation, a compiler."""
        if not self.computes or self.moving:
            return False
        no_python = self.rank.kind == "child" and self.knows_children and not self.frames
        in_call = bool(self.native_main) and not self.native_main[0].function.startswith(_EVALUATES)
        return no_python or in_call

    @property
    def works(self) -> bool:
        """Whether anything in it or below it computes: the main thread, another, a child."""
        return self.computes or progress.others_compute(self.before, self.after)

    @property
    def is_starved(self) -> bool:
        """Whether anything in it or below it was ready to run, and got no processor."""
        return bool(self.after.starved or self.after.others_starved)

    @property
    def may_be_starved(self) -> bool:
        """Whether another look would tell: that of a thread which was ready at the last one."""
        return self.after.runnable > 0 and not self.computes

    @cached_property
    def sets_up(self) -> bool:
        """Whether it is in a constructor, or in code that a module runs when it is imported."""
        return any(
            frame.function.rpartition(".")[2] == "__init__"
            or frame.file.startswith("<frozen importlib")
            for frame in self.frames
        )

    @cached_property
    def progress(self) -> tuple[str, ...]:
        """What shows that it has made progress, as text; empty: nothing does."""
        return progress.signs(
            progress.Facts(
                self.before,
                self.after,
                moved=self.moving and not self._only_looks_again,
                entered_collective=self.counted_on,
                reported_step=self.stepped,
                variables_changed=self.gets_results,
                tasks_moved=self.tasks_moved,
                gpu_busy=any(sign.name == "busy" for sign in self.gpus),
            )
        )

    @cached_property
    def _only_looks_again(self) -> bool:
        """Whether its samples differ within one wait of the standard library, which its timer ends:
        on a busy machine a thread stays for long where it looks again, and py-spy, which does
        not stop it, may read the lines of two moments."""
        outside = {
            tuple(dropwhile(lambda frame: is_standard_library(frame.file), stack.frames))
            for sample in self.samples
            for stack in sample
            if stack.main
        }
        return (
            len(outside) == 1
            and not self.computes
            and progress.only_timers_wake(self.before, self.after)
        )

    @property
    def stirred(self) -> bool:
        return bool(self.progress)

    @property
    def does_steps(self) -> bool:
        """Whether it goes on with its steps, or with collectives. Those that it enters while its main
        thread has not run are of another thread: a heartbeat."""
        ran = self.moving or self.computes or self.after.switches > self.before.switches
        return self.stepped or (self.entered_more and ran)

    @property
    def supplied(self) -> bool:
        """Whether what it waits for arrives, piece by piece, or it moves data: it is at work,
        however long it is in one line."""
        return not self.computes and progress.is_supplied(self.before, self.after)

    @property
    def moves_data(self) -> bool:
        return progress.moves_data(self.before, self.after)

    @property
    def motionless(self) -> bool:
        """Whether its main thread has done nothing but wait, and its timers have woken it."""
        return not (self.stirred or self.computes)

    @property
    def state(self) -> str:
        """Of the process. One at work is in state D for a moment now and then (a page fault, a
        read), or a probe reads it: what counts is one that was and is in it."""
        momentary = self.after.state in ("D", "t")
        if momentary and (self.before.state != self.after.state or self.moving):
            return "S"
        return self.after.state

    @property
    def stop(self) -> str:
        """Why it is stopped in the debugger, if it is."""
        if self.rank.state == "stopped" and self.after.state not in ("T", "t"):
            return self.rank.detail or "stopped"
        return ""

    @property
    def shown_place(self) -> Frame | None:
        """Its place; in the debugger, the line at which it has stopped: that may be in another
        thread than the main one, as in actors of Ray that are asynchronous."""
        return (self.rank.where if self.stop else None) or self.place

    @property
    def is_held_at_exception(self) -> bool:
        return self.stop.partition(":")[0] == "post-mortem"


@lru_cache(maxsize=4096)
def _users_place(frames: Frames) -> int:
    return innermost_user_frame(frame.file for frame in frames)


def why_ended(ranks: Iterable[Rank]) -> str:
    """` (REASON; REASON)`: what is known of how these have ended; empty if nothing is."""
    known = (rank.detail for rank in ranks if rank.state == "gone")
    reasons = [*dict.fromkeys(detail for detail in known if detail not in ("", identity.ENDED))]
    return f" ({'; '.join(reasons[:_MOST_REASONS])})" if reasons else ""


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
    worlds: Sequence[World] = ()  # by flight recorders, where there are any
    unseen_nodes: Sequence[str] = ()
    gone: Sequence[Rank] = ()  # ranks that have ended while others go on
    others: Sequence[Rank] = ()  # of the same job, which were not to be looked at
    ray: RayEvidence | None = None  # Ray's tables, of a job of Ray
    helpers: Sequence[Seen] = ()  # processes that are no ranks, at the end of a wait
    owners: OwnerEvidence = field(default_factory=OwnerEvidence)  # of what the accused wait for
    unanswered: Sequence[Unanswered] = ()  # connections between ranks
    dumped: bool = False  # stack dumps of others: samples without times, states and waits

    @cached_property
    def watched(self) -> float:
        """Seconds."""
        return max((seen.seconds for seen in self.ranks), default=0.0)

    @cached_property
    def missing(self) -> tuple[Rank, ...]:
        """Ranks that a job of this size should have and no process is."""
        if self.unseen_nodes:
            return ()
        return missing_ranks([*(seen.rank for seen in self.ranks), *self.gone, *self.others])
