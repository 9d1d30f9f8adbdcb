"""What this process is in: an allocation, a head node."""

from __future__ import annotations

import importlib.util
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path


def find_target(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The target that a user here most likely means, and why; None: this machine."""
    address = environ.get("RAY_ADDRESS", "")
    if address and "://" not in address and _has_ray():
        return f"ray:{address}", "RAY_ADDRESS names it"
    job = environ.get("SLURM_JOB_ID", "")
    if job.isdigit() and shutil.which("srun"):
        return f"slurm:{job}", "this is inside of its allocation"
    if _is_head_of_ray(environ) and _has_ray():
        return "ray:auto", "this is the head node of that cluster"
    return None


def _has_ray() -> bool:
    return shutil.which("ray") is not None or importlib.util.find_spec("ray") is not None


def _is_head_of_ray(environ: Mapping[str, str]) -> bool:
    """Whether the cluster that `ray start` has noted runs on this very machine, and still does."""
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
