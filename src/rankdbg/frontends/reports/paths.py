"""Paths as they are shown."""

from __future__ import annotations

import os


def near_path(path: str) -> str:
    """Relative to where the user is, unless it is elsewhere."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near
