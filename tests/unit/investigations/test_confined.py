"""confined.py: what reads a file of somebody else has little memory and little processor time."""

from __future__ import annotations

import os
import time

import pytest

from rankdbg.investigations.confined import ConfinedFailed, confined

MEMORY = 64 << 20


def test_who_gets_no_processor_is_waited_for() -> None:
    """The limit is of processor time: a file is not refused because the machine is busy."""

    def read() -> str:
        time.sleep(3.5)  # as long as the machine does other things
        return "read"

    assert confined(read, 3.0, MEMORY) == "read"


def test_who_computes_on_is_ended() -> None:
    """With the limit in the reason."""

    def read() -> None:
        while True:
            pass

    with pytest.raises(ConfinedFailed, match=r"within 4 s|within 1 s of processor time"):
        confined(read, 1.0, MEMORY)


def test_who_waits_on_is_ended() -> None:
    """A file system may never answer."""
    with pytest.raises(ConfinedFailed, match="could not be read within 2 s"):
        confined(lambda: time.sleep(1000), 0.5, MEMORY)


def test_what_is_printed_in_there_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """By libraries, and by CPython itself."""
    assert confined(lambda: os.write(2, b"SystemError: x\n"), 5, MEMORY) == 15
    assert capfd.readouterr().err == ""
