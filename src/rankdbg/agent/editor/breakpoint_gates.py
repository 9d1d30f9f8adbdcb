"""Breakpoints of an editor behind gates, which the client opens in all ranks at the same step: see
stops/break_gates.py.

Imported together with debug_adapter.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

from rankdbg.agent import active
from rankdbg.agent.editor import editor_stops, log_points
from rankdbg.agent.stops import break_gates, stopped_threads

# Where the debugger (debugpy 1.8.22) finds the classes of its breakpoints.
_CLASSES = (
    ("_pydevd_bundle.pydevd_api", "LineBreakpoint"),
    ("_pydevd_bundle.pydevd_process_net_command_json", "FunctionBreakpoint"),
)

# From one session to the next: more than any sets breakpoints.
_sessions = itertools.count(1, 10_000)
_wanted = False  # by the client, which opens them
_file = ""  # that of the request that is executed, or ""
# The present breakpoints of this session by file, each with its line or its function.
_breakpoints: dict[str, dict[Any, break_gates.Gated]] = {}
# Those of `_file` that the request replaces.
_replaced: dict[Any, break_gates.Gated] = {}


def begin(debugger: Any, wanted: bool) -> None:
    """For a new editor."""
    global _wanted
    _wanted = wanted
    _breakpoints.clear()
    for module, name in _CLASSES:
        original = getattr(sys.modules.get(module), name, None)
        if original is not None and not issubclass(original, break_gates.Gated):
            setattr(sys.modules[module], name, _gated(original))
    # From 3.12 on the debugger keeps the breakpoints of each function, with this count of changes. A
    # new debugger counts from 0, and would take those of the last editor for its own.
    debugger.mtime = next(_sessions)
    debugger.add_dap_messages_listener(_Requests())
    _evaluate_in_turn(debugger)


def _gated(original: Any) -> Any:
    class GatedBreakpoint(original, break_gates.Gated):  # type: ignore[misc]
        def __init__(self, number: Any, place: Any, *about: Any, **more: Any) -> None:
            super().__init__(number, place, *about, **more)
            self.gate = _new_gate(place, self.is_logpoint)
            _breakpoints.setdefault(_file, {})[place] = self

        @property
        def has_condition(self) -> bool:
            """Whether the debugger calls `passes` below."""
            return self.gate is not None or bool(self.is_logpoint) or super().has_condition

    return GatedBreakpoint


def _new_gate(place: Any, only_logs: bool) -> break_gates.Gate | None:
    """In a rank that is stopped a breakpoint counts at once, and so does one that is set again."""
    if only_logs or not _wanted or active.editor is None:
        return None
    if place in _replaced:
        return _replaced[place].gate
    if stopped_threads.everyone() or editor_stops.stopped():
        return None
    return break_gates.Gate()


def _evaluate_in_turn(debugger: Any) -> None:
    """First the gate, then the condition, then the message of a log point. The debugger itself
    begins with the message."""
    is_met, evaluate = debugger.handle_breakpoint_condition, debugger.handle_breakpoint_expression

    def passes(info: Any, point: Any, frame: Any) -> Any:
        if not isinstance(point, break_gates.Gated):
            return is_met(info, point, frame)
        if not point.passes_gate() or (_is_conditional(point) and not is_met(info, point, frame)):
            return False
        if point.is_logpoint:  # type: ignore[attr-defined]
            info.pydev_message = log_points.text(point, frame)
        return True

    def evaluate_unless_later(point: Any, info: Any, frame: Any) -> None:
        if not isinstance(point, break_gates.Gated):
            evaluate(point, info, frame)

    debugger.handle_breakpoint_condition = passes
    debugger.handle_breakpoint_expression = evaluate_unless_later


def _is_conditional(point: Any) -> bool:
    return bool(point.condition or point.hit_condition)


class _Requests:
    """Sees each message to the debugger before it is executed. A request contains all breakpoints
    of a file, also those that were there before."""

    def after_receive(self, message: dict[str, Any]) -> None:
        global _file, _replaced
        if message.get("command") in ("setBreakpoints", "setFunctionBreakpoints"):
            source = (message.get("arguments") or {}).get("source") or {}
            _file = str(source.get("path", ""))
            _replaced = _breakpoints.pop(_file, {})

    def before_send(self, message: dict[str, Any]) -> None:
        pass


def _everyone() -> list[break_gates.Gated]:
    return [each for of_file in list(_breakpoints.values()) for each in list(of_file.values())]


break_gates.holders.append(_everyone)
