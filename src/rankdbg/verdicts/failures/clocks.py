"""One clock for all lines of a job.

Nodes print their local time, clocks run apart, kernels count from their boot. Ranks that train
together end a step together: if the lines about the same steps always come 40 seconds later on one
host than on the others, its clock is 40 seconds ahead. Where hosts have no steps in common, logs
that begin and end whole quarters of an hour apart are in different time zones. Clocks that nothing
ties together are not compared.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, mode
from typing import Literal

from rankdbg.logs.expressions import expression
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file
from rankdbg.verdicts.failures.identities import Identities
from rankdbg.verdicts.failures.log_lines import Origin, Origins, read_stamp
from rankdbg.verdicts.rules import clues
from rankdbg.verdicts.rules.log_rules import LogRules

STEPS = 3  # that a host must have in common with the others
LEAST = 3.0  # seconds; less may be the work itself
# Seconds by which the difference may vary: a rank that falls behind has no clock error.
SPREAD = 2.0
# Lines about steps that are looked at: of a file, and of all files together.
MOST, FEWEST, ALL = 180, 16, 20_000
QUARTER = 900.0  # time zones differ by multiples of it
NEAR = 300.0  # how exactly logs of one job begin and end together

_OFFSET = re.compile(r":\d\d(?:[.,]\d+)? ?[+-]\d\d:?\d\d$")
_TIMED_OUT = re.compile(r"timeout: WorkNCCL\(SeqNum=(?P<number>\d+), OpType=(?P<kind>\w+)")

_Clock = int | str  # a host; else a rank, or a file whose rank is not known
_Step = tuple[str, str]
Tie = Literal["steps", "zone", "assumed", "none"]


@dataclass(frozen=True)
class Correction:
    """What one clock shows, compared with most others."""

    ahead: float = 0.0  # seconds
    tie: Tie = "assumed"
    steps: int = 0  # that tie it


class Clocks:
    def __init__(
        self,
        scans: Sequence[FileScan],
        rules: LogRules,
        origins: Origins,
        year: int,
        identities: Identities | None = None,
    ) -> None:
        self._origins = origins
        self._identities = identities or Identities(scans, origins)
        self._year = year
        self._booted = {s.path: at for s in scans if (at := _boot_of(s, year)) is not None}
        self._steps_are_zoned = False
        self.steps = self._times(scans, rules)
        self.corrections = _by_steps(self.steps)
        # A kernel's clock with a zone says nothing of its order among lines without one.
        own = [scan.last_stamp for scan in scans if not is_kernel_file(scan.path)]
        self._zoned = self._steps_are_zoned if self.steps else any(map(has_zone, own))
        self.corrections |= self._by_timeouts(scans)
        self._add_by_ranges(scans)

    def ahead(self, path: str, hit: Hit) -> float:
        return self._correction(path, hit).ahead

    def time(self, path: str, hit: Hit) -> float | None:
        """By the clock of most hosts."""
        if (known := self._time_since_boot(path, hit)) is not None:
            return known
        time = read_stamp(hit.stamp, self._year) if hit.stamp else None
        return None if time is None else time - self.ahead(path, hit)

    def host_of(self, who: Origin, path: str) -> str:
        """Where a process runs, or what its file is called; empty if that is not known."""
        if who.address:
            return self._identities.host_named(who.address)
        if who.rank is None:
            return self._identities.place_of_path(path)
        return self._identities.host_of_rank(who.rank) or self._identities.host_of_path(path)

    def is_comparable(self, path: str, hit: Hit) -> bool:
        """Whether its order among the lines of other hosts is known."""
        if is_kernel_file(path) and not (self._zoned and self.is_zoned(path, hit)):
            return False
        if self.is_zoned(path, hit) and self._zones_are_mixed:
            return False
        return self._correction(path, hit).tie != "none"

    def is_tied(self, path: str) -> bool:
        """Whether the clock of a file can be compared with the others."""
        correction = self.corrections.get(self._clock_of_path(path), Correction())
        return correction.tie != "none"

    def is_zoned(self, path: str, hit: Hit) -> bool:
        """Whether its clock says its zone."""
        return has_zone(hit.stamp) or self._time_since_boot(path, hit) is not None

    def is_exact(self, path: str, hit: Hit) -> bool:
        """Whether the line has a clock of its own."""
        own = bool(hit.stamp) and hit.stamp in f"{hit.head} {hit.text}"
        return own or self._time_since_boot(path, hit) is not None

    def _time_since_boot(self, path: str, hit: Hit) -> float | None:
        """Of a line that counts from the boot, in a log that tells when that was."""
        booted = self._booted.get(path)
        found = clues.find(clues.SINCE_BOOT, hit.text) if booted is not None else None
        return booted + float(found["seconds"]) if booted is not None and found else None

    @property
    def _zones_are_mixed(self) -> bool:
        """Where hosts print the times of several zones and do not say which, a line that does say it
        cannot be placed among theirs."""
        apart = (abs(found.ahead) for found in self.corrections.values())
        return not self._steps_are_zoned and max(apart, default=0.0) >= 2 * QUARTER

    def as_printed(self, stamp: str) -> float | None:
        """Whatever the zone of its clock."""
        return read_stamp(stamp, self._year) if stamp else None

    def time_of_stamp(self, path: str, stamp: str) -> float | None:
        time = read_stamp(stamp, self._year) if stamp else None
        correction = self.corrections.get(self._clock_of_path(path), Correction())
        return None if time is None else time - correction.ahead

    def _correction(self, path: str, hit: Hit) -> Correction:
        for clock in (self._clock(path, hit), self._clock_of_path(path)):
            if clock in self.corrections:
                return self.corrections[clock]
        return Correction()

    def _clock(self, path: str, hit: Hit) -> _Clock:
        if host := self._identities.host_of_path(path):
            return host
        rank = self._origins.of(path, hit).rank
        if rank is None:
            return path
        return self._identities.host_of_rank(rank) or rank

    def _clock_of_path(self, path: str) -> _Clock:
        return self._identities.host_of_path(path) or path

    def _times(
        self, scans: Sequence[FileScan], rules: LogRules
    ) -> dict[_Clock, dict[_Step, float]]:
        """Of lines with a clock of their own; a progress bar has that of some line above it."""
        exact: dict[_Clock, dict[_Step, float]] = {}
        above: dict[_Clock, dict[_Step, float]] = {}
        for scan in scans:
            for hit in step_hits(scan, len(scans), rules):
                step = step_of(hit, rules)
                time = read_stamp(hit.stamp, self._year) if step and hit.stamp else None
                if step and time is not None:
                    self._steps_are_zoned |= has_zone(hit.stamp)
                    times = exact if self.is_exact(scan.path, hit) else above
                    own = times.setdefault(self._clock(scan.path, hit), {})
                    own[step] = min(time, own.get(step, time))
        return above | exact

    def _by_timeouts(self, scans: Sequence[FileScan]) -> dict[_Clock, Correction]:
        """Of clocks that no steps tie. Ranks that have waited in the same collective give up within
        minutes of each other: if that is hours apart, they are in other zones."""
        times: dict[_Clock, dict[_Step, float]] = {}
        for scan in scans:
            for hit in scan.hits:
                found = _TIMED_OUT.search(hit.text) if "WorkNCCL(" in hit.text else None
                time = self.as_printed(hit.stamp) if found else None
                if found and time is not None:
                    own = times.setdefault(self._clock(scan.path, hit), {})
                    step = found["number"], found["kind"]
                    own[step] = min(time, own.get(step, time))
        if len(times) < 2:
            return {}
        pivot = max(times, key=lambda clock: (clock in self.corrections, len(times[clock])))
        ahead = self.corrections.get(pivot, Correction()).ahead
        zones = {pivot: ahead}
        for clock, own in times.items():
            apart = [
                time - times[pivot][step] for step, time in own.items() if step in times[pivot]
            ]
            if apart and (zone := _zones(median(apart))) is not None:
                zones[clock] = ahead + zone
        usual = 0.0 if pivot in self.corrections else mode(zones.values())
        return {
            clock: Correction(zone - usual, "zone")
            for clock, zone in zones.items()
            if clock not in self.corrections
        }

    def _add_by_ranges(self, scans: Sequence[FileScan]) -> None:
        ranges = self._ranges(scans)
        tied = [clock for clock, found in self.corrections.items() if found.tie != "none"]
        usual = [self._corrected(clock, ranges) for clock in tied if clock in ranges]
        if not usual:
            # The longest log is the job's own.
            longest = max(ranges.values(), key=lambda r: r[1] - r[0], default=None)
            usual = [longest] if longest else []
        if not usual:
            return
        begin, end = median(first for first, _ in usual), median(last for _, last in usual)
        for clock, (first, last) in ranges.items():
            if clock not in self.corrections:
                self.corrections[clock] = _by_range(first - begin, last - end, begin - end)

    def _corrected(
        self, clock: _Clock, ranges: Mapping[_Clock, tuple[float, float]]
    ) -> tuple[float, float]:
        ahead = self.corrections[clock].ahead
        return ranges[clock][0] - ahead, ranges[clock][1] - ahead

    def _ranges(self, scans: Sequence[FileScan]) -> dict[_Clock, tuple[float, float]]:
        """When the logs of each host begin and end, kernels' aside, which are older than jobs."""
        found: dict[_Clock, tuple[float, float]] = {}
        for scan in scans:
            if is_kernel_file(scan.path):
                continue
            first = read_stamp(scan.first_stamp, self._year) if scan.first_stamp else None
            last = read_stamp(scan.last_stamp, self._year) if scan.last_stamp else None
            if first is not None and last is not None and first <= last:
                clock = self._clock_of_path(scan.path)
                begin, end = found.get(clock, (first, last))
                found[clock] = min(begin, first), max(end, last)
        return found


