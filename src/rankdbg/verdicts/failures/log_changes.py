"""What has changed in a job's logs since the last look: phases, stalls, failures, each told once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rankdbg.verdicts.failures.findings import Finding
from rankdbg.verdicts.failures.job_phases import Course
from rankdbg.verdicts.failures.root_causes import Diagnosis, Failure

Kind = Literal["phase", "stall", "moves", "failure"]


@dataclass(frozen=True)
class Change:
    """One event, of all ranks on which it was seen in one look."""

    kind: Kind
    time: float | None  # as the log says; None: not known, about now
    courses: tuple[Course, ...] = ()
    failure: Failure | None = None
    findings: tuple[Finding, ...] = ()  # of the failure, those that are new


class Changes:
    """Remembers what was told."""

    def __init__(self) -> None:
        self._phases: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._stalled: set[tuple[object, ...]] = set()
        self._failures: set[tuple[object, ...]] = set()

    def since_last(self, courses: Sequence[Course], diagnosis: Diagnosis) -> list[Change]:
        found = [*self._new_phases(courses), *self._stalls(courses), *self._new_failures(diagnosis)]
        return sorted(found, key=lambda change: change.time or float("inf"))

    def _new_phases(self, courses: Iterable[Course]) -> Iterator[Change]:
        changed: dict[tuple[object, ...], list[Course]] = {}
        for course in courses:
            now = course.now
            phase = (now.rule.stack, now.rule.phase, now.over)
            if self._phases.get(_who(course)) != phase:
                self._phases[_who(course)] = phase
                changed.setdefault((course.who.actor, *phase), []).append(course)
        for same in changed.values():
            times = [time for course in same if (time := _begin(course)) is not None]
            yield Change("phase", min(times, default=None), tuple(same))

    def _stalls(self, courses: Iterable[Course]) -> Iterator[Change]:
        stalled: dict[tuple[object, ...], list[Course]] = {}
        moves: dict[tuple[object, ...], list[Course]] = {}
        for course in courses:
            who, phase = _who(course), (course.now.rule.stack, course.now.rule.phase)
            if course.stalled and who not in self._stalled:
                self._stalled.add(who)
                stalled.setdefault(phase, []).append(course)
            elif not course.stalled and who in self._stalled:
                self._stalled.discard(who)
                moves.setdefault(phase, []).append(course)
        for same in stalled.values():
            yield Change("stall", None, tuple(same))
        for same in moves.values():
            yield Change("moves", None, tuple(same))

    def _new_failures(self, diagnosis: Diagnosis) -> Iterator[Change]:
        for failure in diagnosis.failures:
            new = [finding for finding in failure.findings if _key(finding) not in self._failures]
            if new:
                self._failures |= {_key(finding) for finding in new}
                times = [finding.time for finding in new if finding.time is not None]
                yield Change(
                    "failure", min(times, default=None), failure=failure, findings=tuple(new)
                )


def _begin(course: Course) -> float | None:
    return course.now.end if course.now.over else course.now.begin


def _who(course: Course) -> tuple[object, ...]:
    who = course.who
    return (who.rank, who.actor) if who.rank is not None else (course.path, who.actor, who.pid)


def _key(finding: Finding) -> tuple[object, ...]:
    """A rank that fails a hundred times in the same way has failed in that way."""
    origin = finding.origin
    return finding.mode, finding.ranks or (finding.path, origin.pid), origin.actor
