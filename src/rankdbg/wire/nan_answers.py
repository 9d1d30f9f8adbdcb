"""What agents answer about values that are not finite."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rankdbg.types import Frame
from rankdbg.wire.tensor_figures import TensorFigures


@dataclass(frozen=True)
class NanTensor:
    """A tensor with values that are not finite."""

    kind: str
    name: str
    nan: int
    inf: int
    shape: tuple[int, ...] = ()
    dtype: str = ""


@dataclass(frozen=True)
class NanFigures:
    """`role`: input, parameter, output or gradient."""

    role: str
    name: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    figures: TensorFigures = field(default_factory=TensorFigures)


@dataclass(frozen=True)
class NanFinding:
    """The first value of a rank that was not finite (agent/nonfinite/findings.py)."""

    time: float
    phase: str  # forward, backward, optimizer
    kind: str  # nan, inf
    module: str
    type: str = ""
    which: str = ""
    origin: str = ""
    step: int | None = None
    tensors: tuple[NanFigures, ...] = ()
    users: tuple[str, ...] = ()
    previous: str = ""
    infinite: str = ""  # the module whose output had inf first, in the same pass
    where: Frame | None = None
    exact: bool = True


@dataclass(frozen=True)
class NanReport:
    """`bad`: how many tensors have values that are not finite; `lacks_gradients`: a backward pass went
    on, and they could not be read; `scale`: of a loss scaler; `infinite`: the first output with inf,
    at which no rank stops; `scaled`: gradients that a scaler explains."""

    tensors: tuple[NanTensor, ...] = ()
    bad: int = 0
    checked: int = 0
    lacks_gradients: bool = False
    models: int = 0
    step: int | None = None
    scale: float | None = None
    bytes: int = 0
    seconds: float = 0.0
    armed: bool = False
    checks: int = 0
    found: NanFinding | None = None
    infinite: dict[str, Any] | None = None
    scaled: int = 0
    failures: str = ""


@dataclass(frozen=True)
class NanArmed:
    """`was`: before the question; `why`: it cannot be."""

    armed: bool
    was: bool = False
    why: str = ""
