"""Inside a rank: the part of rankdbg that runs in other people's programs.

    __init__    the public functions; start, fork and exit of the agent
    autostart   imported by the .pth file or by bootstrap/, when RANKDBG=1
    hooks       what the agent hooks into at its start; the one module that knows all folders
    active      what is active in this process: filled by the modules that become active
    listener    one thread, one Unix socket; a short-lived thread for each connection
    card        the file beside the socket that identifies this process
    questions   a question -> its answer
    announcing  reports stops to nodes that watch, without a question
    messages    single lines on stderr
    stacks, evaluate, describe    the content of answers
    threads, workers, native, forks, imports    access to the interpreter

    stops/       pdb in a thread: breakpoints, breaks, pauses, uncaught exceptions, source text
    editor/      debugpy in this rank, and tensors in an editor
    groups/      torch's process groups: timeouts, flight recorders
    profilers/   torch, memory and nsys profiles on request
    nsys/        ranks under Nsight Systems
    replicas/    hashes of tensors that other ranks must have too
    nonfinite/   nan and inf: which tensors have some, and where the first one appears
    history/     what this rank did, in a file that outlives it
    frameworks/  Ray, Monarch; the labels that torch, JAX, MPI and others know

Rules of this folder: only modules of the standard library, and at the agent's start only such
that no program is likely to shadow by a module of its own; no signal handler (except SIGTERM in a
rank under nsys); no output except single lines on stderr; an agent that cannot start leaves the
program alone.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import active, card, messages
from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rankdbg.agent.listener import Listener

_listener: Listener | None = None
_registered = False
_notes: Any = None  # the module history/notes, once there is something to note

# For questions that are being answered when the program exits.
WIND_UP_SECONDS = 0.3


def init(
    *,
    rank: int | None = None,
    world: int | None = None,
    mesh: Mapping[str, int] | None = None,
    role: str | None = None,
    job: str | None = None,
) -> None:
    """Start the agent in this process, and set the labels that are given.

    Other labels are taken from the environment that torchrun, Slurm or MPI set. In a process
    that already has an agent, only the labels change.
    """
    from rankdbg.agent import announcing

    chosen: dict[str, Any] = {}
    if mesh is not None:
        chosen["mesh"] = _checked_mesh(mesh)
    for name, number in (("rank", rank), ("world", world)):
        if number is not None:
            chosen[name] = _checked_number(name, number, least=0 if name == "rank" else 1)
    for name, text in (("role", role), ("job", job)):
        if text is not None:
            chosen[name] = _checked_name(name, text)
    if {"rank", "world"} <= chosen.keys() and chosen["rank"] >= chosen["world"]:
        raise ValueError(
            f"rankdbg.init: invalid rank {rank}: expected less than the world size, {world}"
        )
    card.chosen.update(chosen)
    announcing.changed()
    start()
    if _listener is not None:
        _listener.current_card()


def set_mesh(mesh: Mapping[str, int]) -> None:
    """Report a mesh that was reshaped or renamed: selections and listings show it at once."""
    init(mesh=mesh)


def progress(step: int) -> None:
    """Report the step that the program has reached: `rankdbg ps` shows it, `rankdbg watch` uses it,
    and `rankdbg history` compares ranks by it.

    Takes about two microseconds. Without an agent it has no effect.
    """
    card.step = step
    if card.at_step is not None:
        card.at_step(step)
    if _listener is not None:
        (_notes or _load_notes()).step(step)
    if card.step_work:
        for work in [*card.step_work]:
            work(step)


def mark(name: str, value: object = None) -> None:
    """Note what the program has decided, for `rankdbg history`: mark("accepted", 17).

    The value is a number, or a short text; of anything else only the type is noted. Takes about two
    microseconds. Without an agent it has no effect.
    """
    if _listener is not None:
        (_notes or _load_notes()).mark(name, value)


def _load_notes() -> Any:
    """With the first event: most processes have none."""
    global _notes
    from rankdbg.agent.history import notes

    _notes = notes
    return notes


def breakpoint(*, header: str | None = None, when: bool = True, ranks: str | None = None) -> None:
    """Stop here, as the built-in breakpoint() does in a rank with an agent.

    `header` is shown with the stop. `when` is a condition. `ranks` is a selection such as "tp=0":
    only these ranks stop.
    """
    if not when:
        return
    start()
    if ranks is None or _is_selected(ranks):
        from rankdbg.agent.stops import entries

        entries.stop_at(sys._getframe(1), "breakpoint", header)


def post_mortem(error: BaseException | None = None) -> None:
    """Hold this thread at the given exception, else at the one that is being handled."""
    from rankdbg.agent.stops import entries

    error = error or sys.exc_info()[1]
    if error is None:
        raise ValueError("rankdbg.post_mortem: no exception is being handled, and none was given")
    start()
    entries.hold(error, error.__traceback__)


def scope(name: str = "") -> Any:
    """A context manager or decorator: when it ends, a stop inside it ends."""
    from rankdbg.agent.stops import entries

    return entries.Scope(name)


def listen(port_base: int = 5678, *, wait: bool = True) -> int:
    """Make debugpy listen on the loopback interface, on port `port_base` + local rank, and wait
    for an editor. Returns the port.

    Only for editors that need one port for each rank: `rankdbg dap` works without it.
    """
    start()
    from rankdbg.agent.editor import debugpy_listening

    return debugpy_listening.listen(_checked_number("port_base", port_base, least=1), wait)


def _is_selected(ranks: str) -> bool:
    from rankdbg import selection
    from rankdbg.selection import mesh
    from rankdbg.types import ProcessKey, Rank

    me = card.make()
    labels = me["labels"]
    number, sizes = labels.get("rank"), labels.get("mesh") or {}
    rank = Rank(
        ProcessKey(me["host"], me["pid"], me["start"]),
        labels["job"],
        number,
        coordinates=labels.get("coordinates")
        or (mesh.coordinates(number, sizes) if number is not None else {}),
        role=str(labels.get("role") or ""),
    )
    return selection.matches(selection.parse(ranks), rank)


def _checked_mesh(mesh: Mapping[str, int]) -> dict[str, int]:
    if not hasattr(mesh, "items"):
        raise ValueError(
            f"rankdbg: invalid mesh {mesh!r}: expected a mapping such as {{'dp': 4, 'tp': 2}}"
        )
    checked = {}
    for name, size in mesh.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(
                f"rankdbg: invalid dimension {name!r} of the mesh: expected a name such as 'tp'"
            )
        checked[name] = _checked_number(f"size {name!r} of the mesh", size, least=1)
    return checked


def _checked_number(name: str, number: Any, least: int) -> int:
    """Accepts the integers of numpy and torch too, but neither True nor 2.0."""
    if isinstance(number, bool) or not hasattr(number, "__index__") or number < least:
        raise ValueError(
            f"rankdbg: invalid {name}: expected a whole number, {least} or more, not {number!r}"
        )
    return int(number)


def _checked_name(name: str, text: Any) -> str:
    if not (isinstance(text, str) and text.isprintable() and text):
        raise ValueError(f"rankdbg.init: invalid {name}: expected a short text, not {text!r}")
    for letter in " ,'\"()=":
        if letter in text:
            raise ValueError(
                f"rankdbg.init: {name} {text!r} must not contain spaces or any of ,'\"()="
            )
    return text


def start() -> None:
    """Start to listen, unless this process already does. Never raises: the program goes first."""
    global _listener
    if _listener is not None:
        return
    try:
        from rankdbg.agent import hooks
        from rankdbg.agent.listener import Listener

        directory = rendezvous.directory()
        if os.environ.get("RANKDBG_DIR"):
            os.environ["RANKDBG_DIR"] = directory  # the same for children, after a chdir
        _listener = Listener(directory)
        _register()
        hooks.install()
    except Exception as error:
        expected = isinstance(error, (rendezvous.DirectoryRefused, OSError))
        reason = str(error) if expected else repr(error)
        messages.write(f"no agent in process {os.getpid()}: {reason}")


def _register() -> None:
    """Once: the child of a fork inherits it."""
    global _registered
    if _registered:
        return
    _registered = True
    import atexit

    atexit.register(_at_exit)
    if sys.version_info >= (3, 12):
        from rankdbg.agent import forks

        os.register_at_fork(before=forks.before, after_in_child=forks.after)
    os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    """The child of a fork is a process of its own, with its own agent."""
    global _listener
    active.forked = True
    for action in active.after_fork:
        try:
            action()
        except Exception as error:
            messages.write(f"process {os.getpid()} keeps state of its parent: {error!r}")
    if _listener is None:
        return
    try:
        _listener.abandon()
    except Exception as error:
        messages.write(f"process {os.getpid()} keeps its parent's socket: {error!r}")
    _listener = None
    start()


def _at_exit() -> None:
    for action in active.at_exit:
        action()
    from rankdbg.agent import threads

    if _listener is not None:
        threads.wind_up(WIND_UP_SECONDS)
        _listener.close()
