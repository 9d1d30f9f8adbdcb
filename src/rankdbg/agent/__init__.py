"""Inside a rank: the part of rankdbg that runs in other people's programs.

    __init__    start, init, set_mesh; what happens at fork and at exit
    autostart   started by the .pth file or by bootstrap/, when RANKDBG=1
    listener    one thread, one Unix socket; a short-lived thread for each connection
    card        the file beside the socket that says who this process is
    questions   a question -> its answer
    stacks, evaluate, describe    what the answers are made of

Rules of this folder: standard library only, and of that only what no program is
likely to have a module of its own by that name for; no signal handler; no output
but one line on stderr; an agent that cannot start leaves the program alone.
"""

from __future__ import annotations

import os
import sys

from rankdbg import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankdbg.agent.listener import Listener

_listener: Listener | None = None
_hooked = False


def init(
    *,
    rank: int | None = None,
    world: int | None = None,
    mesh: Mapping[str, int] | None = None,
    role: str | None = None,
    job: str | None = None,
) -> None:
    """Start the agent in this process, and name the process as far as arguments say so.

    Everything that is left out is taken from the environment that torchrun, Slurm or
    MPI set. A process that already has an agent only gets the new names.
    """
    from rankdbg.agent import card

    if mesh is not None:
        card.chosen["mesh"] = _checked_mesh(mesh)
    for name, number in (("rank", rank), ("world", world)):
        if number is not None:
            if type(number) is not int or number < 0:
                raise ValueError(f"rankdbg.init: {name} must be a whole number, not {number!r}")
            card.chosen[name] = number
    for name, text in (("role", role), ("job", job)):
        if text is not None:
            card.chosen[name] = str(text)
    start()
    if _listener is not None:
        _listener.write_card()


def set_mesh(mesh: Mapping[str, int]) -> None:
    """The mesh was reshaped or renamed: selections and listings show it at once."""
    init(mesh=mesh)


def _checked_mesh(mesh: Mapping[str, int]) -> dict[str, int]:
    checked = dict(mesh)
    for name, size in checked.items():
        if not isinstance(name, str) or type(size) is not int or size < 1:
            raise ValueError(f"rankdbg: a mesh maps names to sizes of 1 or more, not {mesh!r}")
    return checked


def start() -> None:
    """Listen, unless this process does already. Never raises: the program comes first."""
    global _listener, _hooked
    if _listener is not None:
        return
    try:
        from rankdbg.agent.listener import Listener

        _listener = Listener(rendezvous.directory())
    except (rendezvous.Refused, OSError, RuntimeError) as error:
        _say(f"no agent in process {os.getpid()}: {error}")
    if not _hooked:
        _hooked = True
        import atexit

        os.register_at_fork(after_in_child=_after_fork)
        atexit.register(_at_exit)


def _after_fork() -> None:
    """The child of a fork is a process of its own, with an agent of its own."""
    global _listener
    try:
        if _listener is not None:
            _listener.abandon()
            _listener = None
            start()
    except Exception as error:
        _say(f"no agent in the forked process {os.getpid()}: {error!r}")


def _at_exit() -> None:
    if _listener is not None:
        _listener.close()


def _say(line: str) -> None:
    try:
        sys.stderr.write(f"rankdbg: {line}\n")
    except Exception:  # stderr may be closed, or None, or anything the program put there
        pass
