"""clocks: clocks that differ, told by the steps that ranks have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crashes import steps
from rankdbg.logs.patterns import FileScan
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.log_lines import CLOCK, Origins
from rankdbg.verdicts.rules.log_rules import load_rules

RULES = load_rules()


def ahead(folder: Path, late: Callable[[int], int]) -> float:
    """How much the last of four ranks is thought to be ahead, if its steps are late by so much."""
    scans: list[FileScan] = []
    scanner = Scanner(RULES.patterns(), CLOCK)
    for rank in range(4):
        lines = []
        for n in range(20):
            second = 100 + 10 * n + (late(n) if rank == 3 else 0)
            lines.append(steps(rank, second + 1)[0].replace("10:00:00", clock(second)))
            lines[-1] = lines[-1].replace("step: 0", f"step: {n}")
        log = folder / f"rank_{rank}.log"
        log.write_text("\n".join(lines) + "\n")
        scans.append(scanner.scan(str(log)))
    clocks = Clocks(scans, RULES, Origins(scans), 2026)
    return clocks.ahead(scans[3].path, scans[3].hits[-1])


def clock(second: int) -> str:
    return f"10:{second // 60:02}:{second % 60:02}"


@pytest.mark.parametrize("seconds", [40, -40])
def test_another_clock(tmp_path: Path, seconds: int) -> None:
    """A rank whose steps are always as much later, or earlier, has another clock."""
    assert ahead(tmp_path, lambda n: seconds) == seconds


def test_falling_behind(tmp_path: Path) -> None:
    """A rank that falls behind from step to step has the same clock as the others."""
    assert ahead(tmp_path, lambda n: 3 * n) == 0


def test_a_little_later(tmp_path: Path) -> None:
    """A few seconds may be the work itself."""
    assert ahead(tmp_path, lambda n: 2) == 0


def test_bars_have_no_clock(tmp_path: Path) -> None:
    """A progress bar has the clock of some line above it, which is that of an earlier step."""
    scanner = Scanner(RULES.patterns(), CLOCK)
    scans: list[FileScan] = []
    for rank in range(3):
        lines = []
        for n in range(20):
            own = steps(rank, 1)[0].replace("10:00:00", clock(100 + 10 * n))
            bar = [f"Epoch 0:   2%|▏         | {n + 1}/40000 [00:19<25:31:20]"] * (rank == 2)
            lines += [own.replace("step: 0", f"step: {n}"), *bar]
        log = tmp_path / f"rank_{rank}.log"
        log.write_text("\n".join(lines) + "\n")
        scans.append(scanner.scan(str(log)))
    clocks = Clocks(scans, RULES, Origins(scans), 2026)
    assert {clocks.ahead(scan.path, scan.hits[-1]) for scan in scans} == {0.0}
