"""Operations of torch's process groups that had started before timeouts were raised.

They keep the limit with which they started; it cannot be changed. So they are reported.
"""

from __future__ import annotations

import time

from rankdbg.agent import stacks
from rankdbg.agent.groups import recorders, torch_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

# Calls of torch's functions that had started by then and still run: thread -> frame.
_begun: dict[int, FrameType] = {}


def note(c10d: Any) -> None:
    """Called when timeouts have just been raised."""
    _begun.clear()
    _begun.update(_entered(c10d))


def prune(c10d: Any) -> None:
    """Forget frames that have returned: they would keep the program's tensors alive."""
    now = dict(_entered(c10d)) if _begun else {}
    for thread, frame in list(_begun.items()):
        if now.get(thread) is not frame:
            del _begun[thread]


def short_limited(c10d: Any) -> list[dict[str, Any]]:
    """Operations under way whose limit was not raised: operation, group, limit and what is left
    of it, in seconds. Operations without a record (recv on gloo, new_group) have no limit."""
    pending = [entry for entry in _recorded() if recorders.is_pending(entry)]
    if pending:
        return [described for entry in pending if (described := _described(entry, c10d))]
    prune(c10d)
    names = [frame.f_code.co_name for frame in _begun.values()]
    return [{"operation": name, "group": "", "limit": None, "left": None} for name in names]


def _recorded() -> list[dict[str, Any]]:
    """Each entry once: two recorders may have the same."""
    entries: dict[str, dict[str, Any]] = {}
    for document in recorders.documents():
        for entry in document.get("entries") or ():
            if "process_group" in entry and "time_created_ns" in entry:
                entries[f"{entry['process_group']} {entry['time_created_ns']}"] = entry
    return list(entries.values())


def _described(entry: dict[str, Any], c10d: Any) -> dict[str, Any] | None:
    limit = entry.get("timeout_ms", 0) / 1000
    left = limit - (time.time_ns() - entry["time_created_ns"]) / 1e9
    if left < 0 or limit >= torch_groups.long(c10d).total_seconds():
        return None
    number, description = [*map(str, entry["process_group"]), ""][:2]
    return {
        "operation": str(entry.get("profiling_name")).rpartition(":")[2],
        "group": description if description not in ("", "undefined") else number,
        "limit": limit,
        "left": round(left, 1),
    }


def _entered(c10d: Any) -> Iterator[tuple[int, FrameType]]:
    """Threads inside torch's module, each with the outermost of its frames there."""
    for thread, innermost in stacks.innermost_frames().items():
        inside = [f for f in stacks.walk(innermost) if f.f_code.co_filename == c10d.__file__]
        if inside and not inside[-1].f_code.co_name.startswith(("get_", "is_", "_")):
            yield thread, inside[-1]
