"""What is said of logs that could not be read."""

from __future__ import annotations

from rankdbg.investigations.logs.unreadable_logs import unreadable


def test_a_reason_is_given_once() -> None:
    """Three places are named and the others counted; another reason is another line."""
    errors = [*((f"pod-{number}", "forbidden") for number in range(5)), ("a.log", "denied")]
    assert unreadable(errors) == [
        "pod-0, pod-1, pod-2 and 2 other files: forbidden",
        "a.log: denied",
    ]
