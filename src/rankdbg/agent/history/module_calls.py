"""Calls of torch's modules as events, down to a chosen depth: the model is 1, its layers 2.

torch calls a hook before and after the forward pass of every module. With such hooks torch.compile
compiles anew, so there are none unless they are asked for.
"""

from __future__ import annotations

import sys

from rankdbg.agent.history import ring as rings
from rankdbg.agent.threads import get_ident
from rankdbg.process import history_layout as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_depth = 0  # 0: none
_handles: list[Any] = []
_entered: dict[int, list[Any]] = {}  # by thread: the modules that are being called
_names: dict[int, dict[int, str]] = {}  # by the id of an outermost module: names of those in it


def set_depth(depth: int) -> dict[str, Any]:
    global _depth
    module = sys.modules.get("torch.nn.modules.module")
    if module is None:
        return {"depth": 0, "why": "the program has not loaded torch.nn"}
    _depth = depth
    while _handles and not depth:
        _handles.pop().remove()
    if depth and not _handles:
        _handles.append(module.register_module_forward_pre_hook(_before))
        _handles.append(module.register_module_forward_hook(_after, always_call=True))
    return {"depth": depth}


def _before(module: Any, _: Any) -> None:
    outer = _entered.setdefault(get_ident(), [])
    outer.append(module)
    if len(outer) <= _depth:
        ring = rings.get()
        if ring is not None:
            key = "module", id(outer[0]), id(module)
            text = ring.known.get(key) or ring.text(key, _name(outer[0], module))
            ring.note(layout.MODULE, text)


def _after(module: Any, *_: Any) -> None:
    outer = _entered.get(get_ident())
    if outer and outer[-1] is module:
        outer.pop()


def _name(outermost: Any, module: Any) -> str:
    names = _names.get(id(outermost))
    if names is None:
        names = {id(each): name for name, each in outermost.named_modules()}
        _names[id(outermost)] = names
    return f"{type(module).__name__} {names.get(id(module), '')}".rstrip()
