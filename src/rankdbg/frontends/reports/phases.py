"""Phases of ranks as text, ranks with the same phases together."""

from __future__ import annotations

import textwrap
from datetime import datetime

from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.investigations.logs.rank_phases import (
    RankPhases,
    length_text,
    now_text,
    phase_name,
    silence_text,
    step_text,
    who_are,
)
from rankdbg.verdicts.failures.job_phases import Course

MOST_PHASES = 12


def print_phases(terminal: Terminal, phases: RankPhases) -> None:
    """A block for each group of ranks with the same phases."""
    if not phases.courses:
        terminal.print("no phase that a rule knows")
        return
    for course, members in phases.groups():
        terminal.print(f"{terminal.bold(who_are(members))}   {course.now.rule.stack}")
        for stay in course.stays[-MOST_PHASES:]:
            begin = "" if stay.begin is None else f"{datetime.fromtimestamp(stay.begin):%H:%M:%S}"
            terminal.print(f"  {begin:8}  {phase_name(stay):24}  {length_text(stay):>7}")
        if course.now.detail:
            terminal.print(f"  last: {phase_name(course.now)}{step_text(course.now)}")
        _print_state(terminal, course, "  ")


def print_phases_now(terminal: Terminal, phases: RankPhases) -> None:
    """Where they are, in a line a group."""
    for course, members in phases.telling():
        terminal.print(f"{'phase':10}{cut(now_text(course, members), terminal.width - 10)}")
        _print_state(terminal, course, " " * 10)


def _print_state(terminal: Terminal, course: Course, indent: str) -> None:
    if course.ended:
        terminal.print(f"{indent}its process has ended")
    text = silence_text(course)
    if not text:
        return
    terminal.print(indent + (terminal.red(text) if course.stalled else text))
    for line in textwrap.wrap(course.now.rule.note, terminal.width - len(indent)):
        terminal.print(indent + terminal.dim(line))
