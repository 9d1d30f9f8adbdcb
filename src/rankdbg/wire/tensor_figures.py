"""Figures of a tensor, as agents compute them (agent/replicas/tensor_hashes.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorFigures:
    """Of the finite values, and how many are not finite. None: there are no finite ones."""

    norm: float | None = None
    min: float | None = None
    max: float | None = None
    nan: int = 0
    inf: int = 0
