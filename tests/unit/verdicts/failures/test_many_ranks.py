"""What is done for each event, where thousands of ranks fail in the same way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.verdicts.failures import explanation
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.root_causes import diagnose
from rankdbg.verdicts.rules.log_rules import load_rules

RANKS, ODD = 200, 77
LOST = "RuntimeError: NCCL error: remote process exited or there was a network error"
ERROR = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: bad batch'


def test_events_are_not_compared_with_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(RANKS):
        steps = [f"2026-05-04 09:{n:02d}:00 [rank {rank}] step {n} loss 2.1" for n in range(9)]
        end = ERROR if rank == ODD else f"2026-05-04 09:20:00 [rank {rank}] {LOST}"
        file = tmp_path / f"gpu-{rank // 8:03d}-rank{rank}.log"
        file.write_text("\n".join([*steps, end, ""]))
    calls: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def count(*arguments: Any) -> Any:
            calls[name] += 1
            return function(*arguments)

        return count

    monkeypatch.setattr(Event, "__eq__", counted("equal", Event.__eq__))
    monkeypatch.setattr(explanation, "brings", counted("brings", explanation.brings))
    rules = load_rules()
    found = diagnose(given_logs([str(tmp_path)], rules.patterns()).scan(), rules)
    assert found.failures[0].mode == "python_error"
    assert found.failures[0].ranks == (ODD,)
    assert 0 < calls["brings"] < 5 * RANKS, calls
    assert calls["equal"] < 5 * RANKS, calls
