"""Faults of tensor parallelism, each in a model of its own, and a healthy one beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from diverging import diverge, reached, start
from jobs import PROGRAMS, Job
from waiting import wait_for

PROGRAM = PROGRAMS / "parallel_torch.py"

pytestmark = [pytest.mark.slow]


@pytest.mark.extra
def test_each_fault_in_its_model(job: Job, tmp_path: Path) -> None:
    """Nothing is reported of all models before, and of the healthy one afterwards."""
    start(job, PROGRAM, 4, tmp_path)
    kinds = ("--gradients", "--optimizer", "--random")
    status, found = diverge(job, *kinds, "--every", "1", "--first")
    assert (status, found["differences"]) == (0, [])
    assert found["random"] == []
    modules = found["first"]["modules"]
    assert modules["compared"] > 10
    assert (modules["module"], modules["data"], found["first"]["operator"]) == (None, [], None)

    (tmp_path / "faults").touch()
    wait_for((tmp_path / "injected").exists)
    injected = int((tmp_path / "injected").read_text())
    reached(job, injected + 2, 4)
    status, found = diverge(job, "--first")
    assert status == 1
    odd = {each["name"]: each["odd"] for each in found["differences"]}
    # Along tp there are two ranks, of which none is odd.
    assert odd.pop("dtensor.scale") == "2"
    assert {name.partition(".")[0] for name in odd} == {
        "unreduced",
        "dropout",
        "activation",
        "order",
        "clipped",
    }
    assert not any(group["nan"] for each in found["differences"] for group in each["groups"])
    since = {each["since"]["step"] for each in found["differences"]}
    assert since == {injected + 1}
    assert {each["since"]["equal_at"] for each in found["differences"]} == {injected}
    causes = {each["name"]: each["kind"] for each in found["first"]["causes"]}
    assert causes["unreduced.norm.weight"] == causes["clipped.norm.weight"] == "gradient"
    assert causes["activation.last_norm.weight"] == "gradient"
    assert causes["dtensor.scale"] == "outside"
    (data,) = found["first"]["modules"]["data"]
    assert (data["module"], data["odd"]) == ("order", "2-3")
    assert {(note["dimension"], note["equal"]) for note in found["random"]} == {("tp", False)}
    assert found["first"]["modules"]["module"] is None
