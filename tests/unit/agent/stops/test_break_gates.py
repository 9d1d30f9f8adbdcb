"""From when on a break counts."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from rankdbg.agent import card
from rankdbg.agent.stops import break_gates
from rankdbg.agent.stops.breaks import Break
from waiting import wait_for


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Break:
    monkeypatch.setattr(card, "step", 3)
    return Break("train.py", 1, "", "")


def reason(entry: Break) -> str | None:
    return entry.reason_to_stop(sys._getframe())


def gate(count: int) -> break_gates.Gate:
    return break_gates.CountGate("step", count, measuring=False)


def test_below_the_count(entry: Break) -> None:
    entry.gate = gate(4)
    assert reason(entry) is None


def test_confirmed(entry: Break) -> None:
    entry.gate = gate(3)
    entry.gate.confirmed = True
    assert reason(entry) == "train.py:1"
    assert entry.gate is None


class Thread(threading.Thread):
    """A thread of the program that has come to the line."""

    def __init__(self, entry: Break) -> None:
        super().__init__(daemon=True)
        self.entry = entry
        self.reasons: list[Any] = []
        self.start()

    def run(self) -> None:
        self.reasons.append(reason(self.entry))


class LookedAt(break_gates.CountGate):
    looks = 0

    def is_open(self) -> bool:
        self.looks += 1
        return super().is_open()


@pytest.mark.parametrize(("then", "reasons"), [("confirm", ["train.py:1"]), ("later", [None])])
def test_unconfirmed(entry: Break, then: str, reasons: list[Any]) -> None:
    """The thread waits at the line; a later count lets it go on."""
    entry.gate = first = LookedAt("step", 3, measuring=False)
    thread = Thread(entry)
    wait_for(lambda: first.looks > 2)
    assert thread.reasons == []
    if then == "confirm":
        first.confirmed = True
    else:
        entry.gate = gate(9)
    wait_for(lambda: thread.reasons)
    assert thread.reasons == reasons


def test_a_client_that_has_gone(entry: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it sent a count, and before it confirmed one."""
    monkeypatch.setattr(break_gates, "CONFIRM_SECONDS", 0.0)
    entry.gate = gate(3)
    assert reason(entry) == "train.py:1"
    monkeypatch.setattr(break_gates, "CLOSED_SECONDS", -1.0)
    for entry.gate in (break_gates.Gate(), break_gates.CountGate("step", 0, measuring=True)):
        assert reason(entry) == "train.py:1"


def test_counts_that_do_not_increase(entry: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """The break counts after a while; not where they do, however long that takes."""
    entry.gate = gate(1000)
    entry.gate.confirmed = True
    monkeypatch.setattr(card, "step", 4)
    assert reason(entry) is None
    monkeypatch.setattr(break_gates, "STILL_SECONDS", -1.0)
    assert reason(entry) == "train.py:1"
