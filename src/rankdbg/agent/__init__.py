"""Inside a rank: the part of rankdbg that runs in other people's programs.

    __init__    start, init, set_mesh; what happens at fork and at exit
    autostart   started by the .pth file or by bootstrap/, when RANKDBG=1
    listener    one thread, one Unix socket; a short-lived thread for each connection
    card        the file beside the socket that says who this process is
    questions   a question -> its answer
    stacks, evaluate, describe    what the answers are made of
    breaks, pauses                stops that clients ask for while the program runs
    uncaught, saving              exceptions that nobody catches: held, or saved
    in_ray                        Ray: the agent in its workers, its breakpoints, its exceptions
    timeouts, torch_groups, in_flight    process groups wait for ranks that stand in the debugger
    under_nsys, nsys_program      ranks that run under Nsight Systems, and how it is started
    capture, cuda_profiler        for which steps, or when asked
    nsys_report, termination      what it writes of them, also if they are told to end
    workers_reports, nsys_writers    a driver of Ray's waits for what it writes of workers
    threads, native, forks        what the interpreter must be talked into

Rules of this folder: standard library only, and of that only what no program is
likely to have a module of its own by that name for; no signal handler (but for SIGTERM in
a rank under nsys); no output but one line on stderr; an agent that cannot start leaves the
program alone.
"""

from __future__ import annotations

import os
import sys

from rankdbg import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rankdbg.agent.listener import Listener

_listener: Listener | None = None
_hooked = False

# Questions that are being answered when the program ends are given so long.
WIND_UP_SECONDS = 0.3


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
        raise ValueError(f"rankdbg.init: rank {rank} is not below the world's size, {world}")
    card.chosen.update(chosen)
    start()
    if _listener is not None:
        _listener.current_card()


def set_mesh(mesh: Mapping[str, int]) -> None:
    """The mesh was reshaped or renamed: selections and listings show it at once."""
    init(mesh=mesh)


def progress(step: int) -> None:
    """The program has come to this step: `rankdbg ps` shows it, `rankdbg watch` goes by it.

    Costs less than a microsecond, and nothing happens in a process without an agent.
    """
    from rankdbg.agent import card

    card.step = step
    if card.at_step is not None:
        card.at_step(step)


def breakpoint(*, header: str | None = None, when: bool = True, ranks: str | None = None) -> None:
    """Stop here, as the built-in breakpoint() does in a rank with an agent.

    `header` is shown with the stop; `when` is a condition; `ranks` is a selection such as
    "tp=0": only these ranks stop.
    """
    if not when:
        return
    start()
    if ranks is None or _is_selected(ranks):
        from rankdbg.agent import entries

        entries.stop_at(sys._getframe(1), "breakpoint", header)


def post_mortem(error: BaseException | None = None) -> None:
    """Hold this thread at an exception: the one that is being handled, or the given one."""
    from rankdbg.agent import entries

    error = error or sys.exc_info()[1]
    if error is None:
        raise ValueError("rankdbg.post_mortem: no exception is being handled, and none was given")
    start()
    entries.hold(error, error.__traceback__)


def scope(name: str = "") -> Any:
    """A context manager, or a decorator: a stop inside ends when it ends."""
    from rankdbg.agent import entries

    return entries.Scope(name)


def listen(port_base: int = 5678, *, wait: bool = True) -> int:
    """Let debugpy listen on this machine's loopback, at the base and the local rank, and wait
    for an editor. The port.

    `rankdbg dap` needs none of this; it is for those who want a port for each rank.
    """
    start()
    from rankdbg.agent import listening

    return listening.listen(_checked_number("port_base", port_base, least=1), wait)


def _is_selected(ranks: str) -> bool:
    from rankdbg import mesh, selection
    from rankdbg.agent import card
    from rankdbg.types import ProcessKey, Rank

    me = card.make()
    labels = me["labels"]
    number, sizes = labels.get("rank"), labels.get("mesh") or {}
    rank = Rank(
        ProcessKey(me["host"], me["pid"], me["start"]),
        labels["job"],
        number,
        coordinates=mesh.coordinates(number, sizes) if number is not None else {},
        role=str(labels.get("role") or ""),
    )
    return selection.matches(selection.parse(ranks), rank)


