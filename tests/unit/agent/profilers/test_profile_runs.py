"""One profile of a rank: begun by a question, ended by another one or by its time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from rankdbg.agent.profilers import memory_profiler, profile_runs
from rankdbg.wire.questions import StartProfiler
from waiting import PATIENCE, wait_for


def test_a_profiler_that_starts_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it any more: it ends as soon as it has started, long before its time, and the
    rank can be profiled again."""
    may_start = threading.Event()
    written: list[str] = []

    def begin(path: str, _stack: bool) -> Any:
        assert may_start.wait(PATIENCE)
        return lambda: written.append(path) or {"notes": []}

    monkeypatch.setattr(memory_profiler, "begin", begin)
    monkeypatch.setattr(profile_runs, "STARTING_SECONDS", 0.01)
    asked = StartProfiler(directory=str(tmp_path), kind="memory", seconds=3600.0)
    assert profile_runs.begin(asked) == {"why": "its profiler did not start within 0 s"}
    assert profile_runs.begin(asked) == {"why": "it is already being profiled"}
    may_start.set()
    wait_for(lambda: written, "it ends")
    monkeypatch.setattr(profile_runs, "STARTING_SECONDS", PATIENCE)
    wait_for(lambda: profile_runs.begin(asked) == {}, "it is profiled again")
    assert profile_runs.end(PATIENCE) == {"notes": []}
