"""Errors in the conditions of breakpoints: reported to the editor once, not each time that the line
is executed.

Imported together with debug_adapter.
"""

from __future__ import annotations

from typing import Any


def begin(debugger: Any) -> None:
    """For a new editor, to which none was reported."""
    debugger.skip_print_breakpoint_exception = (_ReportedBefore("ReportedBefore", (), {}),)


class _ReportedBefore(type):
    """The class of errors that the debugger does not report: a breakpoint's second error of a kind.
    The text of an error may differ each time (KeyError: 17)."""

    def __init__(cls, *about: Any) -> None:
        super().__init__(*about)
        cls._reported: set[Any] = set()

    def __instancecheck__(cls, error: Any) -> bool:
        kind = (type(error).__qualname__, *_breakpoint_of(error))
        if kind in cls._reported:
            return True
        cls._reported.add(kind)
        return False


def _breakpoint_of(error: BaseException) -> tuple[object, ...]:
    """Its file, line and condition. The outermost frame of the error is that of the debugger's
    function which evaluates conditions (debugpy 1.8.22, handle_breakpoint_condition)."""
    traceback = error.__traceback__
    known = traceback.tb_frame.f_locals if traceback is not None else {}
    place, frame = known.get("pybreakpoint"), known.get("new_frame")
    if place is None or frame is None:  # another version
        return (repr(error),)
    return frame.f_code.co_filename, getattr(place, "line", 0), place.condition
