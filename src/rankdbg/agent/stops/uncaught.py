"""Uncaught exceptions: save a snapshot, and hold the thread until a client continues it.

    the main thread        Python's audit event "sys.excepthook"
    other threads          the function with which threading makes each thread's handler
    multiprocessing        Process.run(), which Process._bootstrap() calls
    pools, torch's spawn   the code that sends what their workers raise to the parent
    Ray, Monarch           the code that catches what tasks and endpoints raise: frameworks/

None of these is a hook that the program sets for itself (sys.excepthook, threading.excepthook):
the program's hooks are called as before, and cannot replace ours. torch's init_process_group()
sets sys.excepthook, and so do some MPI programs, to abort the job.

Imported only where RANKDBG_BREAK or RANKDBG_SAVE_ON_ERROR is set, and after the first stop in a
process.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import active, card, describe, imports, messages, stacks
from rankdbg.agent.stops import entries
from rankdbg.process import identity
from rankdbg.process.user_code import is_standard_library

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
    if _installed:  # the child of a fork inherits the hooks
        return
    _installed = True
    active.handle_uncaught, active.holds_uncaught = handle_uncaught, _is_holding
    active.after_fork.append(_after_fork)
    wanted = os.environ.get("RANKDBG_BREAK", "")
    _holds = wanted == "error"
    if wanted and not _holds:
        messages.write(f"invalid RANKDBG_BREAK={wanted}: expected error")
    if os.environ.get("RANKDBG_SAVE_ON_ERROR"):
        _directory = os.path.abspath(os.environ["RANKDBG_SAVE_ON_ERROR"])
        os.environ["RANKDBG_SAVE_ON_ERROR"] = _directory  # for children, after a chdir
    sys.addaudithook({_ExcepthookEvent("sys.excepthook"): None}.get)  # type: ignore[arg-type]
    imports.when_imported("threading", _watch_threads)
    imports.when_imported("multiprocessing.process", _watch_processes)
    imports.when_imported("multiprocessing.pool", _watch_pool)
    imports.when_imported("concurrent.futures.process", _watch_executor)
    imports.when_imported("torch.multiprocessing.spawn", _watch_torch_spawn)


def hold_from_now_on() -> None:
    """A thread of this process has stopped. Exceptions of threads that already run are held too,
    and those of the function that a process of multiprocessing runs."""
    global _holds
    if _holds:
        return
    was_installed = _installed
    install()
    _holds = True
    if not was_installed:
        _watch_running_threads()
        _watch_this_process()


def _after_fork() -> None:
    """The child has not been stopped: hold its exceptions only if the user asked for that."""
    global _holds
    _holds = os.environ.get("RANKDBG_BREAK", "") == "error"


def _is_holding() -> bool:
    return _holds


def handle_uncaught(
    error: BaseException,
    traceback: TracebackType | None,
    show: Callable[[], None] | None = None,
    ends: bool = True,
) -> bool:
    """Save the exception and hold the thread, as configured.

    `show` prints the traceback, before the hold; returns whether it was called. `ends`: the
    process ends with this exception, not only a thread or a task. Never raises: the program
    ends as it would have without the agent.
    """
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
        messages.write(f"cannot hold {type(error).__name__}: {describe.exception_text(failure)}")
    return shown


def _save(error: BaseException, traceback: TracebackType, ends: bool) -> None:
    try:
        from rankdbg.agent.stops import crash_snapshots

        crash_snapshots.save(_directory, error, traceback, ends)
    except Exception as failure:  # no such directory, no room, a repr() that misbehaves
        messages.write(f"cannot save {type(error).__name__}: {describe.exception_text(failure)}")


def _is_failure(error: BaseException) -> bool:
    ends = (SystemExit, KeyboardInterrupt, GeneratorExit)
    return not isinstance(error, ends) and type(error).__name__ != "BdbQuit"


def _is_launcher() -> bool:
    """torchrun fails because a rank has failed: to hold it too would need a second continue."""
    is_child = "multiprocessing" in card.make()["labels"]
    return bool(identity.known_kind(sys.orig_argv)) and not is_child


# --- the main thread ----------------------------------------------------------------------


class _ExcepthookEvent(str):
    """A key in a dictionary whose get() is the audit hook.

    Python calls an audit hook for very many events (each id(), each open()). get() is written
    in C, and compares this key only with events of the same hash. So other events execute no
    Python frame, which torch.compile or a tracer would see.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, event: object) -> bool:
        if str.__eq__(self, event) and _handle_in_main_thread():
            raise _AlreadyShown
        return False


