"""Evaluate an expression where a thread is now, without stopping it."""

from __future__ import annotations

from rankdbg import user_code
from rankdbg.agent import describe, stacks, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


class _Interrupted(SystemExit):
    """Raised inside an evaluation that has used up its time."""


def evaluate(
    expression: str, frame: int | str | None, thread: str | int | None, seconds: float
) -> dict[str, Any]:
    """The described value, or the described exception; {"late": ...} if it takes too long.

    The evaluation has a thread of its own: one that never ends must not cost the rank
    its agent.
    """
    try:
        chosen = choose_frame(stacks.walk(stacks.thread_frame(thread)), frame)
    except LookupError as error:
        return {"kind": "error", "text": f"LookupError: {error.args[0]}"}
    done = threads.new_lock()
    done.acquire()
    state: dict[str, Any] = {}
    threads.start(_evaluate_into, state, expression, chosen, done)
    del chosen  # a frame that is kept keeps all its locals alive
    if done.acquire(timeout=seconds):
        return state["result"]  # type: ignore[no-any-return]
    interrupted = _interrupt(state.get("thread", 0))
    return {"late": f"the expression took longer than {seconds:g} s", "interrupted": interrupted}


def choose_frame(frames: list[FrameType], wanted: int | str | None) -> FrameType:
    """The innermost frame of user code; or by number, 0 the innermost; or by function."""
    if wanted is None:
        return frames[user_code.innermost_user_frame(f.f_code.co_filename for f in frames)]
    if isinstance(wanted, int):
        if 0 <= wanted < len(frames):
            return frames[wanted]
        raise LookupError(f"no frame {wanted}; the stack has frames 0 to {len(frames) - 1}")
    for frame in frames:
        code = frame.f_code
        if wanted in (code.co_name, getattr(code, "co_qualname", None)):
            return frame
    raise LookupError(f"no frame of a function {wanted!r} in this stack")


def _evaluate_into(state: dict[str, Any], expression: str, frame: FrameType, done: Any) -> None:
    state["thread"] = threads.get_ident()
    try:
        # One namespace, and a copy: a comprehension in the expression sees the frame's
        # variables, and an assignment expression leaves the program's alone.
        namespace = {**frame.f_globals, **frame.f_locals}
        del frame
        value = eval(compile(expression, "<rankdbg ask>", "eval"), namespace)
        state["result"] = describe.describe(value)
    except _Interrupted:
        state["result"] = {"kind": "error", "text": "interrupted"}
    except BaseException as error:  # also SystemExit: an answer like any other
        state["result"] = {"kind": "error", "text": describe.exception_text(error)}
    finally:
        done.release()


def _interrupt(ident: int) -> bool:
    """Raise _Interrupted in the evaluation's thread. It ends a loop in Python, not one in C."""
    try:
        import ctypes

        raised = ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(ident), ctypes.py_object(_Interrupted)
        )
        return bool(raised == 1)
    except Exception:  # no ctypes in this Python
        return False
