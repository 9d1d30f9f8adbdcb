"""Hooks of torch that look at each output of a module and at its gradient, until one is not finite.

A nan in an output stops the rank, and so does an infinite loss. Other outputs may have inf: masks of
attention are made of it, and softmax makes it finite again; it is only noted. A gradient with nan or
inf stops the rank, unless a loss scaler explains it.

On a CPU each output is looked at when it is there: the rank stops in what has called the module. On a
GPU that would be a wait for the GPU at each module. There the extremes stay on the device, in order,
and are looked at when the outermost module returns and before the optimizer's step: the module is the
same, but its inputs are gone. `exact` looks at once there too.

Tensors get hooks for their gradients, not modules: torch's backward hooks of modules do not allow
outputs to be changed in place, as ReLU(inplace=True) does.
"""

from __future__ import annotations

import sys
import weakref

from rankdbg.agent import describe, messages, threads
from rankdbg.agent.nonfinite import findings, loss_scales, values
from rankdbg.agent.nonfinite.findings import Sighting
from rankdbg.agent.stops import stopped_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    # What was found, and the frame to stop in.
    OnFound = Callable[[dict[str, Any], FrameType], None]


class _Pending:
    """Extremes that are still on a GPU, and what they are the extremes of."""

    def __init__(self, seen: Sighting, pair: tuple[Any, Any], is_loss: bool) -> None:
        self.seen, self.pair, self.is_loss = seen, pair, is_loss


