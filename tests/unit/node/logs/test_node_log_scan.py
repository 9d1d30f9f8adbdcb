"""How a node scans its log files: in this process or in several, and within limits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rankdbg.logs.patterns import FileScan, Pattern
from rankdbg.logs.scan import OUT_OF_TIME
from rankdbg.node.logs import log_scan
from rankdbg.wire.node_questions import ScanLogs

RULES = {"patterns": [Pattern("error", (("ERROR", ""),)).as_json()], "clock": ""}


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    for number in range(5):
        (tmp_path / f"{number}.log").write_text(f"ERROR {number}\n" + "nothing\n" * 1000)
    return sorted(map(str, tmp_path.iterdir()))


def texts(done: Any) -> dict[str, list[str]]:
    return {
        path: [hit.text for addition in additions for hit in scan(addition).hits]
        for path, additions in done
    }


def scan(addition: Any) -> FileScan:
    return FileScan.from_json(addition["scan"])


def test_several_processes_find_what_one_finds(logs: list[str]) -> None:
    """Each file once, whoever reads it; one that cannot be read is said."""
    jobs = [(path, None) for path in [*logs, "/nosuch"]]
    here = texts(log_scan.scan_files("a", RULES, jobs))
    done = list(log_scan._scan_beside(RULES, jobs, 2, time.monotonic() + 60))
    assert texts(done) == here == {**{p: [f"ERROR {i}"] for i, p in enumerate(logs)}, "/nosuch": []}
    (missing,) = dict(done)["/nosuch"]
    assert "No such file" in scan(missing).error


def test_a_deadline_that_is_over(logs: list[str]) -> None:
    """What was not read is said of each file."""
    jobs = [(path, None) for path in logs]
    for done in (
        log_scan.scan_files("a", RULES, jobs, time.monotonic()),
        log_scan._scan_beside(RULES, jobs, 2, time.monotonic()),
    ):
        errors = [scan(addition).error for _, additions in done for addition in additions]
        assert errors == [OUT_OF_TIME] * len(logs)


def test_rules_are_told_once(logs: list[str]) -> None:
    """A node that does not know them says so; one that does needs only their name."""
    question = ScanLogs(rules="b", places=[(path, None) for path in logs])
    deadline = time.monotonic() + 30
    log_scan._compiled.clear()
    assert log_scan.scan(question, deadline) == {"unknown": "b"}
    first = log_scan.scan(ScanLogs(**vars(question), **RULES), deadline)
    assert texts(log_scan.scan(question, deadline)["files"]) == texts(first["files"])


def test_an_answer_is_never_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file full of hits the first and the last travel, and that there are more is said."""
    monkeypatch.setattr(log_scan, "MOST_TEXT_OF_FILE", 2000)
    log = tmp_path / "a.log"
    log.write_text("".join(f"ERROR {number}\n" for number in range(500)))
    question = ScanLogs(rules="c", places=[(str(log), None)], **RULES)
    ((_, (addition,)),) = log_scan.scan(question, time.monotonic() + 30)["files"]
    found = scan(addition)
    assert (found.hits[0].text, found.hits[-1].text) == ("ERROR 0", "ERROR 499")
    assert len(found.hits) < 50
    assert found.full == {"error"}
