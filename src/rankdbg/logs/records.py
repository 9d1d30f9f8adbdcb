"""Parses lines of structured logs, which are JSON objects:

{"rank": 3, "pid": 4711, "time_us": 1772352020123456, "step": 5, "log_type_name": "fwd_bwd_end"}
{"asctime": "2026-11-15 10:41:07,123", "levelname": "ERROR", "message": "lost the connection"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rankdbg.logs.clocks import CLOCK

_CLOCK = re.compile(CLOCK)
_TIMES = ("time_us", "time_ms", "asctime", "timestamp", "ts", "created", "time")
_SECONDS = 1e9, 1e10  # since 1970, as numbers that say seconds are now
_MESSAGES = ("message", "msg", "text")
_LEVELS = ("levelname", "level", "severity")
# What only says who, when and from where; all else of a record is shown.
_ABOUT = frozenset(
    (
        *_TIMES, *_MESSAGES, *_LEVELS,
        "rank", "global_rank", "local_rank", "world_size", "pid", "tid", "process", "processName",
        "thread", "threadName", "host", "hostname", "host_name", "source", "name", "logger",
        "logger_name", "filename", "pathname", "module", "lineno", "funcName", "caller", "log_file",
        "log_function", "log_level", "log_type", "log_type_name", "seq_id", "delta_ms", "relative_step",
        "job_id", "worker_id", "node_id", "actor_id", "task_id",
    )
)  # fmt: skip


class Record(NamedTuple):
    stamp: str
    rank: int | None
    pid: int | None
    text: str


def read_record(line: str) -> Record | None:
    """None: not a JSON object, or one without text."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):  # truncated or torn; or malicious
        return None
    text = _text(fields) if isinstance(fields, dict) else ""
    if not text:
        return None
    return Record(_stamp(fields), _number(fields, "rank"), _number(fields, "pid"), text)


def _text(fields: Mapping[str, Any]) -> str:
    event = fields.get("log_type_name")
    if isinstance(event, str) and not event.endswith("_error"):
        return _event(event, fields)
    said = next((fields[key] for key in _MESSAGES if fields.get(key)), event)
    level = next((fields[key] for key in _LEVELS if isinstance(fields.get(key), str)), "")
    if not isinstance(said, str) or not said:
        return ""
    more = [
        f"{key}={_short(value)}"
        for key, value in fields.items()
        if key not in _ABOUT and value is not None
    ]
    return " ".join([*([level] if level else []), said, *more])


def _event(event: str, fields: Mapping[str, Any]) -> str:
    """An event of torchtitan's. How long one took differs from rank to rank, and clocks tell it."""
    step, value = _number(fields, "step"), fields.get("value")
    where = "" if step is None else f"[step {step}] "
    if event.endswith(("_start", "_end")) or not _is_real(value):
        return where + event
    return f"{where}{fields.get('event_name') or event} = {value:g}"


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _stamp(fields: Mapping[str, Any]) -> str:
    for key in _TIMES:
        value = fields.get(key)
        if isinstance(value, str) and (found := _CLOCK.search(value)):
            return found[0]
        if value is not None and _is_real(value):
            seconds = float(value)
            while seconds >= _SECONDS[1]:  # milliseconds, microseconds, nanoseconds
                seconds /= 1000
            if seconds >= _SECONDS[0]:
                return f"{seconds:.6f}"
    return ""


def _number(fields: Mapping[str, Any], key: str) -> int | None:
    value = fields.get(key)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if is_whole else None


def _is_real(value: object) -> bool:
    """A number, and not one that no program writes: infinity is never small enough."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300  # type: ignore[arg-type]
