"""The content of PyTorch's flight recorders in this process: the collectives of each group.

The line that issued an operation is taken from the stack of the thread that is still in it.
"""

from __future__ import annotations

import time

from rankdbg.agent import stacks, threads
from rankdbg.agent.groups import recorders, torch_groups
from rankdbg.process.user_code import innermost_user_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

    from rankdbg.agent.groups.recorders import Entry

# For each group: the oldest operations under way, and the last operations.
_OLDEST, _LAST = 16, 32
_MOST_ENTRIES = 2000
# A send or recv that is still under way after this time is waiting.
SETTLING_SECONDS = 1.0
_MOST_RANKS = 100_000  # in the members of all groups together
_FIELDS = (
    "record_id",
    "pg_id",
    "process_group",
    "collective_seq_id",
    "p2p_seq_id",
    "op_id",
    "is_p2p",
    "profiling_name",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
    "state",
    "retired",
    "time_created_ns",
)


def collect() -> dict[str, Any]:
    """One document for each recorder, in the form of a dump."""
    c10d = torch_groups.module()
    if c10d is None:
        return {"torch": False, "documents": []}
    sending = _sending(c10d)
    frames = {
        str(thread): list(stacks.walk(innermost))
        for thread, innermost in stacks.innermost_frames().items()
    }
    documents = [_bounded(document) for document in recorders.documents()]
    for document in documents:
        document["entries"] = [_placed(entry, frames) for entry in document["entries"]]
    recorded = {e["thread_id"] for d in documents for e in d["entries"] if recorders.is_pending(e)}
    unrecorded = [entry for thread, entry in sending if str(thread) not in recorded]
    groups = {"entries": unrecorded, "groups": _groups(c10d), "now_ns": time.time_ns()}
    return {"torch": True, "documents": [*documents, groups], "world": _world(c10d)}


def _bounded(document: dict[str, Any]) -> dict[str, Any]:
    groups: dict[str, list[Entry]] = {}
    for entry in document.get("entries") or ():
        groups.setdefault(str(entry.get("process_group")), []).append(entry)
    kept: list[Entry] = []
    for entries in groups.values():
        oldest = [entry for entry in entries[:-_LAST] if recorders.is_pending(entry)][:_OLDEST]
        kept += [*oldest, *entries[-_LAST:]]
    kept.sort(key=lambda entry: entry.get("time_created_ns") or 0)
    return {
        "entries": kept[-_MOST_ENTRIES:],
        "pg_config": document.get("pg_config") or {},
        "pg_status": document.get("pg_status") or {},
    }


# --- the line that issued it --------------------------------------------------------------


def _placed(entry: Entry, by_thread: dict[str, list[FrameType]]) -> Entry:
    """With the user's frame that issued it, if its thread is still in the operation."""
    brief = {key: entry[key] for key in _FIELDS if key in entry}
    thread = str(entry.get("thread_id"))
    brief["thread_id"] = thread
    frames = by_thread.get(thread, []) if recorders.is_pending(entry) else []
    name = str(entry.get("profiling_name")).rpartition(":")[2].strip("_").partition(" ")[0]
    in_torch = [f for f in frames if "/torch/distributed/" in f.f_code.co_filename]
    if any(_is_called(frame.f_code.co_name, name) for frame in in_torch):
        brief["frames"] = [_user_frame(frames)]
    return brief


def _is_called(function: str, operation: str) -> bool:
    """all_gather_base is issued by all_gather_into_tensor, all_to_all by all_to_all_single."""
    return function.strip("_").startswith(operation.removesuffix("_base")[:8])


def _user_frame(frames: list[FrameType]) -> dict[str, Any]:
    frame = frames[innermost_user_frame(frame.f_code.co_filename for frame in frames)]
    code = frame.f_code
    return {"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno or 0}


# --- operations that are not recorded -----------------------------------------------------


def _sending(c10d: Any) -> list[tuple[int, Entry]]:
    """send and recv on gloo are not recorded; a thread that stays in one shows it."""
    first = {thread: stack[-1] for thread, stack in _in_send_or_recv(c10d)}
    if not first:
        return []
    threads.pause(SETTLING_SECONDS)
    found = []
    for thread, stack in _in_send_or_recv(c10d):
        if first.get(thread) is stack[-1] and (entry := _as_entry(stack, c10d)):
            found.append((thread, entry))
    return found


def _in_send_or_recv(c10d: Any) -> Iterator[tuple[int, list[FrameType]]]:
    """Threads inside send or recv, each with its frames from the innermost up to that call."""
    for thread, innermost in stacks.innermost_frames().items():
        stack = []
        for frame in stacks.walk(innermost):
            stack.append(frame)
            code = frame.f_code
            if code.co_name in ("send", "recv") and code.co_filename == c10d.__file__:
                yield thread, stack
                break


def _as_entry(stack: list[FrameType], c10d: Any) -> Entry | None:
    frame, called = stack[-1], stack[-2] if len(stack) > 1 else None
    values, name = stacks.variables(frame, called), frame.f_code.co_name
    group = values.get("group") or c10d._world.default_pg
    ranks = c10d._world.pg_group_ranks.get(group, {})
    key = "dst" if name == "send" else "src"
    there = values.get(f"group_{key}")
    there = ranks.get(values.get(key)) if there is None else there
    if not isinstance(there, int):
        return None  # recv from any rank
    arrow = "->" if name == "send" else "<-"
    return {
        "process_group": [str(c10d._world.pg_names.get(group, "")), ""],
        "profiling_name": f"{name} {group.rank()}{arrow}{there}",
        "is_p2p": True,
        "state": "scheduled",
        "frames": [_user_frame(list(stacks.walk(frame)))],
    }


def _world(c10d: Any) -> dict[str, Any]:
    """torch's number of this process, and the store at which its world has met."""
    group = c10d._world.default_pg
    if group is None:
        return {}
    found: dict[str, Any] = {"rank": group.rank(), "size": group.size()}
    _, store = c10d._world.pg_map.get(group, ("", None))
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if hasattr(store, "host") and hasattr(store, "port"):
        found["store"] = f"{store.host}:{store.port}"
    elif hasattr(store, "path"):
        found["store"] = str(store.path)
    return found


def _groups(c10d: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    left = _MOST_RANKS
    for group, ranks in list(c10d._world.pg_group_ranks.items()):
        left -= len(ranks)
        if left < 0:
            break
        ordered = sorted(ranks, key=ranks.__getitem__)
        name = str(c10d._world.pg_names.get(group, ""))
        found[name] = {"desc": str(getattr(group, "group_desc", "")), "ranks": ordered}
    return found
