"""Evaluates an expression in the present frame of a thread, without stopping the thread."""

from __future__ import annotations

from rankdbg.agent import describe, stacks, threads
from rankdbg.process import user_code

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
    # One namespace, so that a comprehension in the expression sees the frame's variables; and a
    # copy, so that an assignment expression does not change the program's variables.
    called = stack[place - 1] if place else None
    namespace = {**stack[place].f_globals, **stacks.variables(stack[place], called)}
    del stack, called  # a frame keeps all its variables alive
    try:
        return threads.within(seconds, _value, expression, namespace)  # type: ignore[no-any-return]
    except threads.Late as late:
        return {"late": f"the expression took longer than {seconds:g} s", "interrupted": late.ended}


def choose_frame(frames: list[FrameType], wanted: int | str | None) -> int:
    """The innermost frame of user code; or by number, where 0 is the innermost; or by function."""
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
    raise LookupError(f"no frame of function {wanted!r} in this stack")


def _value(expression: str, namespace: dict[str, Any]) -> dict[str, Any]:
    try:
        code = compile(expression.strip(), "<rankdbg ask>", "eval", dont_inherit=True)
        return describe.describe(eval(code, namespace))
    except BaseException as error:  # SystemExit too: it is an answer like any other
        return {"kind": "error", "text": describe.exception_text(error)}
