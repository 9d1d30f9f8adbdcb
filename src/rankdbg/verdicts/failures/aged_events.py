"""Rows of `kubectl get events` say how long ago each event was: when that was, by what else is known.

    12m    Warning   Evicted   pod/trainer-2   The node was low on resource: …
    31m    Normal    Started   pod/trainer-2   Started container train

Events of a pod that are older than its start are another pod's that was called alike. Once a container
has started, its log begins: that tells when the list was made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.earlier_runs import first_stamp
from rankdbg.verdicts.failures.log_lines import read_stamp, year_of
from rankdbg.verdicts.failures.pod_rows import row_pod
from rankdbg.verdicts.failures.subjects import is_aged

_AGE = re.compile(r"^\s*((?:\d{1,4}[smhd])+)")
_PART = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_STARTED = re.compile(r"\bStarted container\b")
_SCHEDULED = re.compile(r"\bSuccessfully assigned\b")
MOST_STARTS = 20  # of containers, by which the time of a list is known
LOG_BEGINS = 60.0  # seconds after its container was started, at most


def age_of(row: str) -> tuple[float, float] | None:
    """Seconds, at least and at most: 12m is between 12 and 13 minutes."""
    found = _AGE.match(row) if is_aged(row) else None
    parts = _PART.findall(found[1]) if found else []
    if not parts:
        return None
    least = sum(int(number) * _SECONDS[unit] for number, unit in parts)
    return least, least + _SECONDS[parts[-1][1]]


def with_times_of_events(scans: Sequence[FileScan]) -> list[FileScan]:
    """The same, rows of events with times where these can be known, and without those of other pods."""
    year = year_of(scans)
    return [_with_times(scan, partial(_begin_of_log, scans, year)) for scan in scans]


def _begin_of_log(scans: Sequence[FileScan], year: int, pod: str) -> float | None:
    """When the log of a pod begins, by its own clock."""
    own = (scan for scan in scans if pod and pod in scan.path)
    times = (read_stamp(stamp, year) for scan in own if (stamp := first_stamp(scan)))
    return min((time for time in times if time is not None), default=None)


def _with_times(scan: FileScan, begin_of_log: Callable[[str], float | None]) -> FileScan:
    rows = [hit for hit in scan.hits if is_aged(hit.text)]
    if not rows:
        return scan
    starts = _starts(rows)
    hits = [hit for hit in scan.hits if not _is_older(hit, starts)]
    made = _time_of_list(rows, begin_of_log)
    if made is not None:
        hits = [_dated(hit, made) for hit in hits]
    return replace(scan, hits=tuple(hits))


def _starts(rows: Sequence[Hit]) -> dict[str, float]:
    """For how long each pod has been there, by its newest row that says that it was placed."""
    found: dict[str, float] = {}
    for row in rows:
        age, pod = age_of(row.text), row_pod(row.text)
        if age and pod and _SCHEDULED.search(row.text):
            found[pod] = min(age[1], found.get(pod, age[1]))
    return found


def _is_older(hit: Hit, starts: Mapping[str, float]) -> bool:
    age = age_of(hit.text)
    start = starts.get(row_pod(hit.text))
    return bool(hit.pattern.startswith("failure:") and age and start and age[0] > start)


def _time_of_list(rows: Sequence[Hit], begin_of_log: Callable[[str], float | None]) -> float | None:
    """At the earliest, by the oldest log whose container a row names."""
    told = []
    for row in [row for row in rows if _STARTED.search(row.text)][:MOST_STARTS]:
        age = age_of(row.text)
        begin = begin_of_log(row_pod(row.text))
        if age and begin is not None:
            told.append(begin - LOG_BEGINS + age[0])
    return min(told, default=None)


def _dated(hit: Hit, made: float) -> Hit:
    """With the earliest time that it can have been; `latest` is the other bound."""
    age = age_of(hit.text)
    if age is None:
        return hit
    return hit._replace(stamp=f"{datetime.fromtimestamp(made - age[1]):%Y-%m-%d %H:%M:%S}")


def latest(row: str, earliest: float) -> float:
    """How late an event of a dated row can have been."""
    least, most = age_of(row) or (0.0, 0.0)
    return earliest + LOG_BEGINS + _SECONDS["m"] + most - least
