"""The default target."""

from __future__ import annotations

import os

from rankdbg.clusters import Options as Options
from rankdbg.clusters import here


def find_target() -> tuple[str, str] | None:
    """The most likely target, and why; None: this machine."""
    return here.find_target(os.environ)
