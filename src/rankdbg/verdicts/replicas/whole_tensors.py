"""Names and shapes of a model whose layers are split among ranks (tp, sp) -> what each of them has whole.

A program that splits its layers by hand does not say which tensors are parts. Norms and routers are
whole. Biases may be either: that of a layer whose outputs are split is a part like its weight, and that
of a layer whose inputs are split is added to the sum, and whole. Shapes decide, by the width of the
model: the length of its norms.

    norm  [width]                       whole
    up    [part, width], bias [part]    a part
    down  [width, part], bias [width]   whole

Where both sides have the width of a norm, a bias is not known to be whole. To miss a bias that has
drifted apart is better than to report the parts of each healthy layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rankdbg.wire.replica_answers import ReplicaTensor

Shape = tuple[int, ...]

_NORM = re.compile(r"norm|\bln|layernorm", re.IGNORECASE)
_ROUTER = re.compile(r"router|\bgate\.\w+$", re.IGNORECASE)
_BIAS = re.compile(r"(^|[._])bias$")


class WholeTensors:
    """Of one rank."""

    def __init__(self, tensors: Iterable[ReplicaTensor]) -> None:
        self._shapes = _shapes(tensors)
        self._inside: dict[str, list[Shape]] = {}  # of each module: the weights of its layers
        for name, shape in self._shapes.items():
            module, _, weight = name.rpartition(".")
            if weight == "weight" and len(shape) == 2:
                self._inside.setdefault(_parent(module), []).append(shape)
        norms = {name: shape[0] for name, shape in self._shapes.items() if self._is_norm(name)}
        self._lengths = {*norms.values()}
        self._widths = {length for name, length in norms.items() if not self._is_split(name)}

    def has(self, name: str) -> bool:
        """Whether each rank must have all of this tensor, or of what an optimizer keeps of it."""
        name = parameter_of(name)
        if self._is_norm(name):
            return not self._is_split(name)
        if _ROUTER.search(name):
            return not self._has_twin(name)
        outputs, inputs = self._layer_of(name)
        return outputs in self._widths and inputs not in self._widths

    def may_have(self, name: str) -> bool:
        """Whether it is a bias that is not known to be whole, nor to be a part."""
        if not _BIAS.search(name) or self._is_norm(name) or self.has(name):
            return False
        outputs, inputs = self._layer_of(name)
        return outputs in self._widths or inputs not in self._widths

    def _is_norm(self, name: str) -> bool:
        """By its name; or by its weight, which is no matrix."""
        if len(self._shapes.get(name, ())) != 1:
            return False
        weight = self._shapes.get(_weight_beside(name), ())
        return bool(_NORM.search(name)) or (bool(_BIAS.search(name)) and len(weight) == 1)

    def _is_split(self, norm: str) -> bool:
        """As one over all heads of a rank: it is as long as the outputs of a layer beside it, whose
        inputs are as wide as another norm."""
        (length,) = self._shapes[norm]
        layers = self._inside.get(_parent(_parent(norm)), ())
        return any(
            outputs == length != inputs and inputs in self._lengths for outputs, inputs in layers
        )

    def _has_twin(self, router: str) -> bool:
        """A gate that opens a layer of the same shape beside it routes nothing."""
        shape = self._shapes.get(f"{_parent(router)}.weight", ())
        return self._inside.get(_parent(_parent(router)), []).count(shape) > 1

    def _layer_of(self, bias: str) -> Shape:
        """How many outputs and inputs it has; none, if that is no bias."""
        shape = self._shapes.get(_weight_beside(bias), ()) if _BIAS.search(bias) else ()
        return shape[:2] if len(shape) > 1 else (0, 0)


def parameter_of(name: str) -> str:
    """`0.norm.weight exp_avg`, which an optimizer keeps: 0.norm.weight"""
    return name.partition(" ")[0]


def _shapes(tensors: Iterable[ReplicaTensor]) -> Mapping[str, Shape]:
    """By the names of parameters; of their gradients, if only these were asked for."""
    found: dict[str, Shape] = {}
    for each in tensors:
        if each.kind in ("parameter", "gradient", "buffer"):
            found.setdefault(each.name, each.shape)
    return found


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _weight_beside(name: str) -> str:
    """q.bias: q.weight; in_proj_bias: in_proj_weight"""
    return _BIAS.sub(r"\1weight", name)
