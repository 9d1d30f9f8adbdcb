"""Evaluate an expression where a thread is now, without stopping it."""

from __future__ import annotations

from rankdbg import user_code
from rankdbg.agent import describe, stacks, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


def evaluate(
    expression: str, frame: int | str | None, thread: str | int | None, seconds: float
) -> dict[str, Any]:
    """The described value, or the described exception; {"late": ...} if it takes too long."""
    try:
        stack = list(stacks.walk(stacks.thread_frame(thread)))
        place = choose_frame(stack, frame)
    except LookupError as error:
        return {"kind": "error", "text": f"LookupError: {error.args[0]}"}
    # One namespace, and a copy: a comprehension in the expression sees the frame's
    # variables, and an assignment expression leaves the program's alone.
    called = stack[place - 1] if place else None
    namespace = {**stack[place].f_globals, **stacks.variables(stack[place], called)}
    del stack, called  # a frame that is kept keeps all its variables alive
    try:
        return threads.within(seconds, _value, expression, namespace)  # type: ignore[no-any-return]
    except threads.Late as late:
        return {"late": f"the expression took longer than {seconds:g} s", "interrupted": late.ended}


def choose_frame(frames: list[FrameType], wanted: int | str | None) -> int:
    """The innermost frame of user code; or by number, 0 the innermost; or by function."""
    if wanted is None:
        return user_code.innermost_user_frame(f.f_code.co_filename for f in frames)
    if isinstance(wanted, int):
        if 0 <= wanted < len(frames):
            return wanted
        raise LookupError(f"no frame {wanted}; the stack has frames 0 to {len(frames) - 1}")
    for place, frame in enumerate(frames):
        code = frame.f_code
        if wanted in (code.co_name, getattr(code, "co_qualname", None)):
            return place
    raise LookupError(f"no frame of a function {wanted!r} in this stack")


def _value(expression: str, namespace: dict[str, Any]) -> dict[str, Any]:
    try:
        code = compile(expression.strip(), "<rankdbg ask>", "eval", dont_inherit=True)
        return describe.describe(eval(code, namespace))
    except BaseException as error:  # also SystemExit: an answer like any other
        return {"kind": "error", "text": describe.exception_text(error)}
