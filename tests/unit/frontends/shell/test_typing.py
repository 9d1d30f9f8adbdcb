"""Where the shell's lines come from."""

from __future__ import annotations

import io
import os
import threading

from rankdbg.frontends.shell.typing import PipedLines
from waiting import wait_for


def test_a_late_report_waits_for_the_command_that_runs() -> None:
    """It is printed when the next line is asked for."""
    lines = PipedLines(io.StringIO("first\nsecond\n"))
    printed: list[str] = []
    assert lines.ask("") == "first"
    lines.show_late(lambda: printed.append("late"))
    assert printed == []
    assert lines.ask("") == "second"
    assert printed == ["late"]


def test_a_late_report_is_printed_at_once_while_no_command_runs() -> None:
    """A script that waits for what the ranks print would wait for ever otherwise."""
    read, write = os.pipe()
    printed: list[str] = []
    with open(read) as stream, open(write, "w") as script:
        lines = PipedLines(stream)
        reading = threading.Thread(target=lines.ask, args=("",), daemon=True)
        reading.start()
        lines.show_late(lambda: printed.append("late"))
        wait_for(lambda: printed == ["late"], "the late report")
        script.write("line\n")
        script.flush()
        reading.join()


def test_what_is_late_at_the_end_of_a_script_is_printed() -> None:
    """No other command follows that would print it."""
    lines = PipedLines(io.StringIO(""))
    printed: list[str] = []
    assert lines.ask("") is None
    lines.show_late(lambda: printed.append("late"))
    assert printed == ["late"]
