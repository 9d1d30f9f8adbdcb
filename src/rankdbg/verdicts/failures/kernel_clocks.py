"""The zone of kernels' logs that do not say it.

`dmesg -T` prints local time without a zone, mostly UTC, and programs print another. If an error of a
kernel was not there when the job stopped, but would have been there in another zone, that is the
zone of the kernels' clocks: they then tell which errors the job has survived. If no zone brings any
error to that time, and all of them are within the job as they are printed, the clocks are the job's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rankdbg.verdicts.failures.clocks import QUARTER
from rankdbg.verdicts.failures.findings import Finding
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file

FARTHEST = 14 * 3600.0
# Hours from UTC of the zones that are not whole hours from it.
BROKEN = (2.5, 3.5, 4.5, 5.5, 5.75, 6.5, 8.75, 9.5, 10.5, 12.75)
BEFORE, AFTER = (
    120.0,
    600.0,
)  # seconds around the last step in which an error may have stopped a job


def in_the_zone_of_the_job(
    findings: Sequence[Finding],
    last_step: float | None,
    begin: float | None,
    is_over: Callable[[Finding], bool] = lambda finding: False,
    is_of_rank: Callable[[Finding], bool] = lambda finding: False,
) -> list[Finding]:
    """`last_step`: when the job did the last one; `begin`: when its logs begin. What is over by the
    kernel's own log has stopped no job, and tells no zone. `is_of_rank`: whether the process that
    it names is known as that of a rank."""
    unknown = [f for f in findings if _has_no_zone(f)]
    lasting = [f for f in unknown if not is_over(f)]
    stopped = _stopped(findings, last_step)
    ranks = [f for f in lasting if is_of_rank(f)]
    zone = _zone(ranks, lasting, stopped) if stopped is not None else None
    if zone is None and unknown and _are_within(unknown, begin, last_step):
        zone = 0.0
    if zone is None:
        return [*findings]
    return [
        replace(f, time=f.time + zone, comparable=True, zoned=False)
        if _has_no_zone(f) and f.time is not None
        else f
        for f in findings
    ]


def _are_within(findings: Sequence[Finding], begin: float | None, end: float | None) -> bool:
    if begin is None or end is None:
        return False
    return all(finding.time is not None and begin <= finding.time <= end for finding in findings)


def _has_no_zone(finding: Finding) -> bool:
    return is_kernel_file(finding.path) and not finding.comparable and finding.time is not None


def _stopped(findings: Sequence[Finding], last_step: float | None) -> float | None:
    """When the job did: lines about steps may have no clock of their own, but what has timed out says
    for how long it had been waited for."""
    waits = [
        finding.began
        for finding in findings
        if finding.rule.lasted and finding.comparable and finding.exact
        if finding.began is not None and (last_step is None or finding.began >= last_step)
    ]
    return min(waits, default=last_step)


def _zone(of_ranks: Sequence[Finding], findings: Sequence[Finding], stopped: float) -> float | None:
    """The difference by which an error that can be a cause was there at the end."""
    # What a kernel says of a process of the job was there while the job was: that decides first.
    # On a GPU of the job it may have been another job's.
    on_gpus = [finding for finding in findings if finding.ranks and finding.pid is not None]
    zones = (_smallest(each, stopped) for each in (of_ranks, on_gpus, findings))
    return next((zone for zone in zones if zone is not None), None)


def _smallest(findings: Sequence[Finding], last_step: float) -> float | None:
    found = []
    for finding in findings:
        if finding.rule.role != "root" or finding.time is None:
            continue
        for near in (-BEFORE, 0.0, AFTER):
            zone = round((last_step + near - finding.time) / QUARTER) * QUARTER
            at = finding.time + zone
            if _is_real(zone) and last_step - BEFORE <= at <= last_step + AFTER:
                found.append(zone)
    return min(found, key=abs, default=None)


def _is_real(zone: float) -> bool:
    """Whether it is the difference of a zone from UTC, which is the zone of most kernels' logs."""
    return abs(zone) <= FARTHEST and (zone % 3600 == 0 or abs(zone) / 3600 in BROKEN)
