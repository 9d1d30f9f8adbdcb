"""Loss scalers of the program: while the scale is above 1, gradients that overflow are expected, and
the scaler skips the step."""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# torch's GradScaler and ShardedGradScaler, Megatron's DynamicGradScaler, DeepSpeed's
# DynamicLossScaler and LossScaler, apex's.
_NAMES = ("GradScaler", "LossScaler")
_ATTRIBUTES = ("get_scale", "cur_scale", "loss_scale", "scale")


def current() -> float | None:
    """The largest scale; None if the program has no scaler."""
    scales = [
        scale
        for thing in gc.get_objects()
        if type(thing).__name__.endswith(_NAMES)
        if (scale := _scale(thing)) is not None
    ]
    return max(scales, default=None)


def explains(scale: float | None) -> bool:
    """Whether a gradient that is not finite may only have been scaled too much."""
    return scale is not None and scale > 1


def _scale(scaler: Any) -> float | None:
    for name in _ATTRIBUTES:
        try:
            value = getattr(scaler, name, None)
            if name == "get_scale" and value is not None:
                value = value()
            if value is not None and not callable(value):
                return float(value)
        except Exception:  # a class that is only named so
            continue
    return None
