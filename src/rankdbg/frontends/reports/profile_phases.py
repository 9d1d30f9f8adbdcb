"""The phases of a step in a profile, as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.profiles.profile_phases import PhaseTable
from rankdbg.profiles.step_phases import SimilarRanks
from rankdbg.verdicts.rules.profile_rules import OTHER

# As they follow each other in a step; phases of the user's own come after these.
_ORDER = ("data", "forward", "backward", "communication", "optimizer", "checkpoint", "compile")
# Phases that take less of all groups are left out of the table.
LEAST = 0.005
_SHORT = {"communication": "comm"}


def print_phase_table(
    terminal: Terminal, table: PhaseTable, percent: Callable[[float], str]
) -> None:
    names = [table.whose(group.indices) for group in table.groups]
    phases = _phases(table)
    while len(phases) > 2 and _width(phases, names) > terminal.width:
        told = [phase for phase in phases if phase != OTHER]
        phases.remove(min(told, key=lambda phase: _most(table, phase)))
    left = max(map(len, [*names, "RANKS"]))
    heading = "  ".join(f"{_heading(phase):>{_column(phase)}}" for phase in phases)
    terminal.print(f"{'RANKS':{left}}  {heading}")
    for name, group in zip(names, table.groups, strict=True):
        cells = (f"{percent(_share(group, p, phases)):>{_column(p)}}" for p in phases)
        terminal.print(f"{terminal.bold(f'{name:{left}}')}  {'  '.join(cells)}")


def _phases(table: PhaseTable) -> list[str]:
    found = {phase for group in table.groups for phase in group.shares} - {OTHER}
    told = [phase for phase in found if _most(table, phase) >= LEAST]
    place = {phase: index for index, phase in enumerate(_ORDER)}
    return [*sorted(told, key=lambda phase: (place.get(phase, len(place)), phase)), OTHER]


def _most(table: PhaseTable, phase: str) -> float:
    return max(group.shares.get(phase, 0.0) for group in table.groups)


def _width(phases: Sequence[str], names: Sequence[str]) -> int:
    return max(map(len, [*names, "RANKS"])) + sum(2 + _column(phase) for phase in phases)


def _heading(phase: str) -> str:
    return _SHORT.get(phase, phase).upper()


def _column(phase: str) -> int:
    return max(6, len(_heading(phase)))


def _share(group: SimilarRanks, phase: str, shown: Sequence[str]) -> float:
    """What has no column is among the others."""
    if phase != OTHER:
        return group.shares.get(phase, 0.0)
    return sum(s for name, s in group.shares.items() if name == OTHER or name not in shown)
