"""Structured logs: records in JSON are read like the lines of other logs."""

from __future__ import annotations

import json
import re

import pytest

from rankdbg.logs.clocks import CLOCK, read_stamp
from rankdbg.logs.prefixes import take_apart
from rankdbg.logs.records import read_record


def test_what_a_record_says() -> None:
    """Its message and its own fields are shown; who, when and from where are not compared."""
    first = {
        "asctime": "2026-11-15 10:41:07,123",
        "levelname": "ERROR",
        "message": "lost the connection",
        "filename": "store.cc",
        "lineno": 825,
        "pid": 4711,
        "rank": 3,
        "attempt": 2,
    }
    line = take_apart(json.dumps(first))
    assert line.text == "ERROR lost the connection attempt=2"
    assert (line.stamp, line.rank, line.pid) == ("2026-11-15 10:41:07,123", 3, 4711)
    other = {**first, "rank": 4, "pid": 4712}
    assert take_apart(json.dumps(other)).text == line.text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"step": 5, "log_type_name": "fwd_bwd_end", "value": 12.5}, "[step 5] fwd_bwd_end"),
        (
            {"step": 5, "log_type_name": "metric_value", "event_name": "tokens", "value": 512.0},
            "[step 5] tokens = 512",
        ),
        ({"log_type_name": "training_start", "message": "training_start"}, "training_start"),
        (
            {"log_type_name": "fwd_bwd_error", "message": "[step 5] fwd_bwd_error: CUDA error"},
            "[step 5] fwd_bwd_error: CUDA error",
        ),
    ],
)
def test_events_of_torchtitan(fields: dict[str, object], text: str) -> None:
    """Equal events of many ranks read alike, however long each took."""
    record = read_record(json.dumps({"rank": 1, "time_us": 1772352020123456, **fields}))
    assert record is not None
    assert (record.text, record.stamp) == (text, "1772352020.123456")


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ('"time_us": 1772352020123456', 1772352020.123456),
        ('"time_ms":1772352020123', 1772352020.123),
        ('"ts": 1772352020.5', 1772352020.5),
        ('"created": 1772352020', 1772352020.0),
    ],
)
def test_clocks_in_records(stamp: str, seconds: float) -> None:
    """Seconds since 1970 are a clock where a field says that they are."""
    assert re.search(CLOCK, f'{{"rank": 0, {stamp}, "x": 1}}') is not None
    assert read_stamp(stamp, 2026) == pytest.approx(seconds)


@pytest.mark.parametrize("line", ['{"rank": 1', "{}", "[1, 2]", '{"loss": 2.5}', '{"message": 3}'])
def test_no_words(line: str) -> None:
    """What is no record, or says nothing in words, is shown as it stands."""
    assert read_record(line) is None
    assert take_apart(line).text == line
