"""Hooks for one step: what they see, and that they are gone afterwards."""

from __future__ import annotations

import threading
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

import rankdbg  # noqa: E402, needs torch
from rankdbg.agent import card  # noqa: E402
from rankdbg.agent.replicas import found_tensors, module_calls, replica_answers, step_work  # noqa: E402
from rankdbg.agent.replicas.module_calls import CallTrace  # noqa: E402
from waiting import wait_for  # noqa: E402


def make_model() -> Any:
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True))
    return torch.nn.Sequential(inner, torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))


def hooks_of(model: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def calls_of(model: Any, data: Any, under: str = "") -> list[dict[str, Any]]:
    trace = CallTrace([*model.named_modules()], under, None)
    trace.begin()
    model(data).sum().backward()
    trace.end()
    assert hooks_of(model) == 0
    return trace.calls()


def test_modules_in_the_order_in_which_they_return() -> None:
    """Then the nodes that modules without children have made, backwards. Random ones have none."""
    calls = calls_of(make_model(), torch.ones(1, 4))
    forward = [each for each in calls if each["phase"] == "forward"]
    assert [each["name"] for each in forward] == ["0.0", "0.1", "0", "1", "2", ""]
    assert [each["random"] for each in forward] == [False, False, False, True, False, True]
    assert forward[0]["outputs"] == forward[1]["inputs"] != forward[1]["outputs"]
    assert forward[1]["parameters"] == ""
    assert forward[0]["parameters"] == forward[2]["parameters"] != ""
    assert forward[0]["device"] == "cpu"
    backward = [(each["name"], each["type"]) for each in calls[len(forward) :]]
    # The gradient of a weight is transposed in a node of its own.
    assert [name for name, _ in backward if "TBackward" not in _] == ["2", "0.1", "0.0"]
    assert ("0.1", "ReluBackward0") in backward


def test_equal_and_other_inputs_and_parameters() -> None:
    model = make_model().eval()
    one, two = calls_of(model, torch.ones(1, 4)), calls_of(model, torch.ones(1, 4))
    assert one == two
    with torch.no_grad():
        model[2].bias += 1
    three = calls_of(model, torch.ones(1, 4))
    assert one[:4] == three[:4]
    assert one[4]["inputs"] == three[4]["inputs"]
    assert one[4]["parameters"] != three[4]["parameters"]


def test_buffers_count() -> None:
    """The statistics of a batch norm explain its outputs when it does not train."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4)).eval()
    (one, *_) = calls_of(model, torch.ones(2, 4))
    model[0].running_mean += 1
    (two, *_) = calls_of(model, torch.ones(2, 4))
    assert one["inputs"] == two["inputs"]
    assert one["parameters"] != two["parameters"]


def test_a_module_that_raises() -> None:
    """What was open inside of it is forgotten; the next calls are seen."""

    class Raises(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            raise ValueError

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Raises())
    trace = CallTrace([*model.named_modules()], "", None)
    trace.begin()
    with pytest.raises(ValueError):
        model(torch.ones(1, 4))
    model[0](torch.ones(1, 4))
    trace.end()
    assert [each["name"] for each in trace.calls()] == ["0", "0"]


def test_named_arguments_and_lists() -> None:
    class Pair(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, *, more: Any) -> Any:
            return {"sum": x + more[0], "count": 3}

    class Outer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.pair = Pair()

        def forward(self, x: Any) -> Any:
            return self.pair(x, more=[x])["sum"]

    one, two = (calls_of(Outer(), torch.full((2,), n, requires_grad=True)) for n in (1.0, 2.0))
    assert one[0]["inputs"] != two[0]["inputs"]
    assert one[0]["outputs"] != two[0]["outputs"]


def test_a_large_model_is_watched_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_calls, "MOST_MODULES", 3)
    names = [each["name"] for each in calls_of(make_model(), torch.ones(1, 4), "0")]
    assert {*names} == {"0", "0.0", "0.1"}


def test_a_hook_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(module_calls, "hashes_of", fails)
    assert calls_of(make_model(), torch.ones(1, 4)) == []


class Asking:
    """An agent's thread that has asked for the calls of a step."""

    def __init__(self, step: int, seconds: float) -> None:
        self.answer: Any = None
        self._thread = threading.Thread(target=self._ask, args=(step, seconds))
        before = len(card.step_work)
        self._thread.start()
        wait_for(lambda: len(card.step_work) > before or not self._thread.is_alive())

    def _ask(self, step: int, seconds: float) -> None:
        self.answer = replica_answers.calls(step, "", None, seconds)

    def end(self) -> Any:
        self._thread.join()
        return self.answer


def test_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its begin to that of the next one, whatever its number."""
    monkeypatch.setattr(card, "step", 1)
    monkeypatch.setattr(found_tensors, "_recent", None)
    model = make_model()
    asking = Asking(3, 20)
    for step in (2, 3, 7):
        rankdbg.progress(step)
        assert bool(hooks_of(model)) == (step == 3)
        model(torch.ones(1, 4))
    found = asking.end()
    assert "torch" in found["kind"]
    assert [each["name"] for each in found["calls"] if each["type"] == "Dropout"] == ["1"]
    assert found["step"] == 3


def test_a_step_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the hooks are removed too."""
    monkeypatch.setattr(card, "step", 1)
    model = make_model()
    asking = Asking(2, 0.5)
    rankdbg.progress(2)
    found = asking.end()
    assert found["why"] == "step 2 has not ended" and not found["passed"]
    assert hooks_of(model) == 0
    assert card.step_work == []


def test_a_step_that_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "step", 5)
    model = make_model()
    assert Asking(5, 5).end()["passed"]
    jumped = Asking(7, 5)
    rankdbg.progress(8)
    assert jumped.end()["passed"]
    with pytest.raises(TimeoutError, match="step 9 has not begun"):
        step_work.at(9, lambda: None, 0.01)
    assert hooks_of(model) == 0


def test_an_interrupted_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """^C is the program's, also while its thread does the agent's work."""
    monkeypatch.setattr(card, "step", 1)

    def interrupted() -> None:
        raise KeyboardInterrupt

    found: list[Exception] = []

    def ask() -> None:
        try:
            step_work.at(2, interrupted, 20)
        except step_work.Interrupted as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for(lambda: len(card.step_work) > 0)
    with pytest.raises(KeyboardInterrupt):
        rankdbg.progress(2)
    thread.join()
    assert [str(each) for each in found] == ["step 2 was interrupted"]
    assert card.step_work == []
