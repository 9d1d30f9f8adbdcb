"""The bounds and checks of tests/fuzz: what they are there for is found."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

import bounds
from fuzzing import Target, check_visible

FUZZ = Path(__file__).parents[1] / "fuzz/fuzz.py"


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("fuzz", FUZZ)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fuzz", module)
    spec.loader.exec_module(module)
    return module


def endless(data: bytes) -> None:
    while data:
        with contextlib.suppress(Exception):
            data = data[:]


def large(data: bytes) -> None:
    bytes(4 << 30)


def test_what_never_returns_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the code survives every exception; and what returns is none."""
    monkeypatch.setattr(bounds, "SECONDS", 0.2)
    target = Target("endless", lambda random: b"", endless, 1)
    target.try_one(b"")
    with pytest.raises(AssertionError, match="of processor time"):
        target.try_one(b"x")


def test_too_much_memory_is_a_fault() -> None:
    """It is refused before the machine has none left."""
    with pytest.raises(MemoryError):
        Target("large", lambda random: b"", large, 1).try_one(b"x")


def test_an_input_is_made_smaller(fuzz: ModuleType) -> None:
    """To what the fault needs."""
    assert fuzz.smaller(b"a" * 300 + b"odd" + b"b" * 77, lambda data: b"odd" in data) == b"odd"


def test_every_target_has_a_short_form_and_valid_names(fuzz: ModuleType) -> None:
    """Its inputs are the same for the same number, and differ."""
    for name, target in fuzz.targets().items():
        assert name == target.name and " " not in name
        made = [target.make(Random(number)) for number in (1, 1, 2, 3, 4)]
        assert made[0] == made[1]
        assert len({*made}) > 1


@pytest.mark.parametrize("text", ["\x1b[31m", "a\u202eb", "\ud800", "\x7f", "\u2028"])
def test_hidden_characters_are_seen(text: str) -> None:
    """Lines, tabs and letters are none."""
    check_visible("é\n\t損")
    with pytest.raises(AssertionError):
        check_visible(text)
