"""The ways into the debugger: breakpoint(), pdb.set_trace(), an exception, the end of a scope."""

from __future__ import annotations

import os
import sys

from rankdbg.agent import active, imports, threads
from rankdbg.agent.stops import stopped_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any


def install() -> None:
    """Redirect breakpoint() and pdb. A PYTHONBREAKPOINT that the user has set is respected; one
    that Ray has set is not."""
    chosen = os.environ.get("PYTHONBREAKPOINT")
    if sys.breakpointhook is sys.__breakpointhook__ and (
        chosen is None or chosen.startswith("ray.util.")
    ):
        sys.breakpointhook = _breakpointhook
    imports.when_imported("pdb", _redirect_pdb)


def _breakpointhook(*arguments: Any, header: Any = None, **others: Any) -> None:
    stop_at(sys._getframe(1), "breakpoint", header)


def stop_at(frame: FrameType, kind: str, why: object = None) -> None:
    """Stop the calling thread at the next line of this frame: in the editor, if one is attached,
    else in pdb."""
    if threads.ending():  # the agent no longer answers, so no client could continue the thread
        return
    if active.editor is not None:
        active.editor.stop_at(frame)
        return
    from rankdbg.agent.stops import debugger

    debugger.of_this_thread().stop_at(frame, kind, "" if why is None else str(why))


def stop_in(frame: FrameType, kind: str, why: str) -> None:
    """Stop the calling thread now, with one of its outer frames as the current one."""
    if threads.ending():
        return
    if active.editor is not None:
        active.editor.stop_here(frame)
        return
    from rankdbg.agent.stops import debugger

    debugger.of_this_thread().stop_in(frame, kind, why)


def hold(error: BaseException, traceback: TracebackType | None) -> None:
    """Hold the calling thread at an exception, with its frames, until a client continues it."""
    if traceback is None or threads.ending():
        return
    if active.editor is None or not active.editor.hold(error, traceback):
        from rankdbg.agent import describe
        from rankdbg.agent.stops import debugger

        why = " ".join(describe.exception_text(error).split())  # torch's have many lines
        debugger.of_this_thread().post_mortem(error, traceback, why)


def _redirect_pdb(pdb: Any) -> None:
    def set_trace(*, header: Any = None, **others: Any) -> None:
        stop_at(sys._getframe(1), "breakpoint", header)

    def post_mortem(t: Any = None) -> None:
        error = t if isinstance(t, BaseException) else sys.exc_info()[1]
        traceback = t.__traceback__ if isinstance(t, BaseException) else t or sys.exc_info()[2]
        if traceback is None:
            raise ValueError("A valid traceback must be passed if no exception is being handled")
        hold(error or Exception(), traceback)

    if hasattr(pdb, "Pdb"):  # not a module of the program's own by that name
        pdb.set_trace = set_trace
        pdb.post_mortem = post_mortem


class Scope:
    """`with rankdbg.scope("train_step"):`, or as a decorator. When it ends, a stop in it ends:
    stepping past its end never leads into the code that called it. Breakpoints stay."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *_: object) -> None:
        if stopped_threads.of_thread(threads.get_ident()) is not None:
            from rankdbg.agent.stops import debugger

            debugger.of_this_thread().end_scope()

    def __call__(self, function: Any) -> Any:
        def within_scope(*arguments: Any, **named: Any) -> Any:
            with Scope(self.name or function.__name__):
                return function(*arguments, **named)

        within_scope.__wrapped__ = function  # type: ignore[attr-defined]
        within_scope.__name__ = function.__name__
        within_scope.__doc__ = function.__doc__
        return within_scope
