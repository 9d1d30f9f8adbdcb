"""What answers the tools that stop ranks: only with --allow control."""

from __future__ import annotations

from rankdbg.errors import BadInput
from rankdbg.frontends.mcp.asking import Answered, Call
from rankdbg.investigations.stops.break_answers import BreakList, BreaksCleared, BreakSet


def set_break(call: Call) -> Answered:
    found: BreakSet | BreakList | BreaksCleared
    if call["action"] == "list":
        found = call.view.breaks()
    elif call["action"] == "clear":
        found = call.view.clear_breaks(call["place"] or "")
    elif not call["place"]:
        raise BadInput("place is missing: give FILE:LINE, such as train.py:88")
    else:
        found = call.view.break_at(
            call["place"], condition=call["condition"] or "", log=call["log"] or ""
        )
    return Answered(found.as_json(), found.summary())


def cast(call: Call) -> Answered:
    found = call.view.cast(call["command"], wait=call["wait"])
    return Answered(found.as_json(), found.summary())


def continue_(call: Call) -> Answered:
    found = call.view.cast("continue")
    return Answered(found.as_json(), found.summary())


def pause(call: Call) -> Answered:
    found = call.view.pause()
    return Answered(found.as_json(), found.summary())