class NanWatch:
    """One arming: its hooks, and what they need to know from call to call."""

    at_once: tuple[str, ...] = ("cpu",)  # devices for which nothing has to be waited

    def __init__(self, torch: Any, exact: bool, on_found: OnFound) -> None:
        self.torch, self.exact, self.on_found = torch, exact, on_found
        self.is_active = True
        self.lock = threads.new_lock()
        self.handles: list[Any] = []
        self.checks = 0
        self.failures = ""  # the last tensor that could not be looked at
        # The module of the first output with inf, and the step.
        self.infinite: tuple[Any, int | None] | None = None
        self.scaled = 0  # gradients that a loss scaler explains
        self._entered: dict[int, list[Any]] = {}  # by thread: the modules that are being called
        self._previous: dict[int, Any] = {}  # by thread: whose output was the last finite one
        self._infinite: dict[int, Any] = {}  # by thread: whose output had inf first, in this pass
        self._last: Any = None  # the last output, which an outer module often returns too
        self._users: dict[int, tuple[Any, list[Any]]] = {}  # id of an output: what has used it
        self._pending: list[_Pending] = []
        self._is_scaled = False  # a gradient of this backward pass was explained

    def install(self, module: Any) -> None:
        self.handles.append(module.register_module_forward_pre_hook(self._before))
        after = module.register_module_forward_hook
        self.handles.append(after(self._after, with_kwargs=True, always_call=True))

    def install_optimizer(self, module: Any) -> None:
        register = getattr(module, "register_optimizer_step_pre_hook", None)
        if register is not None and self.is_active:
            self.handles.append(register(self._before_step))

    def remove(self) -> None:
        self.is_active = False
        while self.handles:
            self.handles.pop().remove()
        self._entered.clear()
        self._previous.clear()
        self._infinite.clear()
        self._users.clear()
        self._pending.clear()

    # --- hooks of modules -------------------------------------------------------------

    def _before(self, module: Any, _: Any) -> None:
        if self._is_blind():
            return
        outer = self._entered.setdefault(threads.get_ident(), [])
        if not outer:
            self._is_scaled = False
            self._previous.pop(threads.get_ident(), None)
            self._infinite.pop(threads.get_ident(), None)
        outer.append(module)

    def _after(self, module: Any, arguments: Any, *more: Any) -> None:
        """After an exception torch calls it without the named arguments."""
        if self._is_blind():
            return
        named, output = more if len(more) == 2 else ({}, None)
        seen = self._guarded(self._look_at_outputs, module, arguments, named, output)
        outer = self._entered.get(threads.get_ident())
        while outer and outer.pop() is not module:
            pass
        if seen is None and not outer:
            seen = self._guarded(self._look_at_pending)
        if seen is not None:
            self._stop(seen)

    def _is_blind(self) -> bool:
        """Where torch only records what would be done, and where a stopped thread tries something."""
        if not self.is_active:
            return True
        compiler = getattr(self.torch, "compiler", None)
        if compiler is not None and compiler.is_compiling():
            return True
        if stopped_threads.of_thread(threads.get_ident()) is not None:
            return True
        return self._is_capturing()

    def _is_capturing(self) -> bool:
        """A CUDA graph: a wait for the GPU is an error there."""
        cuda = self.torch.cuda
        try:
            return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())
        except Exception:  # the GPU has failed, as the program will see itself
            return True

    def _guarded(self, look: Callable[..., Sighting | None], *arguments: Any) -> Sighting | None:
        """The program goes on whatever happens here."""
        try:
            with self.torch.no_grad():
                return look(*arguments)
        except Exception as error:
            self.failures = describe.exception_text(error)[:200]
            return None

    def _look_at_outputs(
        self, module: Any, arguments: Any, named: Any, output: Any
    ) -> Sighting | None:
        inputs = [*values.tensors_in(arguments), *values.tensors_in(named)]
        for _, tensor in inputs:
            known = self._users.get(id(tensor))
            if known is not None and known[0]() is tensor:
                known[1].append(module)
        for label, tensor in values.tensors_in(output):
            local = values.local(tensor)
            if local is None or self._is_last(tensor):
                continue
            users = self._watch_gradient(module, label, tensor)
            seen = Sighting("forward", "", module, f"output{label}", tensor=tensor, inputs=inputs)
            seen.previous, seen.users = self._previous.get(threads.get_ident()), users
            is_loss = local.numel() == 1 and bool(tensor.requires_grad)
            if self._is_bad(seen, local, is_loss):
                return seen
        self._previous[threads.get_ident()] = module
        return None

    def _is_last(self, tensor: Any) -> bool:
        """Whether it is the output that was looked at last, and has not been changed since."""
        version = None if tensor.is_inference() else tensor._version
        if self._last is not None and self._last[0]() is tensor and self._last[1] == version:
            return True
        self._last = weakref.ref(tensor), version
        return False

    # --- values -----------------------------------------------------------------------

    def _is_bad(self, seen: Sighting, local: Any, is_loss: bool) -> bool:
        """Whether to stop at it now."""
        self.checks += 1
        low, high = values.extremes(local)
        if local.device.type not in self.at_once and not self.exact:
            light = Sighting(seen.phase, "", seen.module, seen.which, exact=False)
            light.previous, light.users = seen.previous, seen.users
            self._pending.append(_Pending(light, (low, high), is_loss))
            return False
        seen.kind = values.kind_of(float(low), float(high))
        return self._stops(seen, is_loss)

    def _stops(self, seen: Sighting, is_loss: bool) -> bool:
        if not seen.kind:
            return False
        if seen.phase != "forward":
            return not self._is_explained()
        if seen.kind == "nan" or is_loss:
            return True
        self._infinite.setdefault(threads.get_ident(), seen.module)
        self.infinite = self.infinite or (seen.module, findings.step())
        return False

    def _is_explained(self) -> bool:
        """By a loss scaler. It is looked for once in a backward pass."""
        if not self._is_scaled and loss_scales.explains(loss_scales.current()):
            self._is_scaled = True
            self.scaled += 1
        return self._is_scaled

    def _look_at_pending(self) -> Sighting | None:
        pending, self._pending = self._pending, []
        if not pending:
            return None
        kinds = values.kinds_of([each.pair for each in pending])
        for each, kind in zip(pending, kinds, strict=True):
            each.seen.kind = kind
            if self._stops(each.seen, each.is_loss):
                return each.seen
        return None

    # --- gradients --------------------------------------------------------------------

    def _watch_gradient(self, module: Any, label: str, tensor: Any) -> list[Any]:
        """Returns the list that gets the modules which use this output."""
        users: list[Any] = []
        key, known = id(tensor), self._users
        reference = weakref.ref(tensor, lambda _: known.pop(key, None))
        known[key] = reference, users
        if tensor.requires_grad and tensor.grad_fn is not None:

            def on_gradient(gradient: Any) -> None:
                if not self._is_blind():
                    self._see_gradient(module, f"output{label}", users, reference, gradient)

            tensor.register_hook(on_gradient)
        return users

    def _see_gradient(
        self, module: Any, which: str, users: list[Any], reference: Any, gradient: Any
    ) -> None:
        def look() -> Sighting | None:
            local = values.local(gradient)
            if local is None:
                return None
            seen = Sighting("backward", "", module, which, tensor=gradient, users=users)
            value = reference()
            seen.inputs = [(which, value)] if value is not None else []
            return seen if self._is_bad(seen, local, False) else None

        seen = self._guarded(look)
        if seen is not None:
            self._stop(seen)

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        """The last look before parameters change: gradients that no output has shown, such as those
        that other ranks have sent."""
        if self._is_blind():
            return
        seen = self._guarded(self._look_at_pending)
        seen = seen or self._guarded(self._look_at_parameters, optimizer)
        if seen is not None:
            self._stop(seen)

    def _look_at_parameters(self, optimizer: Any) -> Sighting | None:
        found = [
            (parameter, local)
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None and (local := values.local(parameter.grad)) is not None
        ]
        kinds = values.kinds_of([values.extremes(local) for _, local in found])
        for (parameter, _), kind in zip(found, kinds, strict=True):
            if kind and not self._is_explained():
                module, name = _owner(parameter)
                which = f"gradient of {name}"
                return Sighting("optimizer", kind, module, which, tensor=parameter.grad)
        return None

    # --- the stop ---------------------------------------------------------------------

    def _stop(self, seen: Sighting) -> None:
        seen.infinite = self._infinite.get(threads.get_ident())
        with self.lock:
            if not self.is_active:
                return
            self.remove()
        frame = findings.place_to_stop(sys._getframe(1))
        try:
            with self.torch.no_grad():
                found = findings.describe(seen, frame)
        except Exception as error:
            messages.write(f"cannot describe a {seen.kind}: {describe.exception_text(error)}")
            return
        self.on_found(found, frame)


def _owner(parameter: Any) -> tuple[Any, str]:
    """The module that has this parameter, and its name there."""
    import gc

    module_type = sys.modules["torch"].nn.Module
    for thing in gc.get_objects():
        if issubclass(type(thing), module_type):
            for name, each in thing._parameters.items():
                if each is parameter:
                    return thing, name
    return None, "a parameter"
