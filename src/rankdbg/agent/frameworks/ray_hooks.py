"""Hooks in a program that uses Ray: the agent in its workers, and rankdbg's stops.

    ray.init()                  gives the workers a runtime environment with the agent
    breakpoint()                Ray sets PYTHONBREAKPOINT, which has no effect on our hook
    ray.util.pdb.set_trace()    stops in rankdbg, and so does RAY_DEBUG_POST_MORTEM
    a task's exception          Ray catches it, and calls its own debugger before it stores it

Imported when the program has imported Ray.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import active, imports, stacks
from rankdbg.agent.nsys import worker_reports
from rankdbg.agent.stops import entries
from rankdbg.process.user_code import is_standard_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


def install(ray: Any) -> None:
    """Called when Ray has been imported, before the program can call it."""
    if "ray._raylet" not in sys.modules:  # a module of the program's own by that name
        return
    active.ray_worker_name = worker_name
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
        worker_reports.joined(context)
        _show_all_stops()
        return context

    init_with_agent.__name__, init_with_agent.__doc__ = "init", init.__doc__
    init_with_agent.__wrapped__ = init  # type: ignore[attr-defined]
    return init_with_agent


def _is_submitted() -> bool:
    """Whether this is the driver of a submitted job whose runtime environment has the agent. Ray
    merges the two environments, and fails if both have the same variable."""
    return '"RANKDBG"' in os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "")


# --- messages about stops -----------------------------------------------------------------


def worker_name(labels: dict[str, Any]) -> str:
    """`Trainer trainer-2 of job ppo`: the driver's terminal shows the lines of all workers, and
    often of several jobs."""
    words = [str(labels.get("role") or "this process"), _actor_name()]
    words += [f"rank {labels['rank']}"] if "rank" in labels else []
    return f"{' '.join(filter(None, words))} of job {labels.get('job', '')}"


def _actor_name() -> str:
    """`` for tasks, drivers and actors without a name."""
    try:
        return str(sys.modules["ray"].get_runtime_context().get_actor_name() or "")
    except Exception:  # not yet connected, or another version of Ray
        return ""


def _show_all_stops() -> None:
    """Ray's driver merges lines of workers that differ only in numbers. Each stop has to be
    shown."""
    logs: Any = sys.modules.get("ray._private.ray_logging")
    for name in ("stdout_deduplicator", "stderr_deduplicator"):
        deduplicator: Any = getattr(logs, name, None)
        if hasattr(deduplicator, "allow_re") and not isinstance(deduplicator.allow_re, _Allowed):
            deduplicator.allow_re = _Allowed(deduplicator.allow_re)


class _Allowed:
    """Replaces Ray's regular expression for lines that are never merged."""

    def __init__(self, others: Any) -> None:
        self._others = others

    def search(self, line: str) -> Any:
        return line.startswith("rankdbg: ") or (self._others and self._others.search(line))


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
    """Ray calls this in the handler of a task's exception, before it stores the exception."""
    error = sys.exc_info()[1]
    if error is None:
        return
    frames = frames_of_task(error)
    if active.handle_uncaught is not None:
        active.handle_uncaught(error, frames, ends=False)
    was_held = active.holds_uncaught is not None and active.holds_uncaught()
    if _is_post_mortem_enabled() and not was_held:
        entries.hold(error, frames)


def _wants_exceptions() -> bool:
    return active.handle_uncaught is not None or _is_post_mortem_enabled()


def _is_post_mortem_enabled() -> bool:
    return os.environ.get("RAY_DEBUG_POST_MORTEM") == "1"


def frames_of_task(error: BaseException) -> TracebackType | None:
    """Without the frames that called the task. None if no frame is left: then the exception came
    before the task began, for example from another task that failed to compute an argument."""
    return stacks.frames_below(error.__traceback__, _calls_tasks)


def _calls_tasks(file: str) -> bool:
    """Files of Ray, and of the standard library, with which Ray runs coroutines."""
    ray = file.endswith("_raylet.pyx") or "/site-packages/ray/" in file
    return ray or is_standard_library(file)
