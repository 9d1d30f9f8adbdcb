"""Branches and loop turns of chosen functions, through sys.monitoring (Python 3.12 and later).

Switched on and off in a running job: only code objects of these functions send events.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from types import CodeType
from typing import Any

from rankdbg.agent.history import ring as rings
from rankdbg.process import history_layout as layout

monitoring: Any = getattr(sys, "monitoring", None)

_tool: int | None = None
_traced: dict[int, CodeType] = {}
_lines: dict[int, tuple[list[int], list[int]]] = {}  # of each code: offsets, and the lines there


def trace(place: str) -> dict[str, Any]:
    """FILE:FUNCTION, in addition to those that are traced; `off` ends all of it."""
    if place == "off":
        _end()
        return {"traced": []}
    if monitoring is None:
        version = "{}.{}".format(*sys.version_info)
        return {
            "traced": [],
            "why": f"branches are noted by Python 3.12 and later, not by {version}",
        }
    found = _find(place)
    if not found:
        return {"traced": _names(), "why": f"no function {place} is loaded here"}
    _begin()
    for code in found:
        _traced[id(code)] = code
        monitoring.set_local_events(_tool, code, _events())
    return {"traced": _names()}


def _find(place: str) -> list[CodeType]:
    from rankdbg.agent.stops import sources

    file, _, function = place.rpartition(":")
    return [
        code
        for code in sources.with_nested(sources.alive())
        if code.co_name == function and sources.matches(file, code.co_filename)
    ]


def _names() -> list[str]:
    return sorted({f"{code.co_filename}:{code.co_name}" for code in _traced.values()})


def _events() -> int:
    events = monitoring.events
    if hasattr(events, "BRANCH_LEFT"):  # Python 3.14
        return int(events.BRANCH_LEFT | events.BRANCH_RIGHT | events.JUMP)
    return int(events.BRANCH | events.JUMP)


def _begin() -> None:
    global _tool
    if _tool is None:
        from rankdbg.agent.stops.break_events import free_tool

        _tool = free_tool()
        for name in ("BRANCH", "BRANCH_LEFT", "BRANCH_RIGHT", "JUMP"):
            if event := getattr(monitoring.events, name, 0):
                monitoring.register_callback(_tool, event, _went)


def _end() -> None:
    global _tool
    if _tool is None:
        return
    for code in _traced.values():
        monitoring.set_local_events(_tool, code, 0)
    monitoring.free_tool_id(_tool)
    _tool = None
    _traced.clear()


def _went(code: CodeType, offset: int, destination: int) -> None:
    ring = rings.get()
    if ring is None:
        return
    key = "branch", id(code), offset, destination
    text = ring.known.get(key)
    if text is None:
        line, other = _line(code, offset), _line(code, destination)
        turn = "again from" if destination < offset else "to"
        text = ring.text(key, f"{turn} line {other}\t{rings.place_text(code, line)}")
    ring.note(layout.BRANCH, text)


def _line(code: CodeType, offset: int) -> int:
    known = _lines.get(id(code))
    if known is None:
        spans = [(begin, line) for begin, _, line in code.co_lines() if line]
        known = _lines[id(code)] = [b for b, _ in spans], [line for _, line in spans]
    place = bisect_right(known[0], offset) - 1
    return known[1][place] if place >= 0 else 0
