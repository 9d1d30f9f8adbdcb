"""Hashes that a rank keeps: at which steps, how many, and that the program never notices."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

import rankdbg  # noqa: E402, needs torch
from rankdbg.agent import card  # noqa: E402
from rankdbg.agent.replicas import kept_hashes, tensor_hashes  # noqa: E402
from rankdbg.agent.replicas.kept_hashes import HashRecord, keep, kept, thinned  # noqa: E402

KEY = ("parameter", "0.weight")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(card, "step", None)
    yield torch.nn.Sequential(torch.nn.Linear(2, 2))
    keep(0, ())
    assert card.step_work == []


def go(*steps: int) -> None:
    for step in steps:
        rankdbg.progress(step)


def test_every_step_and_what_changed(model: Any) -> None:
    assert kept(None, ()) == {"every": 0}
    assert keep(1, ("parameter",)) == {"every": 1, "step": None}
    go(0, 1)
    with torch.no_grad():
        model[0].weight[0, 0] += 1
    go(2)
    found = kept(1, (KEY, ("parameter", "nothing")))
    assert found["steps"] == [0, 1, 2]
    before, same, after = found["histories"][0]
    assert before == same != after
    assert found["histories"][1] == ["", "", ""]
    assert same in [each["hash"] for each in found["tensors"] if each["name"] == "0.weight"]
    assert kept(99, ())["tensors"] == []


def test_every_third_step(model: Any) -> None:
    """From the next one on; and the first after it, if a program counts otherwise."""
    go(4)
    keep(3, ("parameter",))
    go(5, 6, 7, 8, 10, 11, 12)
    assert kept(None, ())["steps"] == [6, 10, 12]


def test_going_back_to_a_checkpoint(model: Any) -> None:
    keep(1, ("parameter",))
    go(1, 2, 3, 2, 3)
    assert kept(None, ())["steps"] == [1, 2, 3]


def test_names_are_kept_once(model: Any) -> None:
    keep(1, ("parameter",))
    go(1, 2)
    one, two = kept_hashes._keeper.records  # type: ignore[union-attr]
    assert one.entries is two.entries


def test_a_model_that_is_made_anew(model: Any) -> None:
    """The first one is not kept alive, and the second one is found."""
    before = torch.nn.ModuleDict({"before": torch.nn.Linear(2, 2)})
    seen = weakref.ref(before)
    keep(1, ("parameter",))
    go(1)
    del before
    gc.collect()
    assert seen() is None
    after = torch.nn.ModuleDict({"after": torch.nn.Linear(2, 2)})
    go(2)
    first, second = ({each["name"] for each in kept(step, ())["tensors"]} for step in (1, 2))
    assert "before.weight" in first - second
    assert "after.weight" in second - first
    del after


def test_an_error_ends_it_and_not_the_program(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> list[str]:
        raise RuntimeError("out of memory")

    keep(1, ("parameter",))
    monkeypatch.setattr(tensor_hashes, "hash_tensors", fails)
    go(1, 2)
    assert "out of memory" in kept(None, ())["why"]
    assert card.step_work == []


def records(count: int, begin: int = 0) -> list[HashRecord]:
    return [HashRecord(10 * n, n, [], []) for n in range(begin, begin + count)]


def kept_of(count: int, begin: int = 0) -> list[int]:
    """The turns that are left when records come one by one."""
    found: list[HashRecord] = []
    for record in records(count, begin):
        found = thinned([*found, record], 8)
    return [each.turn for each in found]


def test_older_ones_are_thinned() -> None:
    turns = kept_of(1000)
    assert len(turns) <= 17
    assert turns[-8:] == [*range(992, 1000)]
    assert turns[0] == 0
    assert turns == sorted(turns)


def test_ranks_that_began_at_different_steps_have_the_same_ones() -> None:
    assert {*kept_of(1000)} - {0} == {*kept_of(997, 3)} - {3}


def test_few_are_not_thinned() -> None:
    assert kept_of(15) == [*range(15)]
