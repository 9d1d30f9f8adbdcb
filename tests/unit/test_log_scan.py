"""logs: what a scanner finds, whatever the file is like."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from pathlib import Path

import pytest

from rankdbg.logs.files import find_logs
from rankdbg.logs.patterns import FileScan, Hit, Pattern
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.log_lines import CLOCK

BOOM = Pattern("boom", (("boom", r"boom \d+"),), unless=("not boom",))
STEP = Pattern("step", (("step:", r"step: \d+"),), numbered=False, looks=100)


def scan(path: Path, *patterns: Pattern) -> FileScan:
    return Scanner(patterns or (BOOM,), CLOCK).scan(str(path))


def only(result: FileScan) -> Hit:
    assert len(result.hits) == 1, result.hits
    return result.hits[0]


def test_literal_then_expression(tmp_path: Path) -> None:
    """A line needs the literal and the expression, and nothing that the pattern excludes."""
    log = tmp_path / "a.log"
    log.write_text("boom\nx boom 1\nnot boom 2\nBOOM 3\n")
    hit = only(scan(log))
    assert (hit.line, hit.offset, hit.text) == (2, 5, "x boom 1")


def test_carriage_returns(tmp_path: Path) -> None:
    """A progress bar glued to a message is cut off, and the line's own prefix is kept."""
    log = tmp_path / "a.log"
    log.write_bytes(b"(A pid=3) 10%|#\r20%|##\rboom 1\r30%|###\n")
    hit = only(scan(log))
    assert (hit.text, hit.head) == ("boom 1", "(A pid=3) 10%|#")


def test_colours_and_bad_bytes(tmp_path: Path) -> None:
    """Colours and bytes that are not UTF-8 do not hide a line."""
    log = tmp_path / "a.log"
    log.write_bytes(b"\xff\xfe\x00\n\x1b[31mboom\x1b[0m 1 \xe9\n")
    assert only(scan(log)).text == "boom 1 \ufffd"


def test_stamp_of_the_line_or_before(tmp_path: Path) -> None:
    """A line without a clock has the last one before it."""
    log = tmp_path / "a.log"
    log.write_text(
        "2026-03-01 10:00:00,5 x\n2026-03-01 10:00:01 y\nboom 1\nE0301 11:00:00.5 boom 2\n"
    )
    assert [hit.stamp for hit in scan(log).hits] == ["2026-03-01 10:00:01", "E0301 11:00:00.5"]


def test_lines_around(tmp_path: Path) -> None:
    """A pattern gets as many lines before and after as it asks for."""
    log = tmp_path / "a.log"
    log.write_text("a\nb\nboom 1\nc\nd\n")
    hit = only(scan(log, Pattern("boom", (("boom", ""),), before=1, after=1)))
    assert (hit.before, hit.after) == (("b",), ("c",))


@pytest.mark.parametrize("opener", [gzip.open, bz2.open, lzma.open])
def test_compressed(tmp_path: Path, opener: object) -> None:
    """A compressed file is read by what it is, not by its name."""
    log = tmp_path / "a.log.1"
    with opener(log, "wb") as file:  # type: ignore[operator]
        file.write(b"x\n" * 10 + b"boom 1\n")
    assert only(scan(log)).line == 11


def test_cut_off_gzip(tmp_path: Path) -> None:
    """What can be read of a damaged file is read, and the damage is said."""
    log = tmp_path / "a.gz"
    whole = gzip.compress(b"boom 1\n" + os.urandom(200_000))
    log.write_bytes(whole[: len(whole) // 2])
    result = scan(log)
    assert result.error
    assert [hit.text for hit in result.hits] == ["boom 1"]


def test_unreadable(tmp_path: Path) -> None:
    """A file that is not there is an error in the answer, not an exception."""
    assert scan(tmp_path / "none").error == "No such file or directory"


def test_across_blocks(tmp_path: Path) -> None:
    """Lines, numbers and contexts are right wherever blocks end."""
    log = tmp_path / "a.log"
    lines = [
        f"boom {n}" if n % 9_973 == 0 else f"line {n} " + "x" * (n % 97) for n in range(150_000)
    ]
    log.write_text("\n".join(lines) + "\n")
    assert log.stat().st_size > 8 << 20
    found = scan(log, Pattern("boom", (("boom", ""),), before=1, after=1)).hits
    wanted = [number for number, line in enumerate(lines) if line.startswith("boom")]
    assert [(hit.line, hit.text) for hit in found] == [(n + 1, lines[n]) for n in wanted]
    assert [hit.before for hit in found[1:]] == [(lines[n - 1],) for n in wanted[1:]]
    assert [hit.after for hit in found] == [(lines[n + 1],) for n in wanted]


def test_endless_line(tmp_path: Path) -> None:
    """A line of 100 MB costs no memory, and what stands in it is found."""
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 999_000 + b" boom 1 ")
    scanner = Scanner([BOOM])
    tracemalloc.start()
    result = scanner.scan(str(log))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.hits) == 100
    assert all(len(hit.text) < 40_000 for hit in result.hits)
    assert peak < 32 << 20


def test_many_equal_lines(tmp_path: Path) -> None:
    """Of a million steps the first and the last are kept, and a failure among them is found."""
    log = tmp_path / "a.log"
    steps = [f"step: {n}" for n in range(300_000)]
    steps.insert(150_000, "boom 1")
    log.write_text("\n".join(steps) + "\n")
    result = scan(log, BOOM, STEP)
    found = [hit.text for hit in result.hits if hit.pattern == "step"]
    assert found[0] == "step: 0"
    assert found[-1] == "step: 299999"
    assert len(found) < 60_000
    assert result.full == {"step"}
    assert [hit.line for hit in result.hits if hit.pattern == "boom"] == [150_001]


def test_without_automaton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without ahocorasick_rs finds the same, slower."""
    log = tmp_path / "a.log"
    log.write_text("boom 1\nstep: 3\nboom 2 step: 4\n")
    fast = scan(log, BOOM, STEP).hits
    monkeypatch.setattr("rankdbg.logs.literals.ahocorasick_rs", None)
    assert scan(log, BOOM, STEP).hits == fast


def test_which_files(tmp_path: Path) -> None:
    """Of a directory the files that may be logs; checkpoints, code and pipes are left out."""
    for name in ("a.log", "sub/rank_3.err.gz", "slurm-1.out", "model.pt", "x.py", ".git/log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    os.mkfifo(tmp_path / "pipe")
    found = [os.path.relpath(path, tmp_path) for path in find_logs([str(tmp_path)])]
    assert found == ["a.log", "slurm-1.out", "sub/rank_3.err.gz"]


def test_patterns_travel() -> None:
    """A pattern goes to a node as JSON and comes back the same."""
    assert Pattern.from_json(BOOM.as_json()) == BOOM
