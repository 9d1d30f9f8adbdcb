"""Hashes of this rank's tensors, at a step or now; blocks of some of them; calls of modules."""

from __future__ import annotations

import time

from rankdbg.agent import card
from rankdbg.agent.replicas import (
    found_tensors,
    machines,
    module_calls,
    step_work,
    tensor_blocks,
    tensor_hashes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST_TENSORS = 200_000
_MOST_IN_BLOCKS = 200
# The values of a tensor of so many bytes are sent with the hashes of its blocks.
_SMALL = 2 * tensor_blocks.BLOCK


def hashes(kinds: tuple[str, ...], step: int | None, seconds: float) -> Any:
    holders = found_tensors.recent_holders()

    def work() -> dict[str, Any]:
        begun = time.monotonic()
        found = holders.tensors(kinds)[:_MOST_TENSORS]
        hashed = tensor_hashes.hash_tensors([each.tensor for each in found])
        tensors = [{**f.entry(), "hash": text} for f, text in zip(found, hashed, strict=True)]
        size = sum(tensor_blocks.size_of(each.tensor) for each in found)
        taken = time.monotonic() - begun
        return {"tensors": tensors, "step": card.step, "bytes": size, "seconds": taken}

    return _at(step, work, seconds)


def blocks(
    tensors: tuple[tuple[str, str], ...],
    wanted: tuple[tuple[int, ...], ...],
    step: int | None,
    seconds: float,
) -> Any:
    """Figures and hashes of the blocks of these tensors; or, where some are `wanted`, their values."""
    holders = found_tensors.recent_holders()

    def work() -> dict[str, Any]:
        kinds = tuple({kind for kind, _ in tensors})
        by_key = {(each.kind, each.name): each.tensor for each in holders.tensors(kinds)}
        found = []
        for number, (kind, name) in enumerate(tensors[:_MOST_IN_BLOCKS]):
            tensor = by_key.get((kind, name))
            if tensor is not None:
                some = _values(tensor, wanted[number]) if wanted else _outline(tensor)
                found.append({"kind": kind, "name": name, **some})
        return {"tensors": found, "step": card.step}

    return _at(step, work, seconds)


def _outline(tensor: Any) -> dict[str, Any]:
    size, block = tensor_blocks.size_of(tensor), tensor_blocks.block_size(tensor)
    found = {
        "bytes": size,
        "block": block,
        "hashes": tensor_blocks.block_hashes(tensor),
        "figures": tensor_hashes.figures(tensor),
    }
    if size <= _SMALL:
        found.update(_values(tensor, tuple(range(-(-size // block)))))
    return found


def _values(tensor: Any, numbers: tuple[int, ...]) -> dict[str, Any]:
    letter, text = tensor_blocks.block_values(tensor, numbers)
    return {"format": letter, "values": text}


def calls(step: int, under: str, inside: str | None, seconds: float) -> Any:
    """Of the modules of all models, from the start of that step to that of the next; and the operators
    of the module `inside`."""
    modules = found_tensors.recent_holders().modules()
    if not modules:
        return {"why": "no model of torch was found"}
    trace = module_calls.CallTrace(modules, under, inside)

    def end() -> dict[str, Any]:
        trace.end()
        found = trace.calls()
        device = next((each["device"] for each in found if each["device"]), "")
        return {
            "calls": found,
            "operators": trace.operators(),
            "step": step,
            **machines.of_device(device),
        }

    try:
        return step_work.from_to_next(step, trace.begin, end, seconds)
    except (step_work.StepPassed, step_work.Interrupted, TimeoutError) as error:
        return _none(error)
    finally:
        trace.end()


def _at(step: int | None, work: Callable[[], Any], seconds: float) -> Any:
    if step is None:
        return work()
    try:
        return step_work.at(step, work, seconds)
    except (step_work.StepPassed, step_work.Interrupted, TimeoutError) as error:
        return _none(error)


def _none(error: Exception) -> dict[str, Any]:
    return {"step": card.step, "passed": isinstance(error, step_work.StepPassed), "why": str(error)}
