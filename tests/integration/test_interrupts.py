"""Ctrl-C ends the command by the signal and without a word, wherever it is just then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE

# A program of Python's own, before the command: it stops at a moment that the test chooses, says so,
# and waits in a way that SIGINT interrupts.
HOLD = """\
import os, sys, atexit

def hold():
    with open({ready!r}, "w"):
        pass
    with open({never!r}):
        pass

class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            {moment}

class Dropped:
    def __del__(self):
        hold()

{start}
"""
SCRIPT = Path(__file__).parents[2] / "bin" / "rankdbg"
FIND = "sys.meta_path.insert(0, Finder())"
MOMENTS = {
    "import of the command line": ("rankdbg.frontends.cli", "hold()", FIND),
    "import of a verb": ("rankdbg.frontends.cli.select", "hold()", FIND),
    "import while a verb runs": ("rankdbg.session", "hold()", FIND),
    # Where Python drops an exception, with a complaint.
    "destructor": ("rankdbg.session", "Dropped()", FIND),
    "end of the interpreter": ("", "", "atexit.register(hold)"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "start",
    [["-m", "rankdbg"], [SCRIPT]],
    ids=["module", "script"],
)
def test_an_interrupt(tmp_path: Path, moment: str, start: list[str | Path]) -> None:
    """Death by SIGINT, which tells a shell to end its loop as well; no traceback."""
    words = ["select", "0"] if moment != "end of the interpreter" else ["--version"]
    interrupt(tmp_path, [*start, *words], *MOMENTS[moment])


def test_an_interrupt_before_the_package_is_there(tmp_path: Path) -> None:
    """The installed script gives SIGINT its default action before it imports anything."""
    interrupt(tmp_path, [SCRIPT, "--version"], "rankdbg", "hold()", FIND)


def interrupt(
    tmp_path: Path, words: list[str | Path], module: str, moment: str, begin: str
) -> None:
    ready, never = tmp_path / "ready", tmp_path / "never"
    os.mkfifo(ready)
    os.mkfifo(never)
    program = HOLD.format(
        ready=str(ready), never=str(never), module=module, moment=moment, start=begin
    )
    (tmp_path / "sitecustomize.py").write_text(program)
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "RANKDBG_DIR": str(tmp_path / "agents")},
    )
    try:
        with open(ready):  # until it stands there
            pass
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, complaint) == (-signal.SIGINT, "")


def test_an_interrupt_that_is_ignored(tmp_path: Path) -> None:
    """In the background of a script SIGINT is ignored, and stays so."""
    os.mkfifo(tmp_path / "ready")
    os.mkfifo(tmp_path / "never")
    program = HOLD.format(
        ready=str(tmp_path / "ready"),
        never=str(tmp_path / "never"),
        module="rankdbg.frontends.cli",
        moment="hold()",
        start=FIND,
    )
    (tmp_path / "sitecustomize.py").write_text(program)
    process = subprocess.Popen(
        [sys.executable, "-m", "rankdbg", "--version"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        with open(tmp_path / "ready"):
            pass
        process.send_signal(signal.SIGINT)
        with open(tmp_path / "never", "w"):
            pass
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, output[:8]) == (0, "rankdbg ")
