"""The operators that one module runs, as torch dispatches them: hashes of what goes in and of what comes
out, and of what comes out when the operator is repeated.

A mode of torch sees them, below autograd, while the module's own forward function runs. Operators that
draw random numbers or call other ranks are not repeated; such that change their inputs, on copies.
"""

from __future__ import annotations

import sys

from rankdbg.agent import threads
from rankdbg.agent.replicas.traced_tensors import (
    Fetched,
    generator_state,
    hashes_of,
    part_of,
    tensors_in,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rankdbg.agent.replicas.traced_tensors import Hash

MOST_OPERATORS = 2000
_LONGEST = 120  # characters of arguments
_MOST_COPIED = 256 << 20  # bytes of inputs that an operator changes
# Operators that call other ranks, and such whose results are whatever was in memory.
_OF_OTHERS = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")
_UNDEFINED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "resize_")


class _Operator:
    def __init__(self, name: str, phase: str) -> None:
        self.name, self.phase = name, phase
        self.arguments = self.part = ""
        self.inputs: list[Hash] = []
        self.outputs: list[Hash] = []
        self.repeated: list[Hash] = []
        self.free = ""  # why equal inputs need not make equal outputs
        # To know what it does: the generator's state before, and its arguments to repeat it with.
        self.state: bytes | None = None
        self.again: tuple[Any, Any] | None = None

    def hashes(self) -> list[Hash]:
        return [*self.inputs, *self.outputs, *self.repeated]

    def entry(self, fetched: Fetched) -> dict[str, Any]:
        return {
            "name": self.name,
            "phase": self.phase,
            "arguments": self.arguments,
            "inputs": f"{fetched.joined(self.inputs)} {self.part}".rstrip(),
            "outputs": fetched.joined(self.outputs),
            "repeated": fetched.joined(self.repeated),
            "free": self.free,
        }


class Operators:
    def __init__(self) -> None:
        self._found: list[_Operator] = []
        self._undo: list[Callable[[], None]] = []
        self._hashing: set[int] = set()  # threads whose operators are the agent's own

    def watch(self, module: Any) -> None:
        """Its forward function runs in a mode until the end. What is compiled would be compiled
        anew for that."""
        dispatch = sys.modules.get("torch.utils._python_dispatch")
        is_compiled = getattr(module, "_compiled_call_impl", None) is not None
        if dispatch is None or is_compiled or hasattr(module, "_orig_mod"):
            return
        mode, forward = _new_mode(dispatch, self._run), module.forward
        own = module.__dict__.get("forward")

        def in_mode(*given: Any, **named: Any) -> Any:
            with mode:
                return forward(*given, **named)

        module.__dict__["forward"] = in_mode

        def undo() -> None:
            if own is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = own

        self._undo.append(undo)

    def end(self) -> None:
        while self._undo:
            self._undo.pop()()

    def entries(self) -> list[dict[str, Any]]:
        fetched = Fetched([each for one in self._found for each in one.hashes()])
        return [one.entry(fetched) for one in self._found]

    def add_node(
        self, name: str, inputs: list[Hash], outputs: list[Hash], repeated: list[Hash]
    ) -> None:
        """A node of the backward pass."""
        if len(self._found) < MOST_OPERATORS:
            found = _Operator(name, "backward")
            found.inputs, found.outputs, found.repeated = inputs, outputs, repeated
            self._found.append(found)

    def unseen(self, hook: Callable[..., None]) -> Callable[..., None]:
        """A hook inside of the module whose own operators are not noted; nor what it raises. A compiler
        that follows the program sees nothing in it."""
        compiler = getattr(sys.modules["torch"], "compiler", None)

        def guarded(*given: Any) -> None:
            if compiler is not None and compiler.is_compiling():
                return
            thread = threads.get_ident()
            self._hashing.add(thread)
            try:
                _guarded(hook, *given)
            finally:
                self._hashing.discard(thread)

        return guarded

    def _run(self, operator: Any, given: Any, named: Any) -> Any:
        if threads.get_ident() in self._hashing:
            return operator(*given, **named)
        seen = _guarded(self._before, operator, given, named)
        result = operator(*given, **named)
        if seen is not None:
            _guarded(self._after, seen, operator, (given, named), result)
        return result

    def _before(self, operator: Any, given: Any, named: Any) -> _Operator | None:
        if len(self._found) >= MOST_OPERATORS:
            return None
        seen = _Operator(str(operator), "forward")
        seen.inputs, seen.part = hashes_of([given, named]), part_of([given, named])
        seen.arguments = _text([*given, *named.values()])
        seen.free = _why_free(operator)
        if not seen.free:
            seen.state = generator_state() if _may_be_random(operator) else None
            seen.again = _to_repeat(operator, given, named)
        return seen

    def _after(
        self, seen: _Operator, operator: Any, arguments: tuple[Any, Any], result: Any
    ) -> None:
        if seen.state is not None and seen.state != generator_state():
            seen.free = "random"
        seen.part = f"{seen.part} {part_of(result)}".strip()
        seen.outputs = hashes_of(_results(operator, seen.state, arguments, result))
        if not seen.free and seen.again is not None:
            given, named = seen.again
            repeated = operator(*given, **named)
            seen.repeated = hashes_of(_results(operator, seen.state, seen.again, repeated))
        seen.again = None
        self._found.append(seen)


