"""RANKDBG_PATIENCE and --patience: what is valid, and what it multiplies."""

from __future__ import annotations

import pytest

from rankdbg.clusters import Options
from rankdbg.errors import BadInput
from rankdbg.session import Session
from rankdbg.session.patience import find_patience
from rankdbg.wire.node_questions import SampleStacks


def test_given_or_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKDBG_PATIENCE", raising=False)
    assert find_patience() == 1.0
    monkeypatch.setenv("RANKDBG_PATIENCE", "2.5")
    assert find_patience() == 2.5
    assert find_patience(4.0) == 4.0


@pytest.mark.parametrize("text", ["0", "0.5", "-3", "101", "nan", "inf", "much"])
def test_invalid(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RANKDBG_PATIENCE", text)
    with pytest.raises(BadInput) as refusal:
        Session()
    assert refusal.value.what == (
        f"invalid RANKDBG_PATIENCE={text}: expected a number from 1 to 100"
    )


def test_the_usual_time_limit() -> None:
    """A time limit that was given stays as it is."""
    assert Session(options=Options(patience=3.0)).timeout == 15.0
    assert Session(timeout=2.0, options=Options(patience=3.0)).timeout == 2.0


@pytest.mark.parametrize(("sent", "seconds"), [(1.0, 2.0), (3.0, 6.0), (0.1, 2.0), (1e9, 200.0)])
def test_a_question(sent: float, seconds: float) -> None:
    """Whatever the other side says: no shorter than usual, and not for ever."""
    assert SampleStacks(patience=sent).tolerance(2.0) == seconds
