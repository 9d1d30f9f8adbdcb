"""Armed hooks and torch.compile: what is compiled is one module, armed before or afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
# torch warns of what is tried here: hooks on all modules.
pytestmark = pytest.mark.filterwarnings("ignore:Using `torch.compile")

from rankdbg.agent.nonfinite.armed_hooks import NanWatch  # noqa: E402, needs torch

nn = torch.nn


class Divides(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x / x


class Armed:
    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.watch = NanWatch(torch, False, lambda found, frame: self.found.append(found))

    def arm(self) -> None:
        self.watch.install(torch.nn.modules.module)


@pytest.fixture
def armed() -> Iterator[Armed]:
    """Compiled by dynamo, and run as it is: no compiler of C++ is needed."""
    torch._dynamo.reset()
    armed = Armed()
    yield armed
    armed.watch.remove()
    assert armed.watch.failures == ""
    torch._dynamo.reset()


@pytest.mark.parametrize("before", [True, False], ids=["armed before", "armed afterwards"])
def test_a_compiled_part(armed: Armed, before: bool) -> None:
    """The part as a whole is named, with its input; a healthy batch is passed over."""
    inner = nn.Sequential(nn.Linear(4, 4), Divides(), nn.Linear(4, 2))
    compiled = torch.compile(inner, backend="eager")
    model = nn.ModuleList([nn.Linear(4, 4), compiled])
    if before:
        armed.arm()
    model[1](model[0](torch.ones(3, 4)))
    if not before:
        armed.arm()
    model[1](model[0](torch.ones(3, 4)))
    assert armed.found == []
    with torch.no_grad():
        for each in (model[0], inner[0]):
            each.weight.zero_()
            each.bias.zero_()
    model[1](model[0](torch.ones(3, 4)))
    (found,) = armed.found
    assert (found["kind"], found["phase"], found["origin"]) == ("nan", "forward", "module")
    assert found["module"].split(".")[0] == "1"


def test_a_compiled_function(armed: Armed) -> None:
    """Modules that a compiled function calls are part of it: the next module outside is named."""
    inner, last = nn.Sequential(nn.Linear(4, 4), Divides()), nn.Linear(4, 2)
    with torch.no_grad():
        inner[0].weight.zero_()
        inner[0].bias.zero_()
    function = torch.compile(lambda x: inner(x), backend="eager")
    armed.arm()
    last(function(torch.ones(3, 4)))
    (found,) = armed.found
    assert found["kind"] == "nan"