def _new_mode(dispatch: Any, run: Callable[[Any, Any, Any], Any]) -> Any:
    class Mode(dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, operator: Any, types: Any, given: Any = (), named: Any = None
        ) -> Any:
            return run(operator, given, named or {})

    return Mode()


def _guarded(look: Callable[..., Any], *arguments: Any) -> Any:
    """The program goes on whatever happens here."""
    try:
        return look(*arguments)
    except Exception:
        return None


def _may_be_random(operator: Any) -> bool:
    return sys.modules["torch"].Tag.nondeterministic_seeded in operator.tags


def _why_free(operator: Any) -> str:
    space, _, name = str(operator).partition(".")
    if space in _OF_OTHERS:
        return "other ranks"
    return "memory" if name.partition(".")[0] in _UNDEFINED else ""


def _results(operator: Any, state: bytes | None, arguments: tuple[Any, Any], result: Any) -> Any:
    """What it returns, and the arguments that it has changed. Of an operator that could have drawn
    random numbers (attention without dropout) only what it computes: the state of the generator that
    it returns means nothing."""
    if state is not None:
        torch = sys.modules["torch"]
        flat = result if isinstance(result, (list, tuple)) else [result]
        result = [e for e in flat if isinstance(e, torch.Tensor) and e.is_floating_point()]
    given, named = arguments
    numbers, names = _written(operator)
    changed = [given[number] for number in numbers if number < len(given)]
    return [result, changed, [named[name] for name in names if name in named]]


def _written(operator: Any) -> tuple[list[int], list[str]]:
    """The places and the names of arguments that it changes."""
    found = [
        (number, argument.name)
        for number, argument in enumerate(operator._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return [number for number, _ in found], [name for _, name in found]


def _to_repeat(operator: Any, given: Any, named: Any) -> tuple[Any, Any] | None:
    """Its arguments, with copies of those that it changes; None if they are too large."""
    numbers, names = _written(operator)
    if not numbers:
        return given, named
    written = [given[number] for number in numbers if number < len(given)]
    written += [named[name] for name in names if name in named]
    size = sum(each.numel() * each.element_size() for each in tensors_in(written))
    if size > _MOST_COPIED:
        return None
    copied = tuple(_copy(each) if at in numbers else each for at, each in enumerate(given))
    return copied, {key: _copy(each) if key in names else each for key, each in named.items()}


def _copy(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_copy(each) for each in value]
    return value.clone() if hasattr(value, "clone") else value


def _text(values: Any) -> str:
    """What is not a tensor: numbers, types, sizes. Devices by their kind, since each rank has its own."""
    torch = sys.modules["torch"]
    texts = []
    for each in values:
        if isinstance(each, torch.Tensor):
            continue
        if isinstance(each, (list, tuple)):
            texts.append(f"[{_text(each)}]")
        elif isinstance(each, torch.device):
            texts.append(each.type)
        elif each is None or isinstance(each, (bool, int, float, str, torch.dtype)):
            texts.append(str(each))
    text = ", ".join(texts)
    if len(text) <= _LONGEST:
        return text
    from rankdbg.agent.replicas.tensor_hashes import hash_text

    return f"{text[: _LONGEST - 12]}… ({hash_text(text):08x})"
