"""RANKDBG_PATIENCE: how much slower than usual nodes and ranks may be.

It multiplies limits that are tolerances: how long to wait for what usually comes at once. Never the
thresholds of verdicts, nor what leases and ticks agree on.
"""

from __future__ import annotations

import os

from rankdbg.errors import BadInput
from rankdbg.wire.questions import MOST_PATIENCE

VARIABLE = "RANKDBG_PATIENCE"


def find_patience(given: float = 0.0) -> float:
    """The one that was given, or that of the environment, or 1. Raises BadInput."""
    text, name = (str(given), "patience ") if given else (os.environ.get(VARIABLE), f"{VARIABLE}=")
    try:
        return parse_patience(text or "1")
    except ValueError as error:
        raise BadInput(f"invalid {name}{text}: {error}") from None


def parse_patience(text: str) -> float:
    """Raises ValueError, which says what is expected."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= MOST_PATIENCE:
        raise ValueError(f"expected a number from 1 to {MOST_PATIENCE:g}")
    return value
