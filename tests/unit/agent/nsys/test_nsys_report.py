"""agent/nsys_report: when what nsys writes is whole, and what is said where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankdbg.agent.nsys import nsys_report
from waiting import wait_for


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_report, "REST_SECONDS", 0.1)
    monkeypatch.setenv("RANKDBG_NSYS_WAIT", "0.3")


def test_whole_when_nobody_has_it_open(tmp_path: Path) -> None:
    """An importer that rests in the middle is waited for, for longer than a report may take to
    begin."""
    report = tmp_path / "a.nsys-rep"
    code = "import sys; f = open(sys.argv[1], 'wb', 0); f.write(b'half'); input(); f.write(b'way')"
    writer = subprocess.Popen([sys.executable, "-c", code, str(report)], stdin=subprocess.PIPE)
    wait_for(lambda: report.exists() and report.stat().st_size == 4, "a half")
    ended = subprocess.Popen(["sh", "-c", f"sleep 0.8; echo >/proc/{writer.pid}/fd/0"])
    assert nsys_report.wait_for(str(report), os.getppid()) == (str(report), "")
    assert report.read_bytes() == b"halfway"
    assert (writer.wait(), ended.wait()) == (0, 0)


def test_never_begun(tmp_path: Path) -> None:
    report = str(tmp_path / "a.nsys-rep")
    path, why = nsys_report.wait_for(report, os.getppid())
    assert path == ""
    assert why.startswith(f"nsys has not written {report} in 0.3")
    assert why.endswith(" s; RANKDBG_NSYS_WAIT=SECONDS waits longer")


def test_nsys_has_ended(tmp_path: Path) -> None:
    """What it has left counts, also what it could make no report of."""
    report = str(tmp_path / "a.nsys-rep")
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert nsys_report.wait_for(report, gone.pid) == (
        "",
        f"nsys has exited without writing {report}",
    )
    gathered = tmp_path / "a.qdstrm"
    gathered.write_bytes(b"x")
    assert nsys_report.wait_for(report, gone.pid) == (str(gathered), "")
    assert nsys_report.advice(str(gathered)).startswith("nsys could not convert /")
    assert nsys_report.advice(report) == ""


def test_which_process_is_nsys(tmp_path: Path) -> None:
    """The uppermost of those that are called so, whatever stands between; else the parent."""
    assert nsys_report.find_nsys() == os.getppid()
    for name in ("nsys", "nsys-launcher"):
        (tmp_path / name).write_text('#!/bin/bash\n"$@"\nexit\n')
        (tmp_path / name).chmod(0o700)
    code = "from rankdbg.agent.nsys import nsys_report; print(nsys_report.find_nsys())"
    words = [tmp_path / "nsys", tmp_path / "nsys-launcher", sys.executable, "-c", code]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.communicate()[0] == f"{process.pid}\n"
