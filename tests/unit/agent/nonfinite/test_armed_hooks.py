"""Hooks that find the first value that is not finite: the module, and where the value comes from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from rankdbg.agent.nonfinite.armed_hooks import NanWatch  # noqa: E402, needs torch

nn = torch.nn
NAN, INF = float("nan"), float("inf")


class Divides(nn.Module):  # type: ignore[misc]
    """Makes 0 / 0 where its input is 0."""

    def forward(self, x: Any) -> Any:
        return x / x


class Root(nn.Module):  # type: ignore[misc]
    """Its gradient is infinite where its input is 0."""

    def forward(self, x: Any) -> Any:
        return (x - x).sqrt()


class Armed:
    """A watch, and what it has found."""

    def __init__(self, exact: bool = False) -> None:
        self.found: list[dict[str, Any]] = []
        self.places: list[str] = []
        self.watch = NanWatch(torch, exact, self._note)
        self.watch.install(torch.nn.modules.module)
        self.watch.install_optimizer(sys.modules["torch.optim.optimizer"])

    def _note(self, found: dict[str, Any], frame: Any) -> None:
        self.found.append(found)
        self.places.append(frame.f_code.co_name)

    @property
    def one(self) -> dict[str, Any]:
        (found,) = self.found
        return found

    def figures(self, role: str) -> list[dict[str, Any]]:
        return [each for each in self.one["tensors"] if each["role"] == role]


@pytest.fixture
def armed() -> Iterator[Armed]:
    armed = Armed()
    yield armed
    armed.watch.remove()
    assert armed.watch.failures == ""
    hooks = torch.nn.modules.module
    assert not hooks._global_forward_hooks and not hooks._global_forward_pre_hooks


def train(model: Any, x: Any, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


@pytest.mark.slow
def test_finite_values_are_left_alone(armed: Armed) -> None:
    """Several steps of training, with outputs that are changed in place."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.LayerNorm(4), nn.Dropout(0.1))
    train(model, torch.randn(3, 4))
    assert armed.found == []
    assert armed.watch.is_active
    assert armed.watch.checks > 20


def test_the_module_that_makes_it(armed: Armed) -> None:
    """It is named as in its model, with figures of what went in; the hooks are gone afterwards."""
    inner = nn.Sequential(nn.ReLU(), Divides(), nn.Linear(4, 2))
    model = nn.ModuleDict({"module": nn.Sequential(nn.Linear(4, 4), inner)})["module"]
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.zero_()
    model(torch.randn(3, 4))
    found = armed.one
    assert (found["module"], found["type"], found["phase"]) == ("1.1", "Divides", "forward")
    assert (found["origin"], found["kind"], found["which"]) == ("module", "nan", "output")
    (given,), (made,) = armed.figures("input"), armed.figures("output")
    assert [given["figures"][name] for name in ("nan", "inf", "max")] == [0, 0, 0.0]
    assert (made["figures"]["nan"], made["shape"]) == (12, [3, 4])
    assert armed.places == ["test_the_module_that_makes_it"]
    assert not armed.watch.is_active


def test_it_is_in_the_data(armed: Armed) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model(torch.full((2, 4), NAN))
    assert (armed.one["module"], armed.one["origin"]) == ("0", "data")


