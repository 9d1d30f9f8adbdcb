"""The nodes of autograd: one for each operator of a forward pass that has a backward pass.

Hooks on nodes see what an operator's backward pass is given and what it makes. torch's backward hooks
of modules would forbid changes in place of what the module returns.
"""

from __future__ import annotations

import sys

from rankdbg.agent.replicas.traced_tensors import hashes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rankdbg.agent.replicas.traced_tensors import Hash

_MOST_NODES = 50  # of one call
_OF_PARAMETERS = "AccumulateGrad"  # it lives as long as the parameter, and DDP has hooks on it


def next_number(torch: Any) -> int:
    """Nodes that are made from now on have at least this number, in this thread."""
    return int(torch._C._autograd._get_sequence_nr())


def made_since(number: int, output: Any) -> list[Any]:
    """Those behind the tensors of an output."""
    found: list[Any] = []
    left = [node for each in _whole_tensors(output) if (node := each.grad_fn) is not None]
    while left and len(found) < _MOST_NODES:
        node = left.pop()
        is_known = any(node is each for each in found)
        if not is_known and _OF_PARAMETERS not in node.name() and node._sequence_nr() >= number:
            found.append(node)
            left += [each for each, _ in node.next_functions if each is not None]
    return found


def _whole_tensors(value: Any) -> list[Any]:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, (list, tuple)):
        return [each for part in value for each in _whole_tensors(part)]
    return []


def repeated(node: Any, made: Any, given: Any) -> list[Hash]:
    """What the node makes of the same once more; empty if it is the program's own function, which may
    call other ranks, or if what it has saved is gone, as under activation checkpointing."""
    torch = sys.modules["torch"]
    if isinstance(node, torch._C._FunctionBase):
        return []
    try:
        with torch.no_grad():
            again = node(*given)
            again = again if isinstance(again, tuple) else (again,)
            pairs = zip(again, made, strict=True)
            return hashes_of([_as_the_engine_passes(*pair) for pair in pairs])
    except Exception:
        return []


def _as_the_engine_passes(gradient: Any, passed: Any) -> Any:
    """Autograd sums a gradient over what was broadcast, after the node has made it."""
    if gradient is None or passed is None:
        return None
    return gradient.sum_to_size(passed.shape).to(passed.dtype)
