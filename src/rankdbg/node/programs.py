"""Modules of the node that run as separate programs, by path."""

from __future__ import annotations

import os
from types import ModuleType


def path_of(module: ModuleType) -> str:
    """If rankdbg is imported from an archive, these files are next to it."""
    file = str(module.__file__)
    name = os.path.basename(file).removesuffix("c")
    sent = os.path.join(os.environ.get("RANKDBG_LANDED", ""), "bin", name)
    return sent if not os.path.exists(file) and os.path.exists(sent) else file
