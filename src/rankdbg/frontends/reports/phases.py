"""Phases of ranks, folded, as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rankdbg.frontends.terminal import Terminal, cut, cut_path, duration
from rankdbg.masking import mask_text
from rankdbg.selection import format_numbers
from rankdbg.verdicts.phases import Course, Stay


class PhaseReport:
    def __init__(self, courses: Sequence[Course]) -> None:
        self.courses = courses

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
                "ended": course.ended,
                "history": [_stay_json(stay) for stay in course.stays],
            }
            for course in self.courses
        ]

    def print(self, terminal: Terminal) -> None:
        """A block for each group of ranks with the same phases."""
        if not self.courses:
            terminal.print("no phase that a rule knows")
            return
        for course, members in self._groups():
            terminal.print(f"{terminal.bold(who_are(members))}   {course.now.rule.stack}")
            for stay in course.stays[-12:]:
                begin = (
                    "" if stay.begin is None else f"{datetime.fromtimestamp(stay.begin):%H:%M:%S}"
                )
                terminal.print(f"  {begin:8}  {phase_name(stay):24}  {_length(stay):>7}")
            if course.now.detail:
                terminal.print(f"  last: {phase_name(course.now)}{_step(course.now)}")
            self._print_state(terminal, course, "  ")

    def print_now(self, terminal: Terminal) -> None:
        """Where they are, in a line a group."""
        for course, members in self._groups():
            phase = f"{course.now.rule.stack}, {phase_name(course.now)}{_step(course.now)}"
            text = f"{who_are(members)}: {phase}{_when(course.now)}"
            terminal.print(f"{'phase':10}{cut(text, terminal.width - 10)}")
            self._print_state(terminal, course, " " * 10)

    def _print_state(self, terminal: Terminal, course: Course, indent: str) -> None:
        if course.ended:
            terminal.print(f"{indent}its process has ended")
        if course.silent is None or not course.now.rule.quiet:
            return
        if course.silent < 60 and not course.stalled:
            return
        allowed = duration(course.now.rule.quiet)
        words = "longer than" if course.stalled else "within"
        text = f"silent for {duration(course.silent)}, {words} the {allowed} of this phase"
        terminal.print(indent + (terminal.red(text) if course.stalled else text))
        for line in textwrap.wrap(course.now.rule.note, terminal.width - len(indent)):
            terminal.print(indent + terminal.dim(line))

    def _groups(self) -> list[tuple[Course, list[Course]]]:
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
        return [(members[0], members) for members in groups.values()]


def who_are(members: Sequence[Course]) -> str:
    ranks = [course.who.rank for course in members if course.who.rank is not None]
    if ranks:
        roles = {course.who.actor for course in members}
        role = f"{next(iter(roles))} " if len(roles) == 1 and "" not in roles else ""
        return f"{role}rank{'s' if len(ranks) > 1 else ''} {cut(format_numbers(ranks), 40)}"
    first = members[0]
    if len(members) == 1 and first.writers:
        name = cut_path(first.path, 24)
        return f"rank{'s' * (len(first.writers) > 1)} {format_numbers(first.writers)} ({name})"
    name = first.who.actor or cut_path(first.path, 40)
    return f"{len(members)} × {name}" if len(members) > 1 else name


def phase_name(stay: Stay) -> str:
    return stay.rule.phase + (" done" if stay.over else "")


def _step(stay: Stay) -> str:
    step = "" if stay.step is None else f" {stay.step}"
    return step + (f", {stay.detail}" if stay.detail else "")


def _when(stay: Stay) -> str:
    """Since when it is in the phase; of a detail, when that was said."""
    word, time = ("at", stay.end) if stay.detail else ("since", stay.begin)
    return "" if time is None else f" {word} {datetime.fromtimestamp(time):%H:%M:%S}"


def _length(stay: Stay) -> str:
    if stay.begin is None or stay.end is None or stay.end <= stay.begin:
        return ""
    return duration(stay.end - stay.begin)


def _stay_json(stay: Stay) -> dict[str, Any]:
    times = [stay.begin, stay.end]
    begin, end = [None if t is None else datetime.fromtimestamp(t).isoformat() for t in times]
    return {"phase": phase_name(stay), "begin": begin, "end": end, "step": stay.step}
