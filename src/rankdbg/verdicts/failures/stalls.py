"""Who holds a job up in which nothing has failed: of all processes that write nothing, those that
the others can be waiting for.

A process that is done with a phase, or that is in one in which it waits for others, is not the cause
while another is in the middle of its own work. Of processes that do the same work step by step, the
few that are a step behind hold up the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from rankdbg.verdicts.failures.job_phases import LAUNCHERS, Course

TOGETHER = 30.0  # seconds within which ranks write their last lines that come to one barrier
EARLIER = 120.0  # by which one has been silent before, that has not come there


@dataclass(frozen=True)
class Stall:
    """`waiting`: those whose silence it explains. `of_job`: no step is done any more, and nothing says
    which rank holds up the others: often only one of them writes."""

    courses: tuple[Course, ...]
    waiting: tuple[Course, ...]
    of_job: bool = False

    @property
    def worst(self) -> Course:
        """The one that has written nothing for the longest time."""
        return max(self.courses, key=lambda course: course.silent or 0.0)

    @property
    def host(self) -> str:
        """Empty if they are on several, or it is not known."""
        hosts = {course.host for course in self.courses}
        return hosts.pop() if len(hosts) == 1 else ""


def with_waits(courses: Sequence[Course]) -> list[Course]:
    """The same, those marked that wait for others."""
    overdue = [course for course in courses if course.overdue]
    working = [course for course in overdue if not course.now.over and not course.now.rule.waits]
    behind = [course for peers in _peers(working) for course in _behind(peers)] or working
    if not behind:
        return [*courses]
    held_up_by = {id(course) for course in behind}
    return [
        replace(course, waits=True) if course.overdue and id(course) not in held_up_by else course
        for course in courses
    ]


def find_stall(courses: Sequence[Course]) -> Stall | None:
    stalled = tuple(course for course in courses if course.stalled)
    if not stalled or _goes_on(courses, stalled):
        return None
    waiting = tuple(course for course in courses if course.waits)
    are_apart = {*map(_work, stalled)}.isdisjoint(map(_work, waiting))
    return Stall(stalled, waiting, all(each.now.rule.repeats for each in stalled) and are_apart)


def _goes_on(courses: Sequence[Course], stalled: Sequence[Course]) -> bool:
    """Whether others have continued with the same work: then a stalled one may only have stopped writing.

    the stalled one       who has continued
    any                   one of its stack that does steps
    a launcher            any that does steps: the start is over
    is at one phase       any that counts its steps
    """
    newest: dict[str, float] = {}  # by stack: since when the last to do a step has written nothing
    for course in courses:
        if course.now.rule.repeats and course.silent is not None and not course.overdue:
            stack = course.now.rule.stack
            newest[stack] = min(course.silent, newest.get(stack, course.silent))
    last_step = min(newest.values(), default=inf)
    last_counted = min(map(_since_step, courses), default=inf)
    for course in stalled:
        now, half = course.now.rule, (course.silent or 0.0) / 2
        continued = newest.get(now.stack, inf)
        if now.stack in LAUNCHERS:
            continued = min(continued, last_step)
        if not now.repeats:
            continued = min(continued, last_counted)
        if continued < half:
            return True
    return False


def _since_step(course: Course) -> float:
    """Seconds since one that counts its steps, and continues, has written; else infinite."""
    counts = course.now.rule.repeats and course.now.step is not None and not course.overdue
    return course.silent if counts and course.silent is not None else inf


def _work(course: Course) -> tuple[str, str]:
    """What it does: those with the same are peers."""
    return course.now.rule.stack, course.who.actor


def _peers(courses: Sequence[Course]) -> list[list[Course]]:
    groups: dict[tuple[str, str], list[Course]] = {}
    for course in courses:
        groups.setdefault(_work(course), []).append(course)
    return [*groups.values()]


def _behind(peers: Sequence[Course]) -> list[Course]:
    """The few that have not done what most have; empty if there are none."""
    steps = [course.now.step for course in peers if course.now.step is not None]
    if not steps:
        return _silent_first(peers)
    furthest = max(steps)
    few = [
        course
        for course in peers
        if course.now.step is not None and course.now.step + course.now.every <= furthest
    ]
    return few if 0 < 2 * len(few) < len(peers) else []


def _silent_first(peers: Sequence[Course]) -> list[Course]:
    """The few that had written nothing for a while when all others wrote their last lines, at one
    moment and in the same phase: these have come to where they wait for all."""
    silences = [course.silent for course in peers if course.silent is not None]
    phases = {course.now.rule.phase for course in peers}
    if len(silences) < len(peers) or len(phases) > 1:
        return []
    usual = median(silences)
    few = [course for course in peers if (course.silent or 0.0) > usual + EARLIER]
    together = [silence for silence in silences if abs(silence - usual) <= TOGETHER]
    apart = len(few) + len(together) < len(peers)
    return few if 0 < 2 * len(few) < len(peers) and not apart else []
