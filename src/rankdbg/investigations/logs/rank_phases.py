"""The phases of ranks as a value: where each is, since when, and whether its silence is normal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rankdbg.investigations.results import Result
from rankdbg.process.masking import mask_text
from rankdbg.selection import format_numbers
from rankdbg.text.amounts import duration
from rankdbg.text.cutting import cut, cut_path
from rankdbg.verdicts.failures.job_phases import LAUNCHERS, Course, RankPhase

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart


@dataclass(frozen=True, repr=False)
class RankPhases(Result):
    courses: Sequence[Course]

    def as_json(self) -> dict[str, Any]:
        return {"phases": self.rows()}

    def evidence(self) -> list[str]:
        """The line by which the phase of each is known."""
        return [f"{course.path}: {mask_text(course.now.line.strip())}" for course in self.courses]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "rank": course.who.rank,
                "process": course.who.actor,
                "pid": course.who.pid,
                "address": course.who.address,
                "file": course.path,
                "stack": course.now.rule.stack,
                "phase": phase_name(course.now),
                "step": course.now.step,
                "detail": course.now.detail,
                "silent_seconds": course.silent,
                "allowed_seconds": course.now.rule.quiet or None,
                "stalled": course.stalled,
                "waits": course.waits,
                "ended": course.ended,
                "history": [_stay_json(stay) for stay in course.stays],
            }
            for course in self.courses
        ]

    def groups(self) -> list[tuple[Course, list[Course]]]:
        return [(members[0], members) for members in self.members()]

    def members(self) -> list[list[Course]]:
        """Those with the same role that have gone the same way are together."""
        groups: dict[tuple[object, ...], list[Course]] = {}
        for course in self.courses:
            key = (
                course.who.actor,
                tuple(phase_name(stay) for stay in course.stays[-12:]),
                course.now.step,
                course.now.detail,
                course.stalled,
                course.ended,
            )
            groups.setdefault(key, []).append(course)
        return _with_nameless(groups)

    def telling(self) -> list[tuple[Course, list[Course]]]:
        """That a launcher has started is no news beside the phases of what it has launched."""
        groups = self.groups()
        return [group for group in groups if not _has_only_started(group[0])] or groups

    def summary(self) -> str:
        if not self.courses:
            return "no phase that a rule knows"
        return "; ".join(now_text(*group) for group in self.telling())

    def records(self) -> list[dict[str, Any]]:
        return [
            {key: value for key, value in row.items() if key != "history"} for row in self.rows()
        ]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Table, TableRow

        rows = [
            TableRow(
                (
                    who_are(members),
                    f"{phase_text(course)}{when_text(course.now)}",
                    silence_text(course),
                ),
                "stalled" if course.stalled else "",
            )
            for course, members in self.telling()
        ]
        return [Table(("ranks", "phase", ""), rows)]


def _with_nameless(groups: Mapping[tuple[object, ...], list[Course]]) -> list[list[Course]]:
    """Ray's driver copies a line that many actors write only once: ranks that it does not name are
    of the one role whose other ranks are where they are."""
    joined = dict(groups)
    roles: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for key in groups:
        if key[0]:
            roles.setdefault(key[1:], []).append(key)
    for key, members in groups.items():
        named = roles.get(key[1:], [])
        if not key[0] and len(named) == 1 and _are_others(members, joined[named[0]]):
            joined[named[0]] = sorted([*joined[named[0]], *members], key=_number)
            del joined[key]
    return [*joined.values()]


def _number(course: Course) -> int:
    return course.who.rank or 0


def _are_others(some: Sequence[Course], members: Sequence[Course]) -> bool:
    ranks = {course.who.rank for course in some}
    return None not in ranks and not ranks & {course.who.rank for course in members}


def now_text(course: Course, members: Sequence[Course]) -> str:
    return f"{who_are(members)}: {phase_text(course)}{when_text(course.now)}"


def phase_text(course: Course) -> str:
    return f"{course.now.rule.stack}, {phase_name(course.now)}{step_text(course.now)}"


def silence_text(course: Course) -> str:
    """`` if there is nothing to say about how long it has written nothing."""
    if course.silent is None or not course.now.rule.quiet:
        return ""
    if course.silent < 60 and not course.stalled:
        return ""
    if course.waits:
        return f"no output for {duration(course.silent)}; waits for others"
    allowed = duration(course.now.rule.quiet)
    words = "longer than" if course.stalled else "within"
    return f"no output for {duration(course.silent)}, {words} the {allowed} of this phase"


def _has_only_started(course: Course) -> bool:
    return course.now.over and course.now.rule.stack in LAUNCHERS


def who_are(members: Sequence[Course]) -> str:
    ranks = [course.who.rank for course in members if course.who.rank is not None]
    if ranks:
        roles = {course.who.actor for course in members} - {""}
        role = f"{next(iter(roles))} " if len(roles) == 1 else ""
        return f"{role}rank{'s' if len(ranks) > 1 else ''} {cut(format_numbers(ranks), 40)}"
    first = members[0]
    if len(members) == 1 and first.writers:
        name = cut_path(first.path, 24)
        return f"rank{'s' * (len(first.writers) > 1)} {format_numbers(first.writers)} ({name})"
    if len(members) == 1:
        return first.who.actor or cut_path(first.path, 40)
    return f"{len(members)} × {first.who.actor or f'process of {first.now.rule.stack}'}"


def phase_name(stay: RankPhase) -> str:
    return stay.rule.phase + (" done" if stay.over else "")


def step_text(stay: RankPhase) -> str:
    step = "" if stay.step is None else f" {stay.step}"
    return step + (f", {stay.detail}" if stay.detail else "")


def when_text(stay: RankPhase) -> str:
    """Since when it is in the phase; of a detail, when that was said."""
    word, time = ("at", stay.end) if stay.detail else ("since", stay.begin)
    return "" if time is None else f" {word} {datetime.fromtimestamp(time):%H:%M:%S}"


def length_text(stay: RankPhase) -> str:
    if stay.begin is None or stay.end is None or stay.end <= stay.begin:
        return ""
    return duration(stay.end - stay.begin)


def _stay_json(stay: RankPhase) -> dict[str, Any]:
    times = [stay.begin, stay.end]
    begin, end = [None if t is None else datetime.fromtimestamp(t).isoformat() for t in times]
    return {"phase": phase_name(stay), "begin": begin, "end": end, "step": stay.step}
