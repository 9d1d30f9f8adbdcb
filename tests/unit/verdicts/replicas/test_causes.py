"""What a rank has of a tensor that differs -> what kind of mistake it is."""

from __future__ import annotations

from typing import Any

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.causes import Cause, find_cause
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.wire.replica_answers import ReplicaTensor

RANKS = tuple(Rank(ProcessKey("here", n, 1), "train", n) for n in range(3))
ODD = Difference("parameter", "w", ((RANKS[0], RANKS[2]), (RANKS[1],)), (4,), "float32")


def cause(
    gradients: str = "ggg",
    states: str = "sss",
    optimized: tuple[bool | None, ...] = (True, True, True),
    settings: tuple[str, ...] = ("lr 1", "lr 1", "lr 1"),
    difference: Difference = ODD,
    **more: Any,
) -> Cause:
    """A letter for each rank; a blank: it is not there."""
    tensors = {}
    for n, rank in enumerate(RANKS):
        found = [
            ReplicaTensor("parameter", "w", "p", optimized=optimized[n], settings=settings[n]),
            ReplicaTensor("gradient", "w", gradients[n]),
            ReplicaTensor("optimizer", "w exp_avg", states[n]),
            ReplicaTensor("optimizer", "w2 exp_avg", str(n)),
        ]
        tensors[rank.process] = [each for each in found if each.hash != " "]
    return find_cause(difference, tensors, **more)


def told(found: Cause) -> tuple[str, list[int]]:
    return found.kind, sorted(rank.number or 0 for rank in found.ranks)


def test_gradients_differ() -> None:
    assert told(cause(gradients="gxg", states="sxs")) == ("gradient", [1])
    assert told(cause(gradients="abc", states="abc")) == ("gradient", [0, 1, 2])


def test_left_out_of_the_optimizer() -> None:
    """By its groups; or by its state, where it has no groups."""
    assert told(cause(states="s s", optimized=(True, False, True))) == ("left out", [1])
    unknown = (None, None, None)
    assert told(cause(states="s s", optimized=unknown)) == ("left out", [1])
    # in no rank: frozen on purpose
    assert cause(states="   ", optimized=(False, False, False)).kind == "outside"


def test_optimizers_that_divide_the_parameters_or_states() -> None:
    """Each rank has some of them on purpose."""
    assert cause(states="s  ", optimized=(True, False, False)).kind == "outside"
    assert cause(states="s  ").kind == "outside"


def test_no_gradient_in_one() -> None:
    assert told(cause(gradients="g g")) == ("no gradient", [1])


def test_other_settings() -> None:
    found = cause(settings=("lr 1", "lr 2", "lr 1"))
    assert told(found) == ("settings", [1])
    assert found.values == ("lr 1", "lr 2")


def test_the_state_alone() -> None:
    assert told(cause(states="sxs")) == ("optimizer", [1])


def test_nothing_else_differs() -> None:
    assert told(cause()) == ("outside", [1])
    assert told(cause(states="   ")) == ("outside", [1])  # SGD has no state


def test_without_gradients_nothing_is_known() -> None:
    assert cause(gradients="   ").kind == "unknown"


def test_rounding_is_not_a_fault() -> None:
    """But a parameter that an optimizer does not have is."""
    assert told(cause(gradients="gxg", is_rounding=True)) == ("rounding", [1])
    left_out = cause(optimized=(True, False, True), is_rounding=True)
    assert left_out.kind == "left out"


def test_other_kinds() -> None:
    groups = ODD.groups
    for kind in ("buffer", "gradient", "optimizer"):
        found = cause(difference=Difference(kind, "w", groups, (4,), "float32"))
        assert told(found) == (kind, [1])


def test_gradients_that_are_not_reduced_yet() -> None:
    """Of a DTensor: each rank has a part of the sum until the optimizer needs it."""
    tensors = {
        rank.process: [
            ReplicaTensor("parameter", "w", "p", placement=(("dp", "replicate"),), optimized=True),
            ReplicaTensor("gradient", "w", str(n), placement=(("dp", "partial"),)),
        ]
        for n, rank in enumerate(RANKS)
    }
    assert told(find_cause(ODD, tensors)) == ("outside", [1])


def test_gradients_that_are_marked_as_their_parameter() -> None:
    """As Megatron's: they are compared like any others."""
    mark = (("tp", "replicate"),)
    tensors = {
        rank.process: [
            ReplicaTensor("parameter", "w", "p", placement=mark, optimized=True),
            ReplicaTensor("gradient", "w", "x" if n == 1 else "g", placement=mark),
        ]
        for n, rank in enumerate(RANKS)
    }
    assert told(find_cause(ODD, tensors)) == ("gradient", [1])
