"""logs: what a scanner finds, whatever the file is like."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import os
import random
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from rankdbg.logs.files import find_logs
from rankdbg.logs.grep import Grep
from rankdbg.logs.patterns import FileScan, Hit, Pattern
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures.log_lines import CLOCK
from rankdbg.verdicts.rules.log_rules import load_rules

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


def test_numbers_without_end(tmp_path: Path) -> None:
    """Of one that nothing can read its beginning is kept; a long one that can be read is whole."""
    log = tmp_path / "a.log"
    log.write_text(f"pid={'7' * 5000} failed\npid={'8' * 900} failed\n")
    first, second = scan(log, Pattern("p", (("failed", r"pid=\d+"),))).hits
    assert first.text == f"pid={'7' * 20} failed"
    assert second.text == f"pid={'8' * 900} failed"


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


def test_zstd(tmp_path: Path) -> None:
    """So is one of zstd, with the package or the program."""
    if not shutil.which("zstd"):
        pytest.skip("needs the program zstd")
    log = tmp_path / "a.log"
    log.write_bytes(b"x\n" * 3_000_000 + b"boom 1\n")
    subprocess.run(["zstd", "-q", log], check=True)
    assert only(scan(tmp_path / "a.log.zst")).line == 3_000_001
    later = Scanner([BOOM]).scan(str(tmp_path / "a.log.zst"), begin=5_999_990)
    assert [hit.offset for hit in later.hits] == [6_000_000]
    (tmp_path / "cut.zst").write_bytes((tmp_path / "a.log.zst").read_bytes()[:200])
    assert scan(tmp_path / "cut.zst").error


def test_cut_off_gzip(tmp_path: Path) -> None:
    """What can be read of a damaged file is read, and the damage is said."""
    log = tmp_path / "a.gz"
    whole = gzip.compress(b"boom 1\n" + os.urandom(200_000))
    log.write_bytes(whole[: len(whole) // 2])
    result = scan(log)
    assert result.error
    assert [hit.text for hit in result.hits] == ["boom 1"]


def test_unreadable(tmp_path: Path) -> None:
    """A file that cannot be read is an error in the answer, not an exception."""
    assert scan(tmp_path / "none").error == "No such file or directory"
    assert scan(tmp_path).error == "Is a directory"


def test_binary_by_accident(tmp_path: Path) -> None:
    """Bytes of all kinds between the lines do not hide these."""
    log = tmp_path / "core.log"
    log.write_bytes(bytes(range(256)) * 5000 + b"\nboom 1\n" + os.urandom(2_000_000))
    assert [hit.text for hit in scan(log).hits] == ["boom 1"]


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


def test_hugely_sparse(tmp_path: Path) -> None:
    """What a file of 256 MB costs in memory does not depend on its size."""
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        file.write(b"boom 1\n")
        file.truncate(256 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\nboom 2\n")
    scanner = Scanner([BOOM])
    tracemalloc.start()
    hits = scanner.scan(str(log)).hits
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(hit.line, hit.text) for hit in hits] == [(1, "boom 1"), (3, "boom 2")]
    assert peak < 16 << 20


STEP_LINE = "2026-03-01 10:00:00 INFO step: 7 loss: 2.3"
TORN = "RuntimeError: the widget jammed unexpectedly in slot 3 (code 17)"
JAM = Pattern("jam", (("widget jammed unexpectedly", r"widget jammed unexpectedly in slot \d"),))


@pytest.mark.parametrize("cut", [5, 22, 28, 35, 42, 46, 50])
@pytest.mark.parametrize("form", ["{a}{other}\n{b}", "{a}\n{other}\n{b}", "{a}\n{b}"])
def test_torn_by_two_writers(tmp_path: Path, cut: int, form: str) -> None:
    """A line that another has cut anywhere is put together, and begins where it began."""
    log = tmp_path / "a.log"
    torn = form.format(a=TORN[:cut], b=TORN[cut:], other=STEP_LINE)
    log.write_text(f"{STEP_LINE}\n{torn}\n{STEP_LINE}\n")
    hit = only(scan(log, JAM))
    assert "widget jammed unexpectedly" in hit.text
    assert hit.line in (2, 3, 4)


@pytest.mark.parametrize("cut", [22, 28, 35, 42])
def test_line_within_a_literal(tmp_path: Path, cut: int) -> None:
    """A line that another writer has put into a literal is taken out of it."""
    log = tmp_path / "a.log"
    log.write_text(f"{TORN[:cut]}{STEP_LINE}{TORN[cut:]}\n")
    assert "widget jammed unexpectedly in slot 3" in only(scan(log, JAM)).text


@pytest.mark.parametrize(
    "text",
    [
        "the widget jammed\nunrelated, unexpectedly late",
        "a widget jam\nmed. unexpectedly nothing",
        "not jammed unexpectedly in slot 3\nwidget 4 is fine",
        "ammed unexpectedly in slot 3",
    ],
)
def test_pieces_that_do_not_fit(tmp_path: Path, text: str) -> None:
    """Parts of a literal that are no torn line are none."""
    log = tmp_path / "a.log"
    log.write_text(text + "\n")
    assert scan(log, JAM).hits == ()


def test_grams_hide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large log the same is found by its rare parts as by whole literals, also after it
    has changed its tone."""
    numbers = random.Random(3)
    words = ["alpha", "beta", "gamma", "widget", "jammed", "unexpectedly", "boom", "step", "omega"]
    lines = [" ".join(numbers.choices(words, k=9)) + f" {n}" for n in range(9_000)]
    lines[3_000:6_000] = [STEP_LINE] * 3_000
    for place in range(100, 9_000, 97):
        lines[place] = numbers.choice([TORN, "boom 1", "widget boom 2 jammed"])
    log = tmp_path / "a.log"
    log.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr("rankdbg.logs.scan.ENOUGH", 64 << 10)
    with_grams = scan(log, BOOM, JAM, STEP)
    monkeypatch.setattr("rankdbg.logs.scan.ENOUGH", 1 << 40)
    assert with_grams.hits == scan(log, BOOM, JAM, STEP).hits
    assert len(with_grams.hits) > 60


