"""Timestamps of log lines in many formats, with and without a year, a date or a time zone.

A timestamp without a zone is in the zone of the machine that reads the file. A missing year or
date is the latest that is not after the following line, or after the file was last written.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_FRACTION = r"(?:[.,]\d+)?"
ZONE = r"(?:Z\b| ?[+-]\d\d:?\d\d\b| UTC\b| GMT\b)?"
# One alternative for each format; `read_stamp` parses them.
CLOCK = "|".join(
    [
        rf"(?:\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d{_FRACTION}{ZONE})",
        rf"\b\d{{4}}/\d\d/\d\d \d\d:\d\d:\d\d{_FRACTION}",
        r"\b[EWIFD]\d{3,4} \d\d:\d\d:\d\d(?:\.\d+)?",  # glog, c10: E0325 20:57:27.62, E419 …
        r"\b\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?",  # vLLM: 11-18 18:07:28
        rf"\b(?:{'|'.join(_MONTHS)}) +\d{{1,2}} \d\d:\d\d:\d\d(?: \d{{4}})?",  # syslog, dmesg -T
        r"\b\d\d/\d\d/\d{4} (?:\| )?\d\d:\d\d:\d\d(?: UTC\b)?",  # also as ipmitool sel prints it
        r"\b\d\d/\d\d/\d\d \d\d:\d\d:\d\d",
        # In records of structured logs: seconds since 1970, or thousandths or millionths of them.
        r'"(?:time_us|time_ms|timestamp|ts|created)": ?1[5-9]\d{8}(?:\.\d+|\d{6}|\d{3})?(?!\d)',
    ]
)
# These look like durations and plain numbers: timestamps only where a prefix is expected.
CLOCK_OF_PREFIX = rf"{CLOCK}|\d\d:\d\d:\d\d{_FRACTION}(?![\d:])|1[5-9]\d{{8}}\.\d+"

# A timestamp may be a little later than the modification time of the file.
_AHEAD = 60.0
_DAY = 86400.0
_PARTS = re.compile(
    rf"(?P<date>.*?)(?<!\d)(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d+))?(?P<zone>{ZONE})(?P<year> \d{{4}})?$"
)


@lru_cache(maxsize=1 << 16)  # ranks write in the same seconds, and each line is asked for often
def read_stamp(stamp: str, year: int) -> float | None:
    """Seconds since 1970; `year` is used if the timestamp has none. None: no date or no timestamp."""
    if re.match(r"1\d{9}\.", stamp):
        return float(stamp)
    if stamp.startswith('"'):
        number = stamp.partition(":")[2].strip()
        return float(number if "." in number[:11] else f"{number[:10]}.{number[10:]}")
    parts = _PARTS.match(stamp)
    if parts is None:
        return None
    whole = _whole_seconds(
        parts["date"] + (parts["year"] or ""), parts["time"], parts["zone"], year
    )
    fraction = float(f"0.{parts['fraction']}") if parts["fraction"] else 0.0
    return None if whole is None else whole + fraction


def read_clock(stamp: str, latest: float) -> float | None:
    """Seconds since 1970 of a line that was written at `latest` or before."""
    now = datetime.fromtimestamp(latest)
    if re.match(r"\d\d:", stamp):
        today = read_stamp(f"{now:%Y-%m-%d} {stamp}", now.year)
        return today - _DAY if today is not None and today > latest + _AHEAD else today
    time = read_stamp(stamp, now.year)
    if time is not None and time > latest + _DAY:
        # Of the previous year, unless the timestamp has a year.
        return read_stamp(stamp, now.year - 1)
    return time


@lru_cache(maxsize=4096)
def _whole_seconds(date: str, time: str, zone: str, year: int) -> float | None:
    day = _date(date, [int(number) for number in re.findall(r"\d+", date)], year)
    if day is None:
        return None
    hour, minute, second = map(int, time.split(":"))
    try:
        moment = datetime(*day, hour, minute, min(second, 59), tzinfo=_zone(zone.strip()))
        return moment.timestamp()
    except (ValueError, OverflowError):
        return None


def _zone(text: str) -> timezone | None:
    if not text:
        return None
    if text[0] not in "+-":
        return timezone.utc
    ahead = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-ahead if text[0] == "-" else ahead)


def _date(text: str, numbers: list[int], year: int) -> tuple[int, int, int] | None:
    """Year, month and day, by format."""
    if re.match(r"\d{4}[-/]", text):
        return numbers[0], numbers[1], numbers[2]
    if re.match(r"[EWIFD]\d", text):  # month and day in one number
        return year, numbers[0] // 100, numbers[0] % 100
    if text[:3] in _MONTHS:
        told = numbers[1] if len(numbers) > 1 else year
        return told, _MONTHS.index(text[:3]) + 1, numbers[0]
    if re.match(r"\d\d/\d\d/\d{4}", text):
        return numbers[2], numbers[0], numbers[1]
    if re.match(r"\d\d/\d\d/\d\d", text):
        return 2000 + numbers[0], numbers[1], numbers[2]
    if re.match(r"\d\d-\d\d ", text):
        return year, numbers[0], numbers[1]
    return None
