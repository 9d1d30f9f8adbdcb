"""What a tab of the live page may send."""

from __future__ import annotations

import pytest

from browser_tabs import refusals_of
from recorded_snapshot import SNAPSHOT


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        ('{"pace": 2}', "EOFError"),
        ("[" * 100_000, "InvalidMessage"),
        ('{"pace": NaN}', "InvalidMessage"),
        ('{"ask": 7}', "InvalidMessage"),
        ("{", "InvalidMessage"),
    ],
    ids=lambda text: text[:20],
)
def test_messages(message: str, ended: str) -> None:
    """A valid one is taken; another one, or one that is nested without end, closes the connection."""
    assert refusals_of([message], f"snapshot:{SNAPSHOT}") == [ended]
