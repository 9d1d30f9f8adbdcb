"""Amounts as people read them."""

from __future__ import annotations


def in_bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB" if number < 1024 else f"{number / 1024:.1f} TiB"
