"""The first value that is not finite: in which module, from what, and where the program was."""

from __future__ import annotations

import os
import sys
import time

from rankdbg.agent import card, stacks
from rankdbg.agent.replicas import found_tensors, tensor_hashes
from rankdbg.process.user_code import is_agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

_MOST_FIGURES = 24


class Sighting:
    """A tensor that is not finite, as the hooks have seen it. `module`: whose output, gradient or
    parameter it is; `users`: the modules that had the output as their input; `previous`: the module
    whose output was the last one that was finite. `exact`: the program is still there."""

    def __init__(
        self,
        phase: str,
        kind: str,
        module: Any,
        which: str,
        *,
        tensor: Any = None,
        inputs: Iterable[tuple[str, Any]] = (),
        users: Iterable[Any] = (),
        previous: Any = None,
        exact: bool = True,
    ) -> None:
        self.phase, self.kind, self.module, self.which = phase, kind, module, which
        self.tensor, self.inputs, self.users = tensor, [*inputs], [*users]
        self.previous, self.exact = previous, exact
        self.infinite: Any = None  # the module whose output had inf first, in this pass


def step() -> int | None:
    """That the program has reported; else how many steps its optimizers have made."""
    if card.step is not None:
        return card.step
    from rankdbg.agent.history import notes

    return notes.optimizer_steps() or None


def describe(seen: Sighting, frame: FrameType | None) -> dict[str, Any]:
    holders = found_tensors.Holders()
    names = [_name(holders, user) for user in _innermost(seen.users)]
    module = seen.module
    if seen.phase == "backward" and len(names) == 1:
        module = _innermost(seen.users)[0]  # what used the output has made its gradient
    tensors = _tensors(seen, module)
    return {
        "step": step(),
        "time": time.time(),
        "phase": seen.phase,
        "kind": seen.kind,
        "module": _name(holders, module),
        "type": type(module).__name__,
        "which": seen.which,
        "origin": _origin(seen, tensors, names),
        "tensors": tensors,
        "users": names,
        "previous": _name(holders, seen.previous) if seen.previous is not None else "",
        "infinite": _name(holders, seen.infinite) if seen.infinite is not None else "",
        "where": stacks.line_of(frame) if frame is not None else None,
        "exact": seen.exact,
    }


def name_of(module: Any) -> str:
    return _name(found_tensors.Holders(), module)


def _name(holders: found_tensors.Holders, module: Any) -> str:
    """In its model; the model itself, and a module of none, has the name of its class."""
    return holders.name_of(module) or type(module).__name__


def _innermost(modules: list[Any]) -> list[Any]:
    """Without those around others: a block has the same input as its first layer."""
    distinct = list({id(each): each for each in modules}.values())
    outer = {
        id(each)
        for each in distinct
        for inner in each.modules()
        if inner is not each and any(inner is other for other in distinct)
    }
    return [each for each in distinct if id(each) not in outer]


def _tensors(seen: Sighting, module: Any) -> list[dict[str, Any]]:
    """Figures of what went in, of the module's own parameters, and of what came out."""
    found = [("input", label, tensor) for label, tensor in seen.inputs]
    own = module._parameters if module is not None else {}
    found += [("parameter", name, each) for name, each in own.items() if each is not None]
    if seen.tensor is not None:
        found.append((_ROLES[seen.phase], seen.which, seen.tensor))
    return [_figures(role, label, tensor) for role, label, tensor in found[-_MOST_FIGURES:]]


_ROLES = {"forward": "output", "backward": "gradient", "optimizer": "gradient"}


def _figures(role: str, label: str, tensor: Any) -> dict[str, Any]:
    entry = {
        "role": role,
        "name": label,
        "shape": [*tensor.shape],
        "dtype": str(tensor.dtype).removeprefix("torch."),
    }
    here = getattr(tensor, "_local_tensor", tensor)
    try:
        return {**entry, "figures": tensor_hashes.figures(here)}
    except Exception:  # a type of tensor or of numbers that cannot be reduced
        return entry


def _origin(seen: Sighting, tensors: list[dict[str, Any]], users: list[str]) -> str:
    """Where it comes from (docs/reference/json.md has these words)."""
    if seen.phase == "optimizer":
        return "gradients"
    if seen.phase == "backward":
        return "module" if len(users) == 1 else "one of" if users else "operations"
    if any(each["role"] == "input" and _bad(each, "nan") for each in tensors):
        return "before" if seen.previous is not None else "data"
    own = [each for each in tensors if each["role"] == "parameter"]
    if any(_bad(each, "nan", "inf") for each in own):
        return "parameters"
    return "module" if seen.exact else "unknown"


def _bad(tensor: dict[str, Any], *kinds: str) -> bool:
    figures = tensor.get("figures", {})
    return any(figures.get(kind) for kind in kinds)


def summary(found: dict[str, Any]) -> str:
    """nan in the output of layers.1.norm, step 12"""
    part = "gradient" if found["phase"] != "forward" else found["which"]
    what = f"{found['kind']} in the {part} of {found['module']}"
    return what if found["step"] is None else f"{what}, step {found['step']}"


def place_to_stop(frame: FrameType) -> FrameType:
    """The innermost frame outside of torch and the agent: what has called the module. In a thread of
    torch's own, this one."""
    torch = os.path.dirname(sys.modules["torch"].__file__ or "?") + os.sep
    for each in stacks.walk(frame):
        file = each.f_code.co_filename
        if not (is_agent(file) or file.startswith((torch, "<"))):
            return each
    return frame
