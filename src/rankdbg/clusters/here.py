"""The default target: the allocation or Ray cluster that this process is in."""

from __future__ import annotations

import importlib.util
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from rankdbg.process import identity


def find_target(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The most likely target, and why; None: this machine."""
    address = environ.get("RAY_ADDRESS", "")
    if address and "://" not in address and _has_ray():
        return f"ray:{address}", "from RAY_ADDRESS"
    job = identity.slurm_job(environ)
    if job.replace("_", "", 1).isdigit() and shutil.which("srun"):
        return f"slurm:{job}", "inside its allocation"
    if _is_head_of_ray(environ) and _has_ray():
        return "ray:auto", "on its head node"
    return None


def _has_ray() -> bool:
    return shutil.which("ray") is not None or importlib.util.find_spec("ray") is not None


def _is_head_of_ray(environ: Mapping[str, str]) -> bool:
    """Whether the cluster recorded by `ray start` is still running on this machine."""
    place = environ.get("RAY_TMPDIR") or environ.get("TMPDIR") or "/tmp"
    try:
        note = Path(place, "ray", "ray_current_cluster").read_text()
        host, _, port = note.strip().rpartition(":")
        with socket.socket() as own:
            own.bind((host, 0))  # refused for addresses of other machines
            own.settimeout(0.2)
            return own.connect_ex((host, int(port))) == 0
    except (OSError, ValueError, OverflowError):
        return False
