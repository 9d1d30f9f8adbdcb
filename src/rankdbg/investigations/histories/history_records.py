"""What ranks did, as plain values for JSON and tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rankdbg.types import Rank
from rankdbg.wire.node_answers import HistoryEvent


def group_name(event: HistoryEvent) -> str:
    """Its description, where the program has given one."""
    return event.group[1] or event.group[0] if len(event.group) > 1 else ""


def who(rank: Rank) -> dict[str, Any]:
    return {"rank": rank.number, "role": rank.role, "host": rank.host, "pid": rank.pid}


def event_as_json(event: HistoryEvent | None) -> dict[str, Any] | None:
    if event is None:
        return None
    file, _, rest = event.place.rpartition(":")
    line, _, function = rest.partition(" ")
    seconds = event.time / 1e9
    return {
        "kind": event.kind,
        "name": event.name,
        "number": event.count,
        "group": group_name(event),
        "file": file,
        "line": int(line) if line.isdigit() else None,
        "function": function,
        "value": event.value,
        "time": datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds"),
    }
