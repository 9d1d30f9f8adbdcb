"""Messages of the agent: single lines on the program's stderr."""

from __future__ import annotations

import sys

from rankdbg.agent import active, card

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def write(line: str) -> None:
    """Never raises: stderr may be closed, or None, or any object that the program put there."""
    try:
        sys.stderr.write(f"rankdbg: {line}\n")
        sys.stderr.flush()
    except Exception:
        pass


def write_with_name(sentence: str) -> None:
    """`rank 3 has stopped (…)`"""
    write(f"{process_name()} {sentence}")


def process_name() -> str:
    labels: dict[str, Any] = card.make()["labels"]
    if active.ray_worker_name is not None and labels.get("engine") == "ray":
        return active.ray_worker_name(labels)
    return f"rank {labels['rank']}" if "rank" in labels else "this process"
