"""A case with those who are accused, and for how long others have waited for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from rankdbg.verdicts.collectives.worlds import World
from rankdbg.verdicts.hangs import culprits
from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.case import Case


class AccusedCase(Case):
    @cached_property
    def findings(self) -> list[Accusation]:
        return culprits.find(self)

    @cached_property
    def worlds(self) -> Sequence[World]:
        """The one of the accused; else all."""
        accused = self.findings[0].world if self.findings else None
        return self.evidence.worlds if accused is None else [accused]

    @cached_property
    def waited(self) -> float | None:
        """For how long the ranks of a collective have been in it, as recorders know, or a task has
        run, as Ray knows."""
        if self.findings and self.findings[0].waited is not None:
            return self.findings[0].waited
        ages = [
            (found.job.traces[number].now - wait.operation.created) / 1e9
            for found in (world.findings for world in self.worlds)
            for number, wait in found.waits.items()
            if found.job.traces[number].now and wait.operation.created
        ]
        return max(ages, default=None)

    @cached_property
    def quiet(self) -> float | None:
        """For how long of that time the accused have called nothing themselves, as recorders know:
        one that goes on with collectives of other ranks may come."""
        accused = self.findings[0] if self.findings else None
        if self.waited is None or accused is None or accused.world is None:
            return self.waited
        traces = accused.world.findings.job.traces
        numbers = accused.culprit.ranks if accused.culprit is not None else ()
        known = [traces[number] for number in numbers if number in traces and traces[number].now]
        since = [
            (trace.now - max(op.created for op in trace.operations)) / 1e9
            for trace in known
            if trace.operations
        ]
        return min([self.waited, *since])

    @cached_property
    def go_on(self) -> bool:
        """Whether one of those that are missing from a collective does steps, or other collectives."""
        accused = self.findings[0]
        missing = (
            accused.world.of(accused.culprit.ranks) if accused.world and accused.culprit else ()
        )
        signs = [self.by_process[r.process] for r in missing if r.process in self.by_process]
        return any(sign.seen.does_steps for sign in (*accused.signs, *signs))

    @cached_property
    def asleep(self) -> float | None:
        """For how long those that wait have not run, at least; where none waits, the accused. None if
        that is not known of any: a watchdog wakes them, or the kernel does not tell."""
        signs = self.waiting or (self.findings[0].signs if self.findings else ())
        known = [sign.seen.asleep for sign in signs if sign.seen.asleep is not None]
        return min(known, default=None)

    @cached_property
    def usual(self) -> float | None:
        """The longer ones of the times between two collectives of a rank; the longest that other
        tasks of the same function took."""
        if self.findings and self.findings[0].chain:
            return self.findings[0].usual
        gaps: list[float] = []
        for trace in (t for world in self.worlds for t in world.findings.job.traces.values()):
            times = sorted(op.created for op in trace.operations if op.finished and op.created)
            gaps += [(b - a) / 1e9 for a, b in pairwise(times)]
        return sorted(gaps)[int(0.9 * (len(gaps) - 1))] if len(gaps) >= 2 else None