def _boot_of(scan: FileScan, year: int) -> float | None:
    """When the kernel of this log was started, by its head, or by the last line that tells it: clocks
    are set. None if most others tell something else: then they quote other times."""
    hits = [hit for hit in scan.hits if hit.pattern == clues.BOOT]
    heads = filter(None, (clues.find(clues.BOOT_TOLD, hit.text) for hit in hits))
    if head := next(heads, None):
        return read_stamp(head["at"], year)
    told = [
        float(found["audit"] or found["rtc"]) - float(found["seconds"])
        for hit in hits
        if (found := clues.find(clues.BOOT_TIME, hit.text))
    ]
    alike = [boot for boot in told if abs(boot - told[-1]) < NEAR]
    return told[-1] if told and 2 * len(alike) > len(told) else None


def _zones(difference: float) -> float | None:
    """As time zones differ; 0: they are the same; None: it is something else."""
    zones = round(difference / QUARTER) * QUARTER
    if abs(difference - zones) > NEAR:
        return None
    return zones if abs(zones) >= 2 * QUARTER else 0.0


def _by_range(begins: float, ends: float, length: float) -> Correction:
    """How much later a log begins and ends than others do; `length` is how long these are, less
    than zero."""
    for difference in (ends, begins):
        zones = round(difference / QUARTER) * QUARTER
        if abs(zones) >= 2 * QUARTER and max(abs(begins - zones), abs(ends - zones)) < NEAR:
            return Correction(zones, "zone")
    apart = begins > -length + NEAR or ends < length - NEAR
    return Correction(0.0, "none" if apart else "assumed")


