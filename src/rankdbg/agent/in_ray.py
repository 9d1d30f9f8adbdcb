"""In a program that uses Ray: the agent goes into its workers, and breakpoints lead here.

    ray.init()                  gives the workers a runtime environment with the agent
    breakpoint()                Ray sets PYTHONBREAKPOINT, which nobody reads: the hook is ours
    ray.util.pdb.set_trace()    is led here too, and so is RAY_DEBUG_POST_MORTEM
    a task's exception          Ray catches it, and asks its own debugger before it stores it

Imported when the program has imported Ray.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import entries, imports, stacks, workers_reports
from rankdbg.user_code import is_standard_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


def arrived(ray: Any) -> None:
    """Ray has been imported, and its functions are not yet in anybody's hands."""
    if "ray._raylet" not in sys.modules:  # a module of the program's own by that name
        return
    ray.init = _with_agent(ray.init)
    imports.when_imported("ray.util.rpdb", _redirect)
    imports.when_imported("ray.util.debugpy", _redirect_set_trace)


# --- the agent in workers -----------------------------------------------------------------


def _with_agent(init: Any) -> Any:
    def init_with_agent(*arguments: Any, **named: Any) -> Any:
        if not _is_submitted():
            from rankdbg.ray import runtime_env

            inner = getattr(named.get("job_config"), "runtime_env", None)
            named["runtime_env"] = runtime_env(named.get("runtime_env") or inner)
        context = init(*arguments, **named)
        workers_reports.joined(context)
        return context

    init_with_agent.__name__, init_with_agent.__doc__ = "init", init.__doc__
    init_with_agent.__wrapped__ = init  # type: ignore[attr-defined]
    return init_with_agent


def _is_submitted() -> bool:
    """Whether this is the driver of a submitted job whose runtime environment has the agent:
    Ray merges the two, and refuses to if both have the same variable."""
    return '"RANKDBG"' in os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "")


# --- breakpoints --------------------------------------------------------------------------


def _redirect(rpdb: Any) -> None:
    _redirect_set_trace(rpdb)
    rpdb._driver_set_trace = rpdb.set_trace
    rpdb._is_ray_debugger_post_mortem_enabled = _wants_exceptions
    rpdb._post_mortem = _post_mortem


def _redirect_set_trace(module: Any) -> None:
    def set_trace(*_: Any, **named: Any) -> None:
        entries.stop_at(sys._getframe(1), "breakpoint")

    module.set_trace = set_trace


def _post_mortem() -> None:
    """Called by Ray in the handler of a task's exception, before it stores that."""
    error = sys.exc_info()[1]
    if error is None:
        return
    frames, uncaught = frames_of_task(error), entries.uncaught_module()
    if uncaught is not None:
        uncaught.meet(error, frames, ends=False)
    if _ray_holds() and not (uncaught is not None and uncaught.holds()):
        entries.hold(error, frames)


def _wants_exceptions() -> bool:
    return entries.uncaught_module() is not None or _ray_holds()


def _ray_holds() -> bool:
    return os.environ.get("RAY_DEBUG_POST_MORTEM") == "1"


def frames_of_task(error: BaseException) -> TracebackType | None:
    """Without those that called the task; None if there are no others: what fails before the
    task begins (an argument that another task has failed to make) is not its failure."""
    return stacks.frames_below(error.__traceback__, _calls_tasks)


def _calls_tasks(file: str) -> bool:
    """Ray, and what it calls coroutines with."""
    ray = file.endswith("_raylet.pyx") or "/site-packages/ray/" in file
    return ray or is_standard_library(file)