class _AlreadyShown(RuntimeError):
    """A RuntimeError from this audit event makes Python skip sys.excepthook."""


_last: BaseException | None = None


def _handle_in_main_thread() -> bool:
    global _last
    error = getattr(sys, "last_value", None)
    interactive = sys.flags.interactive or hasattr(sys, "ps1")
    if error is None or error is _last or interactive:
        return False
    _last = error
    hook = sys.excepthook

    def show() -> None:
        hook(type(error), error, error.__traceback__)

    return handle_uncaught(error, error.__traceback__, show if _only_prints(hook) else None)


def _only_prints(hook: Any) -> bool:
    """True for Python's own hook and for torch's, which adds the rank. Any other may abort the
    job, as those of MPI programs do: it is called after the hold."""
    return hook is sys.__excepthook__ or str(getattr(hook, "__module__", "")).startswith("torch.")


# --- other threads and processes ----------------------------------------------------------


def _watch_threads(threading: Any) -> None:
    make = threading._make_invoke_excepthook

    def make_invoke_excepthook() -> Any:
        return _with_handler(make(), threading)

    threading._make_invoke_excepthook = make_invoke_excepthook


def _with_handler(invoke: Any, threading: Any) -> Any:
    """threading's handler of a thread's uncaught exception, with ours before it."""

    def invoke_excepthook(thread: Any) -> None:
        error = sys.exc_info()[1]
        prints = threading.excepthook is threading.__excepthook__
        show = (lambda: invoke(thread)) if prints else None
        if error is None or not handle_uncaught(error, error.__traceback__, show, ends=False):
            invoke(thread)

    return invoke_excepthook


def _watch_running_threads() -> None:
    """A thread gets its handler when it is created, so these have one without ours."""
    threading: Any = sys.modules.get("threading")
    for thread in list(getattr(threading, "_active", {}).values()):
        invoke = getattr(thread, "_invoke_excepthook", None)
        if invoke is not None:
            thread._invoke_excepthook = _with_handler(invoke, threading)


def _watch_this_process() -> None:
    """multiprocessing calls its exit function while the exception of the child propagates."""
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util is None or getattr(process, "_parent_process", None) is None:
        return
    leave = util._exit_function

    def _exit_function(*arguments: Any, **named: Any) -> Any:
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit) and _is_from_torch_spawn(error):
            error = error.__context__
        if error is not None:
            traceback = error.__traceback__
            below = stacks.frames_below(traceback, is_standard_library)
            handle_uncaught(error, below or traceback)
        return leave(*arguments, **named)

    util._exit_function = _exit_function


def _is_from_torch_spawn(error: SystemExit) -> bool:
    """torch's spawn has caught the exception, and sent its text to the parent."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    code = innermost.tb_frame.f_code if innermost is not None else None
    return code is not None and code.co_filename.endswith("torch/multiprocessing/spawn.py")


def _watch_processes(module: Any) -> None:
    bootstrap = module.BaseProcess._bootstrap

    def _bootstrap(process: Any, *arguments: Any, **named: Any) -> Any:
        run = process.run

        def run_and_handle() -> None:
            try:
                run()
            except BaseException as error:
                if handle(error, error.__traceback__ and error.__traceback__.tb_next):
                    raise SystemExit(1) from None  # the exit status that multiprocessing gives it
                raise

        def handle(error: BaseException, inner: TracebackType | None) -> bool:
            def show() -> None:
                _print_as_multiprocessing(process, error, inner)

            return handle_uncaught(error, inner, show)

        process.run = run_and_handle
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
    """A worker sends an exception to the parent in such an object, without its frames."""
    initialise = envelope.__init__

    def __init__(self: Any, error: BaseException, traceback: Any) -> None:  # noqa: N807
        handle_uncaught(error, traceback, ends=False)
        initialise(self, error, traceback)

    envelope.__init__ = __init__


def _watch_torch_spawn(module: Any) -> None:
    wrap = module._wrap

    def _wrap(function: Any, *arguments: Any) -> None:
        def call_and_handle(*inner_arguments: Any) -> None:
            try:
                function(*inner_arguments)
            except Exception as error:
                handle_uncaught(error, error.__traceback__ and error.__traceback__.tb_next)
                raise

        wrap(call_and_handle, *arguments)

    # Children unpickle it by these names.
    _wrap.__module__, _wrap.__qualname__ = wrap.__module__, wrap.__qualname__
    module._wrap = _wrap
