"""The calls of a model's modules in one step, forward and backward: hashes of what goes in and of what
comes out.

Forward: of each module, with the parameters and buffers that it and those inside of it have used.
Backward: of each node of autograd that a module without children has made (autograd_nodes.py).

Hooks are there for one step only. They never raise: the program would see it.
"""

from __future__ import annotations

import sys

from rankdbg.agent import threads
from rankdbg.agent.replicas import autograd_nodes
from rankdbg.agent.replicas.operator_calls import Operators
from rankdbg.agent.replicas.traced_tensors import (
    Fetched,
    generator_state,
    hashes_of,
    part_of,
    tensors_in,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rankdbg.agent.replicas.traced_tensors import Hash

# Of a larger model only the modules of one part of it.
MOST_MODULES = 400
MOST_CALLS = 4000


class _Call:
    """`part`: which part of a DTensor it has made (traced_tensors.part_of). `first_node`: the number
    of the first node of autograd that it can have made."""

    def __init__(self, name: str, kind: str, phase: str = "forward") -> None:
        self.name, self.type, self.phase = name, kind, phase
        self.inputs: list[Hash] = []
        self.parameters: list[Hash] = []
        self.outputs: list[Hash] = []
        self.random: Any = None
        self.part = self.device = ""
        self.module = self.first_node = 0

    def hashes(self) -> list[Hash]:
        return [*self.inputs, *self.parameters, *self.outputs]

    def entry(self, fetched: Fetched) -> dict[str, Any]:
        inputs = fetched.joined(self.inputs)
        return {
            "name": self.name,
            "type": self.type,
            "phase": self.phase,
            "device": self.device,
            "random": self.random is True,
            "inputs": inputs,
            "part": self.part,
            "parameters": fetched.joined(self.parameters),
            "outputs": fetched.joined(self.outputs),
        }


class CallTrace:
    """`modules`: of all models, by name. `under`: the part of them that is watched if there are too
    many. `inside`: the module whose operators are watched too."""

    def __init__(self, modules: list[tuple[str, Any]], under: str, inside: str | None) -> None:
        self._torch = sys.modules["torch"]
        self._modules = _watched(modules, under)
        self._inside = inside
        self._handles: list[Any] = []
        self._open: dict[int, list[_Call]] = {}  # by thread: the calls that have not returned
        self._calls: list[_Call] = []
        self._operators = Operators()

    def begin(self) -> None:
        for name, module in self._modules:
            self._handles += _hooked(
                module, self._before(name), self._operators.unseen(self._after)
            )
        inside = [module for name, module in self._modules if name == self._inside]
        for module in inside[-1:]:  # the innermost of wrappers and what they wrap
            self._operators.watch(module)

    def end(self) -> None:
        """In every case, and from any thread."""
        self._operators.end()
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def calls(self) -> list[dict[str, Any]]:
        """Those that have returned, in the order in which they did: inner ones before outer ones."""
        done = [call for call in self._calls if call.outputs]
        fetched = Fetched([each for call in done for each in call.hashes()])
        return [call.entry(fetched) for call in done]

    def operators(self) -> list[dict[str, Any]]:
        """Of the module `inside`."""
        return self._operators.entries()

    @property
    def _is_over(self) -> bool:
        return len(self._calls) >= MOST_CALLS or not self._handles

    # --- forward ----------------------------------------------------------------------

    def _before(self, name: str) -> Any:
        def hook(module: Any, *given: Any) -> None:
            if self._is_over:
                return
            call = _Call(name, type(module).__name__)
            call.module = id(module)
            call.inputs, call.part = hashes_of(given), part_of(given)
            own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            call.parameters = hashes_of(own)
            call.random = generator_state()
            call.first_node = autograd_nodes.next_number(self._torch)
            self._open.setdefault(threads.get_ident(), []).append(call)

        return self._operators.unseen(hook)

    def _after(self, module: Any, *given: Any) -> None:
        outer = self._open.get(threads.get_ident(), [])
        call = _returned(outer, id(module))
        if call is None:
            return
        output = given[-1]
        call.random = call.random != generator_state()
        call.outputs = hashes_of([output])
        call.part = f"{call.part} {part_of(output)}".strip()
        call.device = next((str(each.device) for each in tensors_in([output])), "")
        if outer:
            outer[-1].parameters += call.parameters
        self._calls.append(call)
        if next(module.children(), None) is None and not call.random:
            self._watch_backward(call, output)

    # --- backward ---------------------------------------------------------------------

    def _watch_backward(self, call: _Call, output: Any) -> None:
        repeats = call.name == self._inside
        for node in autograd_nodes.made_since(call.first_node, output):
            # A node that its own hook knows lives until the hooks are removed.
            hook = self._on_node(call, node.name(), node if repeats else None)
            self._handles.append(node.register_hook(hook))

    def _on_node(self, call: _Call, name: str, node: Any) -> Any:
        def hook(made: Any, given: Any) -> None:
            if self._is_over:
                return
            back = _Call(call.name, name, "backward")
            # What it has saved are inputs and outputs of the forward pass.
            back.inputs = [*call.inputs, *call.outputs, *hashes_of(given)]
            back.parameters, back.outputs = call.parameters, hashes_of(made)
            back.part = f"{call.part} {part_of(made)}".strip()
            back.device = call.device
            self._calls.append(back)
            if node is not None:
                again = autograd_nodes.repeated(node, made, given)
                self._operators.add_node(name, back.inputs, back.outputs, again)

        return self._operators.unseen(hook)


def _watched(modules: list[tuple[str, Any]], under: str) -> list[tuple[str, Any]]:
    if len(modules) > MOST_MODULES and under:
        modules = [(n, m) for n, m in modules if n == under or n.startswith(f"{under}.")]
    return modules[-MOST_MODULES:]


def _returned(calls: list[_Call], module: int) -> _Call | None:
    """The innermost open call of this module; those inside of it have raised."""
    if not any(each.module == module for each in calls):
        return None
    while (call := calls.pop()).module != module:
        pass
    return call


def _hooked(module: Any, before: Any, after: Any) -> list[Any]:
    try:
        return [
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, with_kwargs=True),
        ]
    except TypeError:  # torch before 2.0
        return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