def step_hits(scan: FileScan, files: int, rules: LogRules) -> list[Hit]:
    """Lines that may tell of steps: the first, the last, and some between, the fewer the more files.
    Other phases are left out: in a file of many ranks, their lines are more than those of steps."""
    most = max(FEWEST, min(MOST, ALL // files))
    steps = {f"phase:{number}" for number, rule in enumerate(rules.phases) if rule.repeats}
    found = [hit for hit in scan.hits if hit.pattern == clues.PROGRESS or hit.pattern in steps]
    found.sort(key=lambda hit: hit.offset)
    if len(found) <= most:
        return found
    third = most // 3
    middle = found[third:-third]
    return [*found[:third], *middle[:: -(-len(middle) // (most - 2 * third))], *found[-third:]]


def step_of(hit: Hit, rules: LogRules) -> _Step | None:
    """The step of a line that says that a step is done."""
    if hit.pattern == clues.PROGRESS:
        step = clues.step_in(hit.text)
        return ("", step) if step else None
    if not hit.pattern.startswith("phase:"):
        return None
    rule = rules.phases[int(hit.pattern.partition(":")[2])]
    for _, regex in rule.match if rule.repeats else ():
        named = "(?P<step>" in regex and expression(regex, f"rule {rule.stack}: {rule.phase}")
        match = named.search(hit.text) if named else None
        if match and (number := match.groupdict().get("step")):
            return rule.stack, str(number)
    return None


def _by_steps(times: Mapping[_Clock, Mapping[_Step, float]]) -> dict[_Clock, Correction]:
    """By how much each clock differs from the largest group of clocks that agree."""
    if len(times) < 2:
        return {}
    pivot = max(times, key=lambda clock: len(times[clock]))
    differences: dict[_Clock, tuple[float, int]] = {}
    for clock, own in times.items():
        apart = [time - times[pivot][step] for step, time in own.items() if step in times[pivot]]
        if len(apart) >= STEPS and _spread(apart) <= SPREAD:
            differences[clock] = median(apart), len(apart)
    agreed = _largest_group([own for own, _ in differences.values()]) or [0.0]
    usual = 0.0 if len(agreed) * 2 <= len(differences) else median(agreed)
    return {
        clock: Correction(own - usual if abs(own - usual) >= LEAST else 0.0, "steps", count)
        for clock, (own, count) in differences.items()
    }


def _largest_group(values: Sequence[float]) -> Sequence[float]:
    """Those around one of the values, in order."""
    ordered = sorted(values)
    around = [
        (bisect_right(ordered, each - LEAST), bisect_left(ordered, each + LEAST)) for each in values
    ]
    begin, end = max(around, key=lambda found: found[1] - found[0], default=(0, 0))
    return ordered[begin:end]


def _spread(values: Sequence[float]) -> float:
    """Without the few that a slow line or a save has put off."""
    ordered = sorted(values)
    off = len(ordered) // 20
    return ordered[-1 - off] - ordered[off]


def has_zone(stamp: str) -> bool:
    return stamp.endswith(("Z", "UTC", "GMT")) or bool(_OFFSET.search(stamp))
