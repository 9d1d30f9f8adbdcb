"""Times as users write them: `10m` ago, `10:41`, `2026-11-15 10:41:07`."""

from __future__ import annotations

import re

from rankdbg.errors import BadInput
from rankdbg.logs.clocks import ZONE, read_clock

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)$")
_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = re.compile(rf"(?:({_DAY})[T ])?(\d\d:\d\d)(:\d\d(?:[.,]\d+)?)?({ZONE})$")


def parse_moment(option: str, text: str, latest: float) -> float:
    """Seconds since 1970. `latest`: the base of relative times, and the day of a time without a
    date."""
    text = text.strip()
    if ago := _AGO.match(text):
        return latest - float(ago[1]) * _SECONDS[ago[2]]
    if re.match(rf"{_DAY}$", text):
        text = f"{text} 00:00"
    clock = _CLOCK.match(text)
    moment = None
    if clock:
        day = f"{clock[1]} " if clock[1] else ""
        zone = clock[4] if day else ""
        moment = read_clock(f"{day}{clock[2]}{clock[3] or ':00'}{zone}", latest)
    if moment is None:
        raise BadInput(
            f"invalid time {text!r} for {option}",
            hint="expected 10m, 2h or 1d (ago), 10:41, or '2026-11-15 10:41:07'",
        )
    return moment
