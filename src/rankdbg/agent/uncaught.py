"""Uncaught exceptions: save what was there, and hold the thread until it is let go.

    the main thread        Python's audit event "sys.excepthook"
    other threads          threading makes each thread's handler with a function: ours
    multiprocessing        Process._bootstrap() calls run(): ours, around the process's own
    pools, torch's spawn   catch what their workers raise, and send it to the parent
    Ray, Monarch           catch what tasks and endpoints raise: in_ray.py, in_monarch.py

None of these is a hook that the program sets for itself (sys.excepthook,
threading.excepthook): its own are called as ever, and it cannot take ours away. torch's
init_process_group() sets one, and some MPI programs one that aborts the job.

Imported only where RANKDBG_BREAK or RANKDBG_SAVE_ON_ERROR is set.
"""

from __future__ import annotations

import os
import sys

from rankdbg import identity
from rankdbg.agent import card, describe, entries, imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

_installed = False
_holds = False
_directory = ""


def install() -> None:
    global _installed, _holds, _directory
    if _installed:  # and this is a fork, which has inherited it all
        return
    _installed = True
    wanted = os.environ.get("RANKDBG_BREAK", "")
    _holds = wanted == "error"
    if wanted and not _holds:
        _say(f"RANKDBG_BREAK={wanted} means nothing; it can be: error")
    if os.environ.get("RANKDBG_SAVE_ON_ERROR"):
        _directory = os.path.abspath(os.environ["RANKDBG_SAVE_ON_ERROR"])
        os.environ["RANKDBG_SAVE_ON_ERROR"] = _directory  # for children, after a chdir
    sys.addaudithook({_MainThreadsEnd("sys.excepthook"): None}.get)  # type: ignore[arg-type]
    imports.when_imported("threading", _watch_threads)
    imports.when_imported("multiprocessing.process", _watch_processes)
    imports.when_imported("multiprocessing.pool", _watch_pool)
    imports.when_imported("concurrent.futures.process", _watch_executor)
    imports.when_imported("torch.multiprocessing.spawn", _watch_torch_spawn)


def holds() -> bool:
    return _holds


def meet(
    error: BaseException,
    traceback: TracebackType | None,
    show: Callable[[], None] | None = None,
    ends: bool = True,
) -> bool:
    """Save and hold as is wanted. `show` prints the traceback, which comes before the hold;
    whether that was done. `ends`: the process does, and not only a thread or a task.
    Never raises: the program ends as it would have."""
    shown = False
    try:
        if traceback is None or not _is_failure(error) or _is_launcher():
            return False
        if _directory:
            _save(error, traceback, ends)
        if _holds:
            if show is not None:
                show()
                shown = True
            entries.hold(error, traceback)
    except Exception as failure:
        _say(f"cannot hold {type(error).__name__}: {describe.exception_text(failure)}")
    return shown


def _save(error: BaseException, traceback: TracebackType, ends: bool) -> None:
    try:
        from rankdbg.agent import saving

        saving.save(_directory, error, traceback, ends)
    except Exception as failure:  # no such directory, no room, a repr() that misbehaves
        _say(f"cannot save {type(error).__name__}: {describe.exception_text(failure)}")


def _is_failure(error: BaseException) -> bool:
    ends = (SystemExit, KeyboardInterrupt, GeneratorExit)
    return not isinstance(error, ends) and type(error).__name__ != "BdbQuit"


def _is_launcher() -> bool:
    """torchrun fails because a rank has; and everybody would have to be let go twice."""
    is_child = "multiprocessing" in card.make()["labels"]
    return bool(identity.known_kind(sys.orig_argv)) and not is_child


# --- the main thread ----------------------------------------------------------------------


