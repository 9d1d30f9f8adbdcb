"""The models and optimizers of the program, and their tensors by name.

No registry holds them: they are found among the living objects, as the garbage collector knows
them (34 ms for 166,000 objects).
"""

from __future__ import annotations

import gc
import sys
import time
from _weakref import ref

from rankdbg.agent import card
from rankdbg.agent.replicas import gradients_now, model_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

KINDS = ("parameter", "buffer", "gradient", "optimizer", "random")
_SETTINGS = ("lr", "weight_decay")  # of an optimizer's group of parameters
_RECENT = 10.0  # seconds
# Names that wrappers put in front: DDP, FSDP 1, torch.compile, checkpointing.
_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


class FoundTensor:
    """A tensor of this rank: its name in the model, what it is, and the part of it that is here.

    `resynced`: a buffer that DDP overwrites with that of rank 0 before each forward pass.
    `optimized`: whether an optimizer has this parameter, and `settings` its learning rate; None where
    optimizers were not asked for.
    """

    def __init__(self, kind: str, name: str, tensor: Any, parameter: Any = None) -> None:
        """`parameter`: whose gradient or state it is. Megatron marks parameters alone."""
        self.kind, self.name = kind, name
        marked = tensor if parameter is None else parameter
        self.placement = _placement(tensor) or _placement_by_megatron(marked)
        self.tensor = getattr(tensor, "_local_tensor", tensor)
        self.resynced, self.settings = False, ""
        self.optimized: bool | None = None

    def entry(self) -> dict[str, Any]:
        """What the answer says of it, beside its hash."""
        said: dict[str, Any] = {
            "kind": self.kind,
            "name": self.name,
            "shape": [*self.tensor.shape],
            "dtype": str(self.tensor.dtype).removeprefix("torch."),
        }
        for name in ("placement", "resynced", "optimized", "settings"):
            value = getattr(self, name)
            if value or (value is False and name == "optimized"):
                said[name] = value
        return said

    @property
    def is_here(self) -> bool:
        """Parameters of a model that is being built have no memory yet."""
        return (
            self.tensor.device.type != "meta" and self.tensor.layout is sys.modules["torch"].strided
        )


class Holders:
    """The program's models and optimizers, searched for once: that takes longer than to hash a
    small model. They are not kept alive."""

    def __init__(self) -> None:
        self._torch = sys.modules.get("torch")
        modules, optimizers = _living(self._torch) if hasattr(self._torch, "nn") else ([], [])
        models = _outermost(modules)
        names = model_names.labels(models) if len(models) > 1 else [""]
        self._models = [(name, ref(each)) for name, each in zip(names, models, strict=False)]
        self._optimizers = [ref(each) for each in optimizers]
        self.lacks_gradients = False  # a backward pass went on while they were to be read

    @property
    def are_gone(self) -> bool:
        """Whether the program has given one of them up, or had none: it may have others now."""
        references = [each for _, each in self._models] + self._optimizers
        return not self._models or any(each() is None for each in references)

    def _living_models(self) -> list[tuple[str, Any]]:
        """With what stands before their names."""
        return [(name, model) for name, each in self._models if (model := each()) is not None]

    @property
    def count(self) -> int:
        """Of models."""
        return len(self._living_models())

    def modules(self) -> list[tuple[str, Any]]:
        """All that can be called, by name; what is compiled is one module."""
        return [
            (_module_name(label, name), module)
            for label, model in self._living_models()
            for name, module in model.named_modules()
            if "_orig_mod" not in name.split(".")
        ]

    def name_of(self, module: Any) -> str | None:
        """Of a module in its model: layers.0.norm; `` is the model itself; None: in no model."""
        for label, model in self._living_models():
            for name, each in model.named_modules():
                if each is module:
                    return _module_name(label, name)
        return None

    def tensors(self, kinds: tuple[str, ...]) -> list[FoundTensor]:
        """That they have now."""
        models = self._living_models()
        gradients = self._gradients(models) if "gradient" in kinds else {}
        found = [each for model in models for each in _of_model(model, kinds, gradients)]
        if "optimizer" in kinds:
            optimizers = [one for each in self._optimizers if (one := each()) is not None]
            names = {id(p): n for model in models for n, p in _parameters(model)}
            states = [each for one in optimizers for each in _of_optimizer(one, names)]
            _add_settings(found, models, optimizers)
            found += states
        if "random" in kinds and self._torch is not None:
            found += [*_generators(self._torch)]
        return [each for each in found if each.is_here]

    def _gradients(self, models: list[tuple[str, Any]]) -> dict[int, Any]:
        """By the ids of their parameters."""
        parameters = [each for model in models for _, each in _parameters(model)]
        found = gradients_now.read(parameters)
        self.lacks_gradients = found is None
        return dict(zip(map(id, parameters), found or (), strict=False))


