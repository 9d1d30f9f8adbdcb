"""In a process that uses Monarch: who its actors are, and what happens in their endpoints.

    breakpoint()             Monarch's hook would start its debug server: the one that was
                             there before stays
    an endpoint's end        Monarch asks its own debugger to let go: so do we
    an endpoint's exception  Monarch catches it, and asks its own debugger before it sends it
    a message                says where this proc is in the mesh, as the sender sees that

Imported when the program has imported Monarch.
"""

from __future__ import annotations

import sys

from rankdbg import identity
from rankdbg.agent import entries, stacks, threads, workers
from rankdbg.user_code import is_agent, is_standard_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


class _Known:
    """An actor, as far as messages to it have told. Plain values: Monarch's own objects
    belong to the actor's thread."""

    def __init__(self) -> None:
        self.name = self.mesh = self.kind = ""
        self.point: dict[str, int] = {}
        self.size = 0  # of the largest mesh that a message went to
        self.shaped = 0  # which renaming or reshaping made its dimensions what they are, if any


# By thread: each actor has its own.
_actors: dict[int, _Known] = {}
_changes = 0
_monarchs_files = ""


def arrived(actor_mesh: Any) -> None:
    """Monarch has been imported, and no actor is there yet."""
    global _monarchs_files
    kind = getattr(actor_mesh, "_Actor", None)
    if kind is None:  # another version of Monarch, or a module of the program's own
        return
    _monarchs_files = actor_mesh.__file__.partition("/_src/")[0] + "/"
    kind._maybe_exit_debugger = _endpoint_ended
    kind._post_mortem_debug = _endpoint_failed
    if identity.is_monarch_proc(sys.orig_argv):
        kind.handle = _watched_coroutine(kind.handle)
        kind.handle_sync = _watched(kind.handle_sync)


def keep_hook(module: Any) -> None:
    """Procs take this function for their breakpoints: ours, or what PYTHONBREAKPOINT names."""
    module.remote_breakpointhook = sys.breakpointhook


# --- who is here --------------------------------------------------------------------------


def labels() -> dict[str, Any]:
    """What the actors of this proc say about it: coordinates, role, names."""
    living = threads.living()
    for ident in list(_actors):
        if ident not in living:
            _actors.pop(ident, None)
    # In an order that is the same in all procs: they are not made one after the other.
    actors = sorted(_actors.values(), key=lambda actor: (-actor.size, actor.name, actor.mesh))
    if not actors:
        return {}
    # The others may be on slices; and who was renamed or reshaped last knows best.
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
    if threads.get_ident() not in _actors:  # it has just been made
        _learn(actor, context)


def _is_users(actor: Any) -> bool:
    return not type(actor.instance).__module__.startswith("monarch.")


def _learn(actor: Any, context: Any) -> None:
    """Messages to a slice say little; those to a whole mesh, how it is shaped and named now."""
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
            known = _Known()
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
            known.point, known.size = here, size
    except Exception:  # of another version of Monarch; its messages come first
        pass


# --- stops --------------------------------------------------------------------------------


def _endpoint_ended(actor: Any, do_continue: bool = True) -> None:
    entries.Scope().__exit__()


def _endpoint_failed(actor: Any, traceback: Any) -> None:
    """Called by Monarch in the handler of an endpoint's exception, before it sends that."""
    _endpoint_ended(actor)
    error = sys.exc_info()[1]
    uncaught = entries.uncaught_module()
    if error is not None and uncaught is not None:
        uncaught.meet(error, frames_of_endpoint(error), ends=False)


def frames_of_endpoint(error: BaseException) -> TracebackType | None:
    """Without those that called it; None if there are no others: what fails before the endpoint
    begins (the actor was never made, an argument cannot be unpickled) is not its failure."""
    return stacks.frames_below(error.__traceback__, _calls_endpoints)


def _calls_endpoints(file: str) -> bool:
    monarchs = file.startswith(_monarchs_files) or "/cloudpickle/" in file
    return monarchs or is_standard_library(file) or is_agent(file)
