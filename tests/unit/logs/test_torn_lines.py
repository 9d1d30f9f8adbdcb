"""What it brings to mend lines that two writers have torn, counted: scans with it and without."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from log_texts import KNOWN
from rankdbg.logs.files import find_logs
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures.log_lines import CLOCK
from rankdbg.verdicts.rules.log_rules import load_rules

DATA = Path(__file__).parents[4] / "shared/data"
OTHER = "2026-03-01 10:00:00,123 - root - INFO - step: 12  loss:  2.31  memory: 61.20GiB"
FORMS = ("{a}{other}\n{b}", "{a}\n{other}\n{b}", "{a}{other}{b}")
RULES = load_rules()
MENDING = Scanner(RULES.patterns(), CLOCK)
PLAIN = Scanner([replace(pattern, torn=False) for pattern in RULES.patterns()], CLOCK)

Line = tuple[str, str]  # the failure that it shows, and the line


def torn(lines: Iterable[Line]) -> Iterator[Line]:
    """Each line, cut at a random place by another one, in each way."""
    numbers = random.Random(11)
    for mode, text in lines:
        for form in FORMS:
            cut = numbers.randrange(len(text) // 5, len(text) - len(text) // 5)
            yield mode, form.format(a=text[:cut], b=text[cut:], other=OTHER)


def named(scanner: Scanner, lines: Iterable[Line], log: Path) -> int:
    """How many of these lines are known as their failure, each in a log of its own."""
    count = 0
    for mode, text in lines:
        log.write_text(f"{OTHER}\n{text}\n{OTHER}\n")
        count += f"failure:{mode}" in {hit.pattern for hit in scanner.scan(str(log)).hits}
    return count


@pytest.mark.slow
def test_torn_lines_of_every_rule(tmp_path: Path) -> None:
    """Mending names nine of ten torn lines; without it, a third of them says nothing."""
    lines = [
        (mode, text) for mode, text in KNOWN if mode not in RULES.harmless and "\n" not in text
    ]
    cut = [*torn(lines)]
    mended, plain = (named(scanner, cut, tmp_path / "a.log") for scanner in (MENDING, PLAIN))
    assert (mended > 0.9 * len(cut), plain < 0.7 * len(cut)) == (True, True), (mended, plain)


@pytest.mark.skipif(not DATA.exists(), reason="the shared data is not here")
def test_torn_lines_that_people_reported(tmp_path: Path) -> None:
    """Of real lines that are named when they are whole, mending saves two of three that a cut
    hides."""
    reported = [json.loads(line) for line in (DATA / "failures.jsonl").read_text().splitlines()]
    lines = [
        (each["mode"], line)
        for each in reported
        if each["kind"] != "benign"
        for line in each["lines"]
        if len(line) > 30
    ]
    log = tmp_path / "a.log"
    whole = [line for line in lines if named(PLAIN, [line], log)]
    cut = [*torn(whole)]
    mended, plain = (named(scanner, cut, log) for scanner in (MENDING, PLAIN))
    assert len(cut) - mended < 0.34 * (len(cut) - plain), (len(cut), mended, plain)


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.skipif(not DATA.exists(), reason="the shared data is not here")
def test_logs_of_crashed_jobs(tmp_path: Path) -> None:
    """In the logs of eight jobs, some with a few torn lines, mending finds these too, and takes hardly
    anything else for one: all others of 9,000 are found without it."""
    script = tmp_path / "make.py"
    script.write_bytes((DATA / "crash_logs/make.py").read_bytes())
    subprocess.run([sys.executable, script], check=True)
    more = []
    for path in find_logs([str(tmp_path / f"s{number:02}") for number in (1, 2, 3, 4, 5, 7, 8, 9)]):
        found = [
            {(hit.offset, hit.pattern) for hit in scanner.scan(path).hits}
            for scanner in (MENDING, PLAIN)
        ]
        assert found[1] <= found[0]
        more += [pattern for _, pattern in found[0] - found[1]]
    assert 2 <= len(more) <= 5, more
