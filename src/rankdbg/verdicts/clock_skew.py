"""Nodes whose clocks differ: told by steps that all ranks have in common.

Ranks that train together end a step together. If the lines about the same steps always come 40
seconds later on one node than on the others, its clock is 40 seconds ahead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.log_lines import Origins, read_stamp
from rankdbg.verdicts.log_rules import LogRules

STEPS = 3  # that a rank must have in common with the others
LEAST = 5.0  # seconds; less may be the work itself
# Seconds by which the difference may vary: a rank that falls behind has no clock error.
SPREAD = 2.0

_Speaker = int | str  # a rank, or a file whose rank is not known


class Clocks:
    """How many seconds the clock of each rank is ahead of most others'."""

    def __init__(
        self, scans: Sequence[FileScan], rules: LogRules, origins: Origins, year: int
    ) -> None:
        self._origins = origins
        times: dict[_Speaker, dict[tuple[str, str], float]] = {}
        for scan in scans:
            for hit in scan.hits:
                step = _step(hit, rules)
                time = read_stamp(hit.stamp, year) if step and hit.stamp else None
                if step and time is not None:
                    own = times.setdefault(self._speaker(scan.path, hit), {})
                    own.setdefault(step, time)
        self._ahead = _ahead(times)

    def ahead(self, path: str, hit: Hit) -> float:
        return self._ahead.get(self._speaker(path, hit), 0.0) if self._ahead else 0.0

    def _speaker(self, path: str, hit: Hit) -> _Speaker:
        rank = self._origins.of(path, hit).rank
        return path if rank is None else rank


def _step(hit: Hit, rules: LogRules) -> tuple[str, str] | None:
    if not hit.pattern.startswith("phase:"):
        return None
    rule = rules.phases[int(hit.pattern.partition(":")[2])]
    for _, regex in rule.match if rule.repeats else ():
        if "(?P<step>" in regex and (match := re.search(regex, hit.text)):
            return rule.stack, match["step"]
    return None


def _ahead(times: dict[_Speaker, dict[tuple[str, str], float]]) -> dict[_Speaker, float]:
    by_step: dict[tuple[str, str], list[float]] = {}
    for own in times.values():
        for step, time in own.items():
            by_step.setdefault(step, []).append(time)
    usual = {step: median(group) for step, group in by_step.items() if len(group) > 2}
    found = {}
    for speaker, own in times.items():
        differences = [time - usual[step] for step, time in own.items() if step in usual]
        if len(differences) < STEPS or max(differences) - min(differences) > SPREAD:
            continue
        if abs(median(differences)) >= LEAST:
            found[speaker] = median(differences)
    return found
