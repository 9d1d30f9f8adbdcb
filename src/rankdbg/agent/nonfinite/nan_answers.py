"""Which tensors of this rank have nan or inf now; what the hooks have found."""

from __future__ import annotations

import sys
import time

from rankdbg.agent.nonfinite import arming, findings, loss_scales, values
from rankdbg.agent.replicas import found_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = ("parameter", "buffer", "gradient", "optimizer")
_MOST_TENSORS = 200_000
_MOST_SHOWN = 1000


def read() -> dict[str, Any]:
    """Counted on the device of each tensor, without a copy of those that are finite."""
    begun = time.monotonic()
    state = arming.state()
    if "torch" not in sys.modules:
        return {**state, "models": 0, "step": findings.step()}
    holders = found_tensors.Holders()
    found = holders.tensors(KINDS)[:_MOST_TENSORS]
    checked = [each for each in found if values.local(each.tensor) is not None]
    with sys.modules["torch"].no_grad():
        kinds = values.kinds_of([values.extremes(each.tensor) for each in checked])
        bad = [each for each, kind in zip(checked, kinds, strict=True) if kind]
        tensors = [_entry(each) for each in bad[:_MOST_SHOWN]]
    has_gradients = any(each["kind"] == "gradient" for each in tensors)
    return {
        **state,
        "tensors": tensors,
        "bad": len(bad),
        "checked": len(checked),
        "lacks_gradients": holders.lacks_gradients,
        "models": holders.count,
        "step": findings.step(),
        "scale": loss_scales.current() if has_gradients else None,
        "bytes": sum(each.tensor.numel() * each.tensor.element_size() for each in checked),
        "seconds": time.monotonic() - begun,
    }


def _entry(found: found_tensors.FoundTensor) -> dict[str, Any]:
    nan, inf = values.counts(found.tensor)
    return {
        "kind": found.kind,
        "name": found.name,
        "shape": [*found.tensor.shape],
        "dtype": str(found.tensor.dtype).removeprefix("torch."),
        "nan": nan,
        "inf": inf,
    }
