"""On what a rank computes: kernels of other GPUs, processors or versions of torch may round otherwise."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def of_device(device: str) -> dict[str, str]:
    """`gpu`: NVIDIA H200 GPU-6f…, as the vendor's tools name it. `kind`: without what is its alone."""
    torch, cuda = sys.modules["torch"], sys.modules.get("torch.cuda")
    version = f"torch {torch.__version__}"
    if not device.startswith("cuda") or cuda is None:
        return {"gpu": "", "kind": f"{_processor()}, {version}".lstrip(", ")}
    properties: Any = cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    name = f"{properties.name}{f' GPU-{uuid}' if uuid else ''}"
    return {"gpu": name, "kind": f"{properties.name}, {version}"}


def _processor() -> str:
    """As the kernel names it; ARM's have numbers instead of names."""
    names = ("model name", "CPU implementer", "CPU part")
    found: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if not key.strip() and found:
                    break  # the next processor
                if key.strip() in names:
                    found[key.strip()] = value.strip()
    except OSError:
        pass
    return found.get("model name") or " ".join(found.values())
