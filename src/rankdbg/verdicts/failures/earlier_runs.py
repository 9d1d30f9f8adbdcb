"""Files of runs that were over before the job began whose logs are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file

ANY_ZONE = 14 * 3600.0  # a kernel's clock without a zone may differ by that
_SLURM_JOB = re.compile(r"(?:^|/)(?:slurm|job)[-_](\d{2,10})(?:[-_.][^/]*)?$")


def earlier_runs(scans: Sequence[FileScan], clocks: Clocks) -> set[str]:
    """Their paths."""
    return _long_before(_ranges(scans, clocks)) | _earlier_jobs(scans, clocks)


def first_stamp(scan: FileScan) -> str:
    """Also of a file that begins with many lines without clocks."""
    return scan.first_stamp or next((hit.stamp for hit in scan.hits if hit.stamp), "")


def _ranges(scans: Sequence[FileScan], clocks: Clocks) -> dict[str, tuple[float, float]]:
    """When each of the job's own logs begins and ends."""
    found = {}
    for scan in scans:
        first = clocks.time_of_stamp(scan.path, first_stamp(scan))
        last = clocks.time_of_stamp(scan.path, scan.last_stamp)
        if first is None or last is None or first > last or is_kernel_file(scan.path):
            continue
        found[scan.path] = first, last
    return found


def _earlier_jobs(scans: Sequence[FileScan], clocks: Clocks) -> set[str]:
    """Files with the number of another job of Slurm in their names, which was over before the
    last one began. By the clocks as printed: two jobs of a cluster are not two zones."""
    ranges: dict[str, tuple[int, float, float]] = {}
    for scan in scans:
        found = _SLURM_JOB.search(scan.path)
        first = clocks.as_printed(first_stamp(scan))
        last = clocks.as_printed(scan.last_stamp)
        if found and first is not None and last is not None:
            ranges[scan.path] = int(found[1]), first, last
    newest = max((job for job, _, _ in ranges.values()), default=0)
    begin = min((first for job, first, _ in ranges.values() if job == newest), default=0.0)
    return {path for path, (job, _, last) in ranges.items() if job < newest and last < begin}


def _long_before(ranges: Mapping[str, tuple[float, float]]) -> set[str]:
    """Files of runs that were over before the last one began: longer before than clocks of other
    zones could differ."""
    earlier: set[str] = set()
    begin = max((first for first, _ in ranges.values()), default=0.0)
    for path, (first, last) in sorted(ranges.items(), key=lambda item: -item[1][1]):
        if last < begin - ANY_ZONE:
            earlier.add(path)
        else:
            begin = min(begin, first)
    return earlier
