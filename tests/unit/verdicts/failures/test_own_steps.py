"""Steps as a user's own rule names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.verdicts.failures.root_causes import diagnose
from rankdbg.verdicts.rules.log_rules import load_rules

RULE = """
[[phase]]
stack = "mine"
phase = "turns"
order = 1
repeats = true
match = [["turn ", 'turn (?P<step>\\w+) loss']]
"""


@pytest.mark.parametrize("step", ["seven", "9" * 5000])
def test_steps_that_are_no_numbers(tmp_path: Path, step: str) -> None:
    """They have no order, and nothing breaks."""
    (tmp_path / "mine.toml").write_text(RULE)
    rules = load_rules([str(tmp_path / "mine.toml")])
    log = tmp_path / "rank0.log"
    lines = [f"2026-03-01 10:00:0{second} turn {step} loss=2.5" for second in range(4)]
    log.write_text("\n".join([*lines, f"2026-03-01 10:00:05 turn {step} loss=nan"]) + "\n")
    scans = given_logs([str(log)], rules.patterns()).scan()
    assert any(hit.pattern.startswith("phase:") for hit in scans[0].hits)
    assert diagnose(scans, rules) is not None
