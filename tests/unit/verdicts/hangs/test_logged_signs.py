"""What the last messages of a rank show, and what they do not."""

from __future__ import annotations

from rankdbg.verdicts.hangs.logged_signs import LoggedMessage, evidence_in


def evidence(*texts: str) -> list[str]:
    return evidence_in("rank 3", [LoggedMessage(text, 30.0) for text in texts])


def test_exception_that_was_caught() -> None:
    """The last line of its traceback, and how long ago."""
    traceback = 'Traceback (most recent call last):\n  File "x.py", line 3\nOSError: no space'
    told = evidence("step 1", f"ERROR upload failed\n{traceback}", "step 2")
    assert told == [
        "rank 3 logged an exception, 30 s ago and went on: OSError: no space",
        "rank 3 logged last, 30 s ago: step 2",
    ]


def test_exception_at_which_the_debugger_holds_the_rank() -> None:
    """The rank has not gone on after it."""
    messages = [LoggedMessage("ValueError: shard 7 is damaged", 3.0)]
    last = "rank 3 logged last, 3 s ago: ValueError: shard 7 is damaged"
    assert evidence_in("rank 3", messages, held_at_exception=True) == [last]


def test_retries() -> None:
    """The same message, but for numbers, at least three times."""
    told = evidence(*(f"retrying in {n} s" for n in (1, 2, 4)))
    assert "rank 3 retries: 3 times in its last 3 messages" in told
    assert len(evidence("retrying in 1 s", "retrying in 2 s")) == 1


def test_checkpoint_that_is_being_written() -> None:
    """Not one that was saved, nor one before the last message."""
    assert len(evidence("saving checkpoint to /x/step-40")) == 2
    assert len(evidence("saving checkpoint to /x", "checkpoint saved in 4 s")) == 1
    assert len(evidence("saving checkpoint to /x", "step 41")) == 1


def test_ordinary_messages_are_no_sign() -> None:
    """Only the last message is told; of a rank that has logged nothing, nothing is."""
    assert evidence("step 1 loss 2.3", "errors: 0, retries: 0") == [
        "rank 3 logged last, 30 s ago: errors: 0, retries: 0"
    ]
    assert evidence() == []
    assert evidence_in("rank 3", [LoggedMessage("hello", None)]) == ["rank 3 logged last: hello"]
