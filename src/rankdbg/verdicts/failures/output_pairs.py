"""The two files into which one process writes its output: what one has no clock for, the other may time.

    worker-4711.out   2026-05-04 09:41:10 step 12 …        the last line with a clock
    worker-4711.err   Fatal Python error: Segmentation fault

A process that has died wrote until then: what ended it was not before the last line of the other file.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import pairwise

from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.findings import Finding

# worker-….err, job-7-node-1-0.err, stderr.log, train_stderr.txt, server.err.log, run.e4711
_STREAM = re.compile(r"(?i)(?<![a-z])(?P<std>std)?(?P<stream>out|err)(?![a-z])")
_PBS = re.compile(r"\.(?P<stream>[oe])(?P<job>\d{2,}(?:[-.]\d+)?)$")
_OTHER = {"out": "err", "err": "out", "o": "e", "e": "o"}
# A dump of all threads, and what a program writes while it ends, are shorter.
LAST_WORDS = 64 << 10
RHYTHM = 10  # lines by which it is known how often a process writes
FEWEST = 3
LEAST_RHYTHM = 5.0  # seconds
_WAITED = re.compile(r"(?i)time[ds]?[- ]?out|deadline|heartbeat")


class OutputPairs:
    """Of each file, the other one of its process, where that has clocks."""

    def __init__(self, scans: Sequence[FileScan], clocks: Clocks) -> None:
        self._clocks = clocks
        self._scans = {scan.path: scan for scan in scans}

    def timed(self, scan: FileScan, findings: list[Finding]) -> list[Finding]:
        """The same, those that no clock of their own file bounds by the other file's."""
        if all(finding.exact or finding.until is not None for finding in findings):
            return findings
        end = self._end_of_other(scan)
        return findings if end is None else [_bounded(scan, f, *end) for f in findings]

    def _end_of_other(self, scan: FileScan) -> tuple[float, float | None] | None:
        """When the last line of the other file was written, and when the next would have been."""
        other = self._scans.get(other_stream(scan.path, self._scans))
        last = self._clocks.time_of_stamp(other.path, other.last_stamp) if other else None
        if other is None or last is None:
            return None
        rhythm = self._rhythm(other)
        return last, None if rhythm is None else last + max(rhythm, LEAST_RHYTHM)

    def _rhythm(self, scan: FileScan) -> float | None:
        """The longest time between its last lines; None: it has written too few."""
        times = [self._clocks.time(scan.path, hit) for hit in scan.hits[-RHYTHM:] if hit.stamp]
        known = sorted(time for time in times if time is not None)
        longest = max((b - a for a, b in pairwise(known)), default=0.0)
        return longest if len(known) >= FEWEST else None


def other_stream(path: str, known: Container[str]) -> str:
    """The path of the file of the other stream, of those that are there; `` if there is none."""
    folder, slash, name = path.rpartition("/")
    for found in (*_STREAM.finditer(name), *_PBS.finditer(name)):
        stream = found["stream"]
        turned = _OTHER[stream.lower()]
        begin, end = found.span("stream")
        other = f"{folder}{slash}{name[:begin]}{turned}{name[end:]}"
        if other in known:
            return other
    return ""


def _bounded(scan: FileScan, finding: Finding, last: float, then: float | None) -> Finding:
    if finding.exact or finding.until is not None:
        return finding
    if then is None or _follows_a_wait(finding):
        is_end = _ended_process(scan, finding)
        return replace(finding, time=max(last, finding.time or last)) if is_end else finding
    if not _ended_process(scan, finding):
        # Some time before the process ended.
        is_later = finding.time is None or finding.time <= then
        return replace(finding, until=then) if is_later else finding
    if finding.time is not None and finding.time >= last:
        return finding
    return replace(finding, time=last, until=then)


def _follows_a_wait(finding: Finding) -> bool:
    """Whether its process may have waited for long, and written nothing, before it ended."""
    is_symptom = finding.rule.role not in ("root", "death") and finding.rule.kind != "crash"
    return is_symptom or bool(finding.rule.lasted or _WAITED.search(finding.text))


def _ended_process(scan: FileScan, finding: Finding) -> bool:
    """A crash, or an exception, behind which its file ends."""
    is_end = finding.rule.kind == "crash" or finding.uncaught
    return is_end and scan.size - finding.offset <= LAST_WORDS
