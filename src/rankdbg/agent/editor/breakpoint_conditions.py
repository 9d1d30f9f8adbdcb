"""Errors in breakpoints: reported to the editor once, not each time that the line is executed.

Imported together with debug_adapter.
"""

from __future__ import annotations

from typing import Any

_reported: set[Any] = set()


def begin(debugger: Any) -> None:
    """For a new editor, to which none was reported."""
    _reported.clear()
    debugger.skip_print_breakpoint_exception = (_ReportedBefore("ReportedBefore", (), {}),)


def was_reported(error: BaseException, breakpoint_: tuple[object, ...]) -> bool:
    """Whether it is a breakpoint's second error of a kind. The text of an error may differ each
    time (KeyError: 17)."""
    kind = (type(error).__qualname__, *breakpoint_)
    if kind in _reported:
        return True
    _reported.add(kind)
    return False


class _ReportedBefore(type):
    """The class of errors in conditions that the debugger does not report."""

    def __instancecheck__(cls, error: Any) -> bool:
        return was_reported(error, _breakpoint_of(error))


def _breakpoint_of(error: BaseException) -> tuple[object, ...]:
    """Its file, line and condition. The outermost frame of the error is that of the debugger's
    function which evaluates conditions (debugpy 1.8.22, handle_breakpoint_condition)."""
    traceback = error.__traceback__
    known = traceback.tb_frame.f_locals if traceback is not None else {}
    place, frame = known.get("pybreakpoint"), known.get("new_frame")
    if place is None or frame is None:  # another version
        return (repr(error),)
    return frame.f_code.co_filename, getattr(place, "line", 0), place.condition
