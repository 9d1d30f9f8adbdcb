"""Calls of the command line that may take so much memory and no more: whoever needs more dies."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from jobs import rankdbg
from waiting import PATIENCE

# What rankdbg itself needs, with room; an attack wants gigabytes.
MEMORY = 700 << 20


def confined(*words: object, memory: int = MEMORY, **settings: Any) -> Any:
    """Its children have no more either, each."""
    return rankdbg(*words, memory=memory, timeout=PATIENCE, **settings)


def said(result: subprocess.CompletedProcess[str], status: int = 2) -> str:
    """What a refusal says: one sentence, and no traceback."""
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    assert "internal error in rankdbg" not in result.stderr
    if status == 2:
        assert "error: " in result.stderr
    return result.stderr


def piped(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line for bash, in which `rankdbg` is ours."""
    words = ["bash", "-c", command]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
