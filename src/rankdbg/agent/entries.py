"""The ways into the debugger: breakpoint(), pdb.set_trace(), an exception, a scope's end."""

from __future__ import annotations

import os
import sys

from rankdbg.agent import imports, stops, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any


def install() -> None:
    """Let the program's own breakpoints lead here. PYTHONBREAKPOINT is the user's word, unless
    it is Ray's."""
    chosen = os.environ.get("PYTHONBREAKPOINT")
    if sys.breakpointhook is sys.__breakpointhook__ and (
        chosen is None or chosen.startswith("ray.util.")
    ):
        sys.breakpointhook = _breakpointhook
    imports.when_imported("pdb", _redirect)
    imports.when_imported("ray", _meet_ray)
    imports.when_imported("ray._private.runtime_env.nsight", _fix_nsight)
    imports.when_imported("monarch._src.actor.actor_mesh", _meet_monarch)
    imports.when_imported("monarch._src.actor.debugger.breakpoint", _keep_hook)
    if os.environ.get("RANKDBG_BREAK") or os.environ.get("RANKDBG_SAVE_ON_ERROR"):
        from rankdbg.agent import uncaught

        uncaught.install()
    if os.environ.get("RANKDBG_HOLD_TIMEOUTS", "0") not in ("", "0"):
        from rankdbg.agent import timeouts

        timeouts.hold_for_good()


def uncaught_module() -> Any:
    """What cares for uncaught exceptions, if anything is wanted of it."""
    return sys.modules.get("rankdbg.agent.uncaught")


def _meet_ray(ray: Any) -> None:
    from rankdbg.agent import in_ray

    in_ray.arrived(ray)


def _fix_nsight(plugin: Any) -> None:
    from rankdbg.agent import ray_nsight

    ray_nsight.fix(plugin)


def _meet_monarch(actor_mesh: Any) -> None:
    from rankdbg.agent import in_monarch

    in_monarch.arrived(actor_mesh)


def _keep_hook(module: Any) -> None:
    from rankdbg.agent import in_monarch

    in_monarch.keep_hook(module)


def _breakpointhook(*arguments: Any, header: Any = None, **others: Any) -> None:
    stop_at(sys._getframe(1), "breakpoint", header)


def stop_at(frame: FrameType, kind: str, why: object = None) -> None:
    """Stop the calling thread at the next line of this frame."""
    if threads.ending():  # nobody could let it go again
        return
    editor = _editor()
    if editor is not None:
        editor.stop_at(frame)
        return
    from rankdbg.agent import debugger

    debugger.of_this_thread().stop_at(frame, kind, "" if why is None else str(why))


def hold(error: BaseException, traceback: TracebackType | None) -> None:
    """Hold the calling thread at an exception, with its frames, until somebody lets it go."""
    if traceback is None or threads.ending():
        return
    editor = _editor()
    if editor is None or not editor.hold(error, traceback):
        from rankdbg.agent import debugger, describe

        why = " ".join(describe.exception_text(error).split())  # torch's have many lines
        debugger.of_this_thread().post_mortem(error, traceback, why)


def _editor() -> Any:
    """Where stops lead while an editor is in this process; None: into pdb."""
    dap: Any = sys.modules.get("rankdbg.agent.dap")
    return sys.modules["rankdbg.agent.dap_stops"] if dap is not None and dap.attached() else None


def _redirect(pdb: Any) -> None:
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
    """`with rankdbg.scope("train_step"):`, or as a decorator. When it ends, a stop in it
    ends: whoever steps off its end never lands in what called it. Breakpoints stay."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *_: object) -> None:
        if stops.of_thread(threads.get_ident()) is not None:
            from rankdbg.agent import debugger

            debugger.of_this_thread().end_scope()

    def __call__(self, function: Any) -> Any:
        def within_scope(*arguments: Any, **named: Any) -> Any:
            with Scope(self.name or function.__name__):
                return function(*arguments, **named)

        within_scope.__wrapped__ = function  # type: ignore[attr-defined]
        within_scope.__name__ = function.__name__
        within_scope.__doc__ = function.__doc__
        return within_scope