def _checked_mesh(mesh: Mapping[str, int]) -> dict[str, int]:
    if not hasattr(mesh, "items"):
        raise ValueError(f"rankdbg: a mesh is a mapping such as {{'dp': 4, 'tp': 2}}, not {mesh!r}")
    checked = {}
    for name, size in mesh.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"rankdbg: a mesh's dimension has a name such as 'tp', not {name!r}")
        checked[name] = _checked_number(f"the mesh's size {name!r}", size, least=1)
    return checked


def _checked_number(name: str, number: Any, least: int) -> int:
    """numpy's and torch's whole numbers are welcome too, True and 2.0 are not."""
    if isinstance(number, bool) or not hasattr(number, "__index__") or number < least:
        raise ValueError(
            f"rankdbg: {name} must be a whole number of {least} or more, not {number!r}"
        )
    return int(number)


def _checked_name(name: str, text: Any) -> str:
    if not (isinstance(text, str) and text.isprintable() and text):
        raise ValueError(f"rankdbg.init: {name} must be a short text, not {text!r}")
    for letter in " ,'\"()=":
        if letter in text:
            raise ValueError(
                f"rankdbg.init: {name} {text!r} must be without blanks and any of ,'\"()="
            )
    return text


def start() -> None:
    """Listen, unless this process does already. Never raises: the program comes first."""
    global _listener
    if _listener is not None:
        return
    try:
        from rankdbg.agent import entries
        from rankdbg.agent.listener import Listener

        directory = rendezvous.directory()
        if os.environ.get("RANKDBG_DIR"):
            os.environ["RANKDBG_DIR"] = directory  # the same for children, after a chdir
        _listener = Listener(directory)
        _hook()
        entries.install()
    except Exception as error:
        expected = isinstance(error, (rendezvous.Refused, OSError))
        _say(f"no agent in process {os.getpid()}: {error if expected else repr(error)}")


def _hook() -> None:
    global _hooked
    if _hooked:
        return
    _hooked = True
    import atexit

    atexit.register(_at_exit)
    if sys.version_info >= (3, 12):
        from rankdbg.agent import forks

        os.register_at_fork(before=forks.before, after_in_child=forks.after)
    os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    """The child of a fork is a process of its own, with an agent of its own."""
    global _listener
    from rankdbg.agent import card, stops

    card.chosen.pop("rank", None)  # that is the parent's
    stops.forget_all()
    debugger: Any = sys.modules.get("rankdbg.agent.debugger")
    if debugger is not None:
        debugger.forget_all()
    workers: Any = sys.modules.get("rankdbg.agent.workers")
    if workers is not None:
        workers.forget_all()
    for name in ("breaks", "pauses", "dap", "profiling"):
        module: Any = sys.modules.get(f"rankdbg.agent.{name}")
        if module is not None:
            module.after_fork()
    timeouts: Any = sys.modules.get("rankdbg.agent.timeouts")
    if timeouts is not None:
        timeouts.after_fork()
    if _listener is None:
        return
    try:
        _listener.abandon()
    except Exception as error:
        _say(f"process {os.getpid()} keeps its parent's socket: {error!r}")
    _listener = None
    start()


def _at_exit() -> None:
    timeouts: Any = sys.modules.get("rankdbg.agent.timeouts")
    if timeouts is not None:
        timeouts.at_exit()
    capture: Any = sys.modules.get("rankdbg.agent.capture")
    if capture is not None:
        capture.at_exit()
    from rankdbg.agent import threads

    if _listener is not None:
        profiling: Any = sys.modules.get("rankdbg.agent.profiling")
        if profiling is not None:
            profiling.finish_at_exit()
        threads.wind_up(WIND_UP_SECONDS)
        _listener.close()


def _say(line: str) -> None:
    try:
        sys.stderr.write(f"rankdbg: {line}\n")
    except Exception:  # stderr may be closed, or None, or anything the program put there
        pass
