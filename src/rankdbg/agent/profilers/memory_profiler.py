"""Memory profiles: memray for the process, torch's memory history for its GPUs."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_EVENTS = 100_000


def begin(path: str, with_stack: bool) -> Callable[[], dict[str, Any]] | str:
    """Returns the function that ends it, or the reason why it cannot start."""
    begun = [finish for finish in (_begin_memray(path), _begin_cuda(path)) if finish]
    if not begun:
        return (
            "memray is not installed in its environment (pip install memray), "
            "and it has allocated no GPU memory through torch"
        )

    def finish() -> dict[str, Any]:
        outcome: dict[str, Any] = {"python": {"executable": sys.executable, "path": sys.path}}
        for each in begun:
            outcome.update(each())
        return outcome

    return finish


def _begin_memray(path: str) -> Callable[[], dict[str, Any]] | None:
    try:
        memray: Any = __import__("memray")
    except ImportError:
        return None
    tracker = memray.Tracker(f"{path}.memray", native_traces=False)
    tracker.__enter__()

    def finish() -> dict[str, Any]:
        tracker.__exit__(None, None, None)
        return {}

    return finish


def _begin_cuda(path: str) -> Callable[[], dict[str, Any]] | None:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    memory = torch.cuda.memory
    # If the program already records its history, it keeps recording.
    is_on: Callable[[], bool] = getattr(torch._C, "_cuda_isHistoryEnabled", lambda: False)
    theirs = is_on()
    if not theirs:
        memory._record_memory_history(enabled="all", stacks="python", max_entries=MOST_EVENTS)

    def finish() -> dict[str, Any]:
        import pickle

        from rankdbg import wire

        snapshot = memory._snapshot()
        if not theirs:
            memory._record_memory_history(enabled=None)
        with open(f"{path}.pickle", "wb") as file:
            pickle.dump(snapshot, file)
        with open(f"{path}.folded", "wb") as file:
            file.write(wire.encode(_fold(snapshot)))
        return {}

    return finish


def _fold(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The memory in use, by the stacks that allocated it; the format of
    node/profiles/folded_stacks.py."""
    frames: dict[tuple[str, str, int], int] = {}
    held: dict[tuple[str, tuple[int, ...]], int] = {}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "active_allocated":
                continue
            stack = [_frame(frame) for frame in reversed(block.get("frames") or ())]
            stack = stack or [("allocated before the recording began", "", 0)]
            indices = tuple(frames.setdefault(frame, len(frames)) for frame in stack)
            key = f"GPU {segment['device']}", indices
            held[key] = held.get(key, 0) + block["size"]
    stacks = [[device, True, indices, size] for (device, indices), size in held.items()]
    whole = sum(held.values())
    return {"unit": "bytes", "whole": whole, "frames": list(frames), "stacks": stacks}


def _frame(frame: dict[str, Any]) -> tuple[str, str, int]:
    return frame["name"], os.fspath(frame["filename"]), frame["line"]