def test_it_is_made_between_modules(armed: Armed) -> None:
    """By operations of a forward function: the modules before and after are named."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            return self.second(x / (x - x) * 0)

    Block()(torch.randn(2, 4))
    found = armed.one
    assert (found["module"], found["origin"], found["previous"]) == ("second", "before", "first")
    assert armed.places == ["forward"]


def test_parameters_that_are_not_finite(armed: Armed) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.no_grad():
        model[1].weight[0, 0] = NAN
    model(torch.randn(2, 4))
    assert (armed.one["module"], armed.one["origin"]) == ("1", "parameters")


def test_nan_that_is_made_of_inf(armed: Armed) -> None:
    """The module in which inf came up is named too."""

    class Overflows(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * 1e38 * 1e38

    model = nn.Sequential(nn.Linear(4, 4), Overflows(), nn.LayerNorm(4))
    model(torch.ones(2, 4))
    found = armed.one
    assert (found["module"], found["origin"], found["infinite"]) == ("2", "module", "1")


def test_masks_are_innocent(armed: Armed) -> None:
    """-inf in buffers, inputs and outputs that softmax makes finite again, and log_softmax of it."""

    class Scores(nn.Module):  # type: ignore[misc]
        def forward(self, q: Any, k: Any, mask: Any) -> Any:
            return q @ k.transpose(-2, -1) + mask

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scores, self.linear = Scores(), nn.Linear(4, 4)
            self.register_buffer("mask", torch.triu(torch.full((5, 5), -INF), 1))
            self.softmax, self.log = nn.Softmax(-1), nn.LogSoftmax(-1)

        def forward(self, x: Any) -> Any:
            q = self.linear(x)
            weights = self.softmax(self.scores(q, q, mask=self.mask))
            self.log(self.scores(q, q, mask=self.mask))
            return weights @ q

    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    train(Attention(), torch.randn(2, 5, 4))
    layer(torch.randn(2, 5, 4), src_mask=causal)
    assert armed.found == []
    assert armed.watch.infinite is not None


def test_an_infinite_loss(armed: Armed) -> None:
    class Loss(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return -(x - x).sum().log()

    Loss()(nn.Linear(4, 4)(torch.randn(2, 4)))
    assert (armed.one["module"], armed.one["kind"]) == ("Loss", "inf")


def test_a_gradient(armed: Armed) -> None:
    """The module whose backward pass makes it is named, not the one before."""
    model = nn.Sequential(nn.Linear(4, 4), Root(), nn.Linear(4, 2))
    train(model, torch.randn(3, 4), steps=1)
    found = armed.one
    assert (found["phase"], found["module"], found["type"]) == ("backward", "1", "Root")
    assert found["origin"] == "module"
    (gradient,) = armed.figures("gradient")
    assert gradient["figures"]["nan"] + gradient["figures"]["inf"] == 12


def test_a_gradient_of_the_loss(armed: Armed) -> None:
    """A function after the model makes it: no module is named as its origin."""
    model = nn.Sequential(nn.Linear(4, 2))
    (model(torch.randn(3, 4)) * 0).sqrt().sum().backward()
    assert (armed.one["origin"], armed.one["module"]) == ("operations", "0")


def test_one_of_several_users(armed: Armed) -> None:
    class Heads(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.q, self.k = nn.LayerNorm(4), Root(), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            x = self.norm(x)
            return self.q(x) + self.k(x)

    Heads()(torch.randn(3, 4)).sum().backward()
    found = armed.one
    assert (found["module"], found["origin"], found["users"]) == ("norm", "one of", ["q", "k"])


def test_a_gradient_that_comes_from_elsewhere(armed: Armed) -> None:
    """As from another rank: seen before the optimizer uses it."""
    model = nn.Sequential(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model(torch.randn(3, 4)).sum().backward()
    model[0].bias.grad[1] = INF
    optimizer.step()
    found = armed.one
    assert (found["phase"], found["module"]) == ("optimizer", "0")
    assert found["which"] == "gradient of bias"


def test_gradients_under_a_loss_scaler(armed: Armed) -> None:
    """While its scale is above 1 it skips such steps; from then on they are a fault."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    model = nn.Sequential(nn.Linear(4, 4), Root())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(model(torch.randn(3, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert (armed.found, armed.watch.scaled) == ([], 2)
    assert scaler.get_scale() == 1.0
    scaler.scale(model(torch.randn(3, 4)).sum()).backward()
    assert armed.one["type"] == "Root"


def test_outputs_of_many_kinds(armed: Armed) -> None:
    """Tuples, dictionaries, whole numbers, empty tensors, small floats and complex numbers."""

    class Many(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, bad: float = 0.0) -> Any:
            return {
                "ids": torch.arange(3),
                "none": None,
                "empty": torch.empty(0, 4),
                "small": x.to(torch.float8_e4m3fn),
                "pair": (x.to(torch.bfloat16), [torch.complex(x, x + bad)]),
            }

    many = Many()
    many(torch.ones(2))
    assert armed.found == []
    many(torch.ones(2), bad=NAN)
    assert armed.one["which"] == "output['pair'][1][0]"


def test_an_exception_of_the_program(armed: Armed) -> None:
    """It is the program's own; what comes after it is looked at as before."""

    class Raises(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        nn.Sequential(nn.Linear(2, 2), Raises())(torch.randn(1, 2))
    nn.Sequential(nn.Linear(2, 2))(torch.full((1, 2), NAN))
    assert armed.one["origin"] == "data"


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_compiled_modules_are_looked_at_as_a_whole(armed: Armed) -> None:
    """torch.compile does not trace into the hooks."""
    model = nn.Sequential(nn.Linear(4, 4), Divides())
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(2, 4))
    assert armed.found == []
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.zero_()
    compiled(torch.ones(2, 4))
    assert armed.one["phase"] == "forward"


def test_recomputed_activations(armed: Armed) -> None:
    from torch.utils.checkpoint import checkpoint

    block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    checkpoint(block, torch.randn(2, 4, requires_grad=True), use_reentrant=False).sum().backward()
    assert armed.found == []


def test_values_that_stay_on_their_device(armed: Armed) -> None:
    """As on a GPU: the module is known when the model has returned, and its inputs no more."""
    armed.watch.at_once = ()
    model = nn.Sequential(nn.Linear(4, 4), Divides(), nn.Linear(4, 2))
    train(model, torch.ones(2, 4))
    assert armed.found == []
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.zero_()
    model(torch.ones(2, 4))
    found = armed.one
    assert (found["module"], found["previous"], found["exact"]) == ("1", "0", False)
    assert (found["origin"], armed.figures("input")) == ("unknown", [])


def test_gradients_that_stay_on_their_device(armed: Armed) -> None:
    """They are looked at before the optimizer uses them."""
    armed.watch.at_once = ()
    model = nn.Sequential(nn.Linear(4, 4), Root(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model(torch.ones(2, 4)).sum().backward()
    assert armed.found == []
    optimizer.step()
    assert (armed.one["phase"], armed.one["module"]) == ("backward", "1")
    assert armed.places == ["test_gradients_that_stay_on_their_device"]


def test_exact_looks_at_once(armed: Armed) -> None:
    armed.watch.at_once, armed.watch.exact = (), True
    nn.Sequential(Divides(), nn.Linear(4, 2))(torch.zeros(2, 4))
    assert armed.one["exact"]
    assert len(armed.figures("input")) == 1
