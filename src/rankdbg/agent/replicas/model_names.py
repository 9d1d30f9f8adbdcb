"""What several models are called in the program: policy and reference have the same parameters.

Ranks of one program call them alike, while the order in which the garbage collector knows them may
differ from rank to rank.
"""

from __future__ import annotations

import gc
import sys

from rankdbg.agent import stacks
from rankdbg.process.user_code import is_agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MEANINGLESS = ("self", "module", "m", "each")


def labels(models: list[Any]) -> list[str]:
    """What to put before the names of their tensors: nothing, if no two models have tensors of one
    name."""
    names = [name for model in models for name, _ in model.named_parameters()]
    if len({*names}) == len(names):
        return [""] * len(models)
    called = _called(models)
    told: dict[str, int] = {}
    found = []
    for model in models:
        name = called.get(id(model)) or type(model).__name__
        told[name] = told.get(name, 0) + 1
        # Models without a name, or with the same one, are numbered in their order.
        found.append(f"{name}_{told[name]}" if told[name] > 1 else name)
    return found


def _called(models: list[Any]) -> dict[int, str]:
    """By id. What lasts comes first: a variable of the program's file, then an attribute or a key, then
    a variable of the outermost function that has it."""
    wanted = {id(model) for model in models}
    found: dict[int, str] = {}
    for values in (vars(sys.modules["__main__"]), *_holders(models), *_outer_variables()):
        for key, each in [*values.items()]:
            if id(each) in wanted and id(each) not in found and _has_meaning(key):
                found[id(each)] = key.strip("_")
    return found


def _has_meaning(key: Any) -> bool:
    if not isinstance(key, str) or not key.isidentifier():
        return False
    return bool(key.strip("_")) and key not in _MEANINGLESS


def _holders(models: list[Any]) -> list[dict[Any, Any]]:
    """The attributes of objects that have them, and dictionaries, in the order of their keys."""
    wanted = {id(model) for model in models}
    found = []
    for holder in gc.get_referrers(*models):
        values = holder if isinstance(holder, dict) else getattr(holder, "__dict__", None)
        if isinstance(values, dict):
            found.append({key: each for key, each in [*values.items()] if id(each) in wanted})
    return sorted(found, key=lambda values: [*map(str, values)])


def _outer_variables() -> list[dict[str, Any]]:
    """Of all functions that are being called, the outermost first."""
    found: list[dict[str, Any]] = []
    for innermost in [*sys._current_frames().values()]:
        stack = [each for each in stacks.walk(innermost) if not is_agent(each.f_code.co_filename)]
        found += [dict(frame.f_locals) for frame in reversed(stack)]
    return found