def test_samples_of_lines_that_stand_everywhere(tmp_path: Path) -> None:
    """Of a pattern that is full: some lines from all over the file, few however long it is, also
    where its end has none. A pattern of which nobody wants samples has its first lines alone."""
    steps = "".join(f"step {n} loss 2.31 and so on and on\n" for n in range(200_000))
    path = tmp_path / "long.log"
    path.write_text(steps + "frame of a trace\n" * 20_000)
    wanted = Pattern("step", (("step ", ""),), limit=20, torn=False, sampled=True)
    other = Pattern("loss", (("loss ", ""),), limit=20, torn=False)
    hits = Scanner([wanted, other]).scan(str(path)).hits
    places = [hit.offset for hit in hits if hit.pattern == "step"]
    assert len(places) < 500
    gaps = [later - earlier for earlier, later in itertools.pairwise(places)]
    assert max(gaps) < 3 << 20
    assert places[-1] > len(steps) - (1 << 20)
    assert len([hit for hit in hits if hit.pattern == "loss"]) == 20


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


@pytest.mark.slow
@pytest.mark.parametrize("grep", [True, False], ids=["grep", "nothing"])
def test_without_automaton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grep: bool) -> None:
    """A node without ahocorasick_rs finds the same, slower: with its grep, or without one. In
    logs with whole literals, torn ones, and some that overlap, glued together or apart."""
    rules = load_rules().patterns()
    numbers = random.Random(3)
    literals = [literal for pattern in rules for literal, _ in pattern.match]
    texts = [*literals, *(text[: len(text) // 2] for text in literals), "step: 7", "x" * 300, " "]
    ends = ["\n", "\r", " ", ""]
    words = [numbers.choice(texts) + numbers.choice(ends) for _ in range(10_000)]
    log = tmp_path / "a.log"
    log.write_text("".join(words))
    fast = scan(log, *rules)
    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)  # cannot be imported
    if not grep:
        monkeypatch.setenv("PATH", str(tmp_path))
    scanner = Scanner(rules, CLOCK)
    assert (scanner.grep is not None) is grep
    assert len(fast.hits) > 1000
    assert scanner.scan(str(log)) == fast


def test_a_grep_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """busybox's knows no -b: it is not used."""
    (tmp_path / "grep").write_text("#!/bin/sh\necho 'grep: invalid option -- b' >&2\nexit 1\n")
    (tmp_path / "grep").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Grep.of([b"boom"]) is None


def test_a_grep_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is missed for that: the block is looked at without it."""
    grep = Grep.of([b"boom"])
    assert grep is not None
    block = memoryview(b"x" * 50 + b"boom" + b"y" * 50)
    assert [*grep.regions(block, 0, len(block))] == [(46, 54)]
    (tmp_path / "grep").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "grep").chmod(0o755)
    monkeypatch.setattr(grep, "_program", str(tmp_path / "grep"))
    assert [*grep.regions(block, 0, len(block))] == [(0, len(block))]


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
