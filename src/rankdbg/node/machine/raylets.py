"""Ray's raylets on this node: which objects each pulls from other nodes, and its threads that wait for
a file of spilled objects.

A raylet itself reads objects that were spilled to its disk, for the nodes that pull them. What it pulls
it writes to debug_state.txt, every ten seconds.
"""

from __future__ import annotations

import re
from contextlib import suppress

from rankdbg.node.machine import processes, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MOST_THREADS = 500
_MOST_BYTES = 1 << 20
_SPILLED = "ray_spilled_objects"  # in the path of each such file
_NO_NODE = "f" * 56
_REQUEST = re.compile(
    r"spilled url: (?P<url>.*), spilled node id: (?P<node>\w*),.* object size: (?P<size>\d+),"
    r".* num of retries: (?P<retries>\d+)"
)


def look() -> dict[str, Any]:
    return {"raylets": [*_raylets()]}


def _raylets() -> Iterator[dict[str, Any]]:
    for pid in processes.all_pids():
        with suppress(OSError):  # it has ended meanwhile
            words = processes.command(pid)
            if words and words[0].rpartition("/")[2] == "raylet":
                yield _raylet(pid, words)


def _raylet(pid: int, words: list[str]) -> dict[str, Any]:
    logs = processes.option(words, ["--log_dir"])
    return {
        "node": processes.option(words, ["--node_id"]),
        "pid": pid,
        "pulls": [*parse_pulls(_read(f"{logs}/debug_state.txt"))],
        "waits": [*_waits(pid)],
        "read": processes.bytes_moved(pid)[0],
    }


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:  # a Ray that writes none
        return ""


def parse_pulls(text: str) -> Iterator[dict[str, Any]]:
    """The object for which the raylet has waited for longest: it names no other. Where it is spilled is
    told once the raylet has asked for it again."""
    lines = (line.removeprefix("- ").partition(": ") for line in text.splitlines())
    told = {name: value for name, _, value in lines}
    request = _REQUEST.search(told.get("max timeout object", ""))
    ident = told.get("max timeout object id") or told.get("example obj id pending pull", "")
    if request is None or not request["url"]:
        if ident:
            yield {"object": ident}
        return
    yield {
        "object": ident,
        "url": request["url"],
        "node": "" if request["node"] == _NO_NODE else request["node"],
        "size": int(request["size"]),
        "retries": int(request["retries"]),
    }


def _waits(pid: int) -> Iterator[dict[str, Any]]:
    for thread in processes.threads(pid)[:_MOST_THREADS]:
        call, file = syscalls.thread_waits_on(pid, thread)
        if _SPILLED in file:
            yield {"thread": thread, "call": call, "file": file}