def recent_holders() -> Holders:
    """Those of the last question, if that was just now: a program of fast steps does many of them
    while objects are searched. Before its first step it may still wrap its models."""
    global _recent
    now = time.monotonic()
    if _recent is None or now - _recent[0] > _RECENT or _recent[1].are_gone:
        found = Holders()
        _recent = (now, found) if card.step is not None else None
        return found
    return _recent[1]


_recent: tuple[float, Holders] | None = None


def _living(torch: Any) -> tuple[list[Any], list[Any]]:
    optimizer = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", ())
    modules, optimizers = [], []
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, torch.nn.Module):
            modules.append(thing)
        elif optimizer and issubclass(kind, optimizer):
            optimizers.append(thing)
    return modules, optimizers


def _outermost(modules: list[Any]) -> list[Any]:
    """Models with parameters that are part of no other, in the order in which they were made."""
    inner = {id(child) for module in modules for child in module.children()}
    found = [m for m in modules if id(m) not in inner and any(True for _ in m.parameters())]
    return sorted(found, key=lambda m: [name for name, _ in m.named_parameters()][:1])


def _of_model(
    labelled: tuple[str, Any], kinds: tuple[str, ...], gradients: dict[int, Any]
) -> Iterator[FoundTensor]:
    for name, parameter in _parameters(labelled):
        if "parameter" in kinds:
            yield FoundTensor("parameter", name, parameter)
        if (gradient := gradients.get(id(parameter))) is not None:
            yield FoundTensor("gradient", name, gradient, parameter)
    if "buffer" in kinds:
        label, model = labelled
        resynced = _resynced_buffers(model)
        for name, buffer in model.named_buffers():
            found = FoundTensor("buffer", _full_name(label, name), buffer)
            found.resynced = id(buffer) in resynced
            yield found


def _parameters(labelled: tuple[str, Any]) -> Iterator[tuple[str, Any]]:
    label, model = labelled
    for name, parameter in model.named_parameters():
        yield _full_name(label, name), parameter


def _full_name(label: str, name: str) -> str:
    return f"{label}.{plain_name(name)}" if label else plain_name(name)


def _module_name(label: str, name: str) -> str:
    return _full_name(label, f"{name}.").rstrip(".")


def plain_name(name: str) -> str:
    """Without what wrappers put in front of any of its parts."""
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper).replace(f".{wrapper}", ".")
    return name


def _of_optimizer(optimizer: Any, names: dict[int, str]) -> Iterator[FoundTensor]:
    torch = sys.modules["torch"]
    for parameter, state in list(optimizer.state.items()):
        name = names.get(id(parameter), "?")
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                of = parameter if value.shape == parameter.shape else None  # `step` is of no part
                yield FoundTensor("optimizer", f"{name} {key}", value, of)


def _add_settings(
    found: list[FoundTensor], models: list[tuple[str, Any]], optimizers: list[Any]
) -> None:
    settings = {
        id(parameter): ", ".join(f"{key} {group[key]}" for key in _SETTINGS if key in group)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    by_name = {n: settings.get(id(p)) for model in models for n, p in _parameters(model)}
    for each in found:
        if each.kind == "parameter" and settings:
            text = by_name.get(each.name)
            each.optimized, each.settings = text is not None, text or ""


def _resynced_buffers(model: Any) -> set[int]:
    """The ids of the buffers that DDP broadcasts."""
    ddp = getattr(sys.modules.get("torch.nn.parallel"), "DistributedDataParallel", None)
    if ddp is None:
        return set()
    found = set()
    for wrapper in model.modules():
        if isinstance(wrapper, ddp) and getattr(wrapper, "broadcast_buffers", False):
            left = {*getattr(wrapper, "parameters_to_ignore", ())}
            found |= {
                id(buffer) for name, buffer in wrapper.module.named_buffers() if name not in left
            }
    return found


def _generators(torch: Any) -> Iterator[FoundTensor]:
    yield FoundTensor("random", "cpu", torch.get_rng_state())
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        yield FoundTensor("random", "cuda", cuda.get_rng_state())


def _placement(tensor: Any) -> list[tuple[str, str]]:
    """Of a DTensor: its mesh's dimensions, each with `replicate`, `shard` or `partial`."""
    placements, mesh = getattr(tensor, "placements", None), getattr(tensor, "device_mesh", None)
    if placements is None or mesh is None:
        return []
    names = mesh.mesh_dim_names or [f"dim{number}" for number in range(len(placements))]
    kinds = [
        "replicate" if each.is_replicate() else "partial" if each.is_partial() else "shard"
        for each in placements
    ]
    return [*zip(map(str, names), kinds, strict=True)]


def _placement_by_megatron(parameter: Any) -> list[tuple[str, str]]:
    """Whether it is a part of a layer that tp splits, as Megatron marks each of its parameters. Those of
    experts may be divided in other ways."""
    is_part = getattr(parameter, "tensor_model_parallel", None)
    if not isinstance(is_part, bool) or not getattr(parameter, "allreduce", True):
        return []
    return [("tp", "shard" if is_part else "replicate")]
