"""Hooks in a process that uses Monarch: the names of its actors, and stops in their endpoints.

    breakpoint()             Monarch would install a hook that starts its debug server: ours stays
    an endpoint's end        Monarch ends its own debugger: we end the stop
    an endpoint's exception  Monarch catches it, and calls its own debugger before it sends it
    a message                has the place of this proc in the mesh, as the sender sees it

Imported when the program has imported Monarch.
"""

from __future__ import annotations

import sys

from rankdbg.agent import active, announcing, stacks, threads, workers
from rankdbg.agent.stops import entries
from rankdbg.process import identity
from rankdbg.process.user_code import is_agent, is_standard_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


class _Actor:
    """An actor, as known from the messages to it. Plain values: Monarch's own objects belong to
    the actor's thread."""

    def __init__(self) -> None:
        self.name = self.mesh = self.kind = ""
        self.point: dict[str, int] = {}
        self.size = 0  # of the largest mesh that a message went to
        self.shaped = 0  # the number of the reshaping or renaming that made its dimensions


# By thread: each actor has its own.
_actors: dict[int, _Actor] = {}
_changes = 0
_monarchs_files = ""


def install(actor_mesh: Any) -> None:
    """Called when Monarch has been imported, before there are actors."""
    global _monarchs_files
    kind = getattr(actor_mesh, "_Actor", None)
    if kind is None:  # another version of Monarch, or a module of the program's own
        return
    active.actor_labels = labels
    _monarchs_files = actor_mesh.__file__.partition("/_src/")[0] + "/"
    kind._maybe_exit_debugger = _endpoint_ended
    kind._post_mortem_debug = _endpoint_failed
    if identity.is_monarch_proc(sys.orig_argv):
        kind.handle = _watched_coroutine(kind.handle)
        kind.handle_sync = _watched(kind.handle_sync)


def keep_breakpointhook(module: Any) -> None:
    """Procs install this function as their hook: ours, or what PYTHONBREAKPOINT names."""
    module.remote_breakpointhook = sys.breakpointhook


# --- labels -------------------------------------------------------------------------------


def labels() -> dict[str, Any]:
    """From the actors of this proc: coordinates, role, names."""
    living = threads.living()
    for ident in list(_actors):
        if ident not in living:
            _actors.pop(ident, None)
    # In an order that is the same in all procs: actors are created at the same time.
    actors = sorted(_actors.values(), key=lambda actor: (-actor.size, actor.name, actor.mesh))
    if not actors:
        return {}
    # The mesh of another actor may be a slice; of equal ones, the last reshaped is up to date.
    widest = max(actors, key=lambda actor: (actor.size, actor.shaped))
    found: dict[str, Any] = {
        "role": "+".join(sorted({actor.kind for actor in actors})),
        "names": {
            "actors": "+".join(sorted({actor.name for actor in actors})),
            "actor_mesh": actors[0].mesh,
        },
        "world": widest.size,
    }
    if widest.point:
        found["coordinates"] = dict(widest.point)
    return found


def _watched(handle: Any) -> Any:
    def handle_sync(actor: Any, context: Any, *arguments: Any, **named: Any) -> Any:
        _begin(actor, context)
        try:
            return handle(actor, context, *arguments, **named)
        finally:
            _end(actor, context)

    return handle_sync


def _watched_coroutine(handle: Any) -> Any:
    async def handle_and_watch(actor: Any, context: Any, *arguments: Any, **named: Any) -> Any:
        _begin(actor, context)
        try:
            return await handle(actor, context, *arguments, **named)
        finally:
            _end(actor, context)

    return handle_and_watch


def _begin(actor: Any, context: Any) -> None:
    """Never raises: that would kill the actor, and with it the job."""
    try:
        if actor.instance is not None:
            _learn(actor, context)
        if actor.instance is None or _is_users(actor):
            workers.begin()
    except Exception:
        pass


def _end(actor: Any, context: Any) -> None:
    workers.end()
    if threads.get_ident() not in _actors:  # the actor has just been created
        _learn(actor, context)


def _is_users(actor: Any) -> bool:
    return not type(actor.instance).__module__.startswith("monarch.")


def _learn(actor: Any, context: Any) -> None:
    """A message to a whole mesh has its present shape and names; one to a slice has less."""
    global _changes
    try:
        if actor.instance is None or not _is_users(actor):
            return
        known = _actors.get(threads.get_ident())
        point = context.message_rank
        size = 1
        for extent in (point.extent[name] for name in point):
            size *= extent
        if known is None:
            known = _Actor()
            known.kind = type(actor.instance).__name__
            # `trainer<jfSfXwUb96J>.workers-0<GEwdhGQGfHG>@…`: the same in all of a mesh.
            name, _, rest = str(context.actor_instance.actor_id).partition("<")
            known.name, known.mesh = name, rest.partition(">")[0]
            _actors[threads.get_ident()] = known
            workers.names[threads.get_ident()] = name
        if size >= known.size:
            here = dict(point)
            if known.size and list(here) != list(known.point):
                _changes += 1
                known.shaped = _changes
            if (here, size) != (known.point, known.size):
                known.point, known.size = here, size
                announcing.changed()
    except Exception:  # another version of Monarch: its messages must not fail
        pass


# --- stops --------------------------------------------------------------------------------


def _endpoint_ended(actor: Any, do_continue: bool = True) -> None:
    entries.Scope().__exit__()


def _endpoint_failed(actor: Any, traceback: Any) -> None:
    """Monarch calls this in the handler of an endpoint's exception, before it sends it."""
    _endpoint_ended(actor)
    error = sys.exc_info()[1]
    if error is not None and active.handle_uncaught is not None:
        active.handle_uncaught(error, frames_of_endpoint(error), ends=False)


def frames_of_endpoint(error: BaseException) -> TracebackType | None:
    """Without the frames that called the endpoint. None if no frame is left: then the exception
    came before the endpoint began (no actor, an argument that cannot be unpickled)."""
    return stacks.frames_below(error.__traceback__, _calls_endpoints)


def _calls_endpoints(file: str) -> bool:
    monarchs = file.startswith(_monarchs_files) or "/cloudpickle/" in file
    return monarchs or is_standard_library(file) or is_agent(file)