class _MainThreadsEnd(str):
    """A key in a dictionary whose get() is the audit hook.

    Python calls an audit hook for a great many events (each id(), each open()). get() is
    written in C, and looks at this key only if the event's hash is the same: the others
    cost no Python frame, which torch.compile or a tracer would see.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, event: object) -> bool:
        if str.__eq__(self, event) and _main_thread_ends():
            raise _AlreadyShown
        return False


class _AlreadyShown(RuntimeError):
    """From an audit hook, a RuntimeError means that sys.excepthook shall not be called."""


_last: BaseException | None = None


def _main_thread_ends() -> bool:
    global _last
    error = getattr(sys, "last_value", None)
    interactive = sys.flags.interactive or hasattr(sys, "ps1")
    if error is None or error is _last or interactive:
        return False
    _last = error
    hook = sys.excepthook

    def show() -> None:
        hook(type(error), error, error.__traceback__)

    return meet(error, error.__traceback__, show if _only_prints(hook) else None)


def _only_prints(hook: Any) -> bool:
    """Python's own hook and torch's, which adds the rank. Any other may end the job, as
    those of MPI programs do, and is called when the thread has been let go."""
    return hook is sys.__excepthook__ or str(getattr(hook, "__module__", "")).startswith("torch.")


# --- other threads and processes ----------------------------------------------------------


def _watch_threads(threading: Any) -> None:
    make = threading._make_invoke_excepthook

    def make_invoke_excepthook() -> Any:
        invoke = make()

        def invoke_excepthook(thread: Any) -> None:
            error = sys.exc_info()[1]
            prints = threading.excepthook is threading.__excepthook__
            show = (lambda: invoke(thread)) if prints else None
            if error is None or not meet(error, error.__traceback__, show, ends=False):
                invoke(thread)

        return invoke_excepthook

    threading._make_invoke_excepthook = make_invoke_excepthook


def _watch_processes(module: Any) -> None:
    bootstrap = module.BaseProcess._bootstrap

    def _bootstrap(process: Any, *arguments: Any, **named: Any) -> Any:
        run = process.run

        def run_and_meet() -> None:
            try:
                run()
            except BaseException as error:
                if meet_and_show(error, error.__traceback__ and error.__traceback__.tb_next):
                    raise SystemExit(1) from None  # what an exception is turned into as well
                raise

        def meet_and_show(error: BaseException, inner: TracebackType | None) -> bool:
            return meet(error, inner, lambda: _print_as_multiprocessing(process, error, inner))

        process.run = run_and_meet
        return bootstrap(process, *arguments, **named)

    module.BaseProcess._bootstrap = _bootstrap


def _print_as_multiprocessing(process: Any, error: BaseException, inner: Any) -> None:
    import traceback

    sys.stderr.write(f"Process {process.name}:\n")
    traceback.print_exception(type(error), error, inner)
    sys.stderr.flush()


def _watch_pool(module: Any) -> None:
    _watch_envelope(module.ExceptionWithTraceback)


def _watch_executor(module: Any) -> None:
    _watch_envelope(module._ExceptionWithTraceback)


def _watch_envelope(envelope: Any) -> None:
    """In which a worker sends an exception to the parent: the frames stay behind."""
    initialise = envelope.__init__

    def __init__(self: Any, error: BaseException, traceback: Any) -> None:  # noqa: N807
        meet(error, traceback, ends=False)
        initialise(self, error, traceback)

    envelope.__init__ = __init__


def _watch_torch_spawn(module: Any) -> None:
    wrap = module._wrap

    def _wrap(function: Any, *arguments: Any) -> None:
        def call_and_meet(*inner_arguments: Any) -> None:
            try:
                function(*inner_arguments)
            except Exception as error:
                meet(error, error.__traceback__ and error.__traceback__.tb_next)
                raise

        wrap(call_and_meet, *arguments)

    # Children find it by these names.
    _wrap.__module__, _wrap.__qualname__ = wrap.__module__, wrap.__qualname__
    module._wrap = _wrap


def _say(line: str) -> None:
    from rankdbg import agent

    agent._say(line)
