"""The agent's own threads, and the main thread of the program."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

from rankdbg.agent import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


def _original_thread_module() -> Any:
    """`_thread` as the interpreter made it.

    gevent and eventlet replace its functions by ones that start greenlets. A greenlet that blocks
    in accept() would block the whole program. A built-in module can be created a second time,
    and then has its original functions.
    """
    importer = sys.modules["_frozen_importlib"].BuiltinImporter
    spec = importer.find_spec("_thread")
    module = importer.create_module(spec)
    importer.exec_module(module)
    return module


_thread = _original_thread_module()
new_lock = _thread.allocate_lock
get_ident = _thread.get_ident

# All signals except those of a thread's own faults, which faulthandler has to see.
_SIGNALS = _signal.valid_signals() - {
    _signal.SIGSEGV,
    _signal.SIGBUS,
    _signal.SIGFPE,
    _signal.SIGILL,
    _signal.SIGABRT,
}

# The identifiers of the agent's threads. The watcher is called when one begins or ends: a
# debugger that stops all threads must skip these.
own: set[int] = set()
watcher: Any = None

_running = 0
_busy = 0
_ending = False
_main = 0


class Late(Exception):
    """A call has exceeded its time. `ended`: whether it could be interrupted."""

    def __init__(self, ended: bool) -> None:
        super().__init__(ended)
        self.ended = ended


class _Interrupted(SystemExit):
    """Raised inside a call that has exceeded its time. (A thread that ends with SystemExit prints
    no traceback.)"""


def start(work: Callable[..., None], *arguments: Any) -> None:
    """Run it in a thread that the program's threading module does not know about.

    The thread blocks all signals. Else a signal that the program blocks, to wait for it with
    sigwait() or a signalfd, would be delivered to the agent's thread; and SIGPIPE, when a client
    disconnects, would kill a program that has set it to its default.
    """
    global _running
    if _ending:
        raise RuntimeError("the program exits")
    begun = new_lock()
    begun.acquire()
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _SIGNALS)
    try:
        _thread.start_new_thread(_run, (begun, work, arguments))
        _running += 1
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    # Python 3.10 can crash when it exits before a new thread has begun.
    begun.acquire(timeout=1.0)


def _run(begun: Any, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    global _running
    ident = get_ident()
    own.add(ident)
    begun.release()
    try:
        if watcher is not None:
            watcher.begin(ident)
        work(*arguments)
    except (Exception, SystemExit):  # Python would write it to the program's stderr
        pass
    finally:
        _running -= 1
        own.discard(ident)
        if watcher is not None:
            watcher.end(ident)
        if _ending:
            _stay()


class AtWork:
    """A context in which a thread of the agent executes Python. When the program exits, it waits
    for these threads, and no thread enters the context any more: a thread that runs while the
    interpreter shuts down can crash it (measured: Python 3.10, one exit of three)."""

    def __enter__(self) -> None:
        global _busy
        _busy += 1
        if _ending:
            _busy -= 1
            _stay()

    def __exit__(self, *_: object) -> None:
        global _busy
        _busy -= 1


def wind_up(seconds: float) -> None:
    """The program exits: let threads at work finish, for this long, and let none begin."""
    global _ending
    _ending = True
    for _ in range(int(seconds / 0.005)):
        if _busy <= 0:
            break
        pause(0.005)
    if _running > 1:  # not only the one that listens
        pause(0.02)  # a thread that has just ended is in the interpreter a moment longer


def ending() -> bool:
    return _ending


def _stay() -> None:
    """Block without end, outside of the interpreter."""
    never = new_lock()
    never.acquire()
    never.acquire()


def within(seconds: float, work: Callable[..., Any], *arguments: Any) -> Any:
    """What work(*arguments) returns; raises Late. It runs in a thread of its own: a call that
    never returns must not block the agent."""
    done = new_lock()
    done.acquire()
    outcome: dict[str, Any] = {}

    def call() -> None:
        outcome["thread"] = _thread.get_ident()
        try:
            if "late" not in outcome:  # else the thread got no processor in time
                outcome["value"] = work(*arguments)
        except _Interrupted:
            pass  # keeping the exception would keep its frames and their variables alive
        except BaseException as error:
            outcome["error"] = error
        finally:
            done.release()

    start(call)
    if not done.acquire(timeout=seconds):
        outcome["late"] = True
        # This interrupts a loop in Python, not one in C.
        native.raise_in_thread(outcome.get("thread", 0), _Interrupted)
        raise Late(ended=done.acquire(timeout=0.1))
    if "error" in outcome:
        raise outcome.pop("error")
    return outcome["value"]


def pause(seconds: float) -> None:
    """time.sleep(), which gevent replaces."""
    never = new_lock()
    never.acquire()
    never.acquire(timeout=seconds)


def call_in_main(work: Callable[[], None], seconds: float) -> bool:
    """Make the main thread call it as soon as that executes Python again. Returns whether it did
    within this time. Before Python 3.12 a signal would be the only other way."""
    call = _Call(work)
    _calls[:] = [earlier for earlier in _calls if earlier.done.locked()]
    _calls.append(call)
    if not native.ask_truth_in_main(call):
        _calls.remove(call)
        return False
    done = bool(call.done.acquire(timeout=seconds))
    if done:
        call.done.release()
    return done


class _Call:
    """A call that the main thread makes when it evaluates the truth of this object."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.done = new_lock()
        self.done.acquire()

    def __bool__(self) -> bool:
        try:
            self._work()
        finally:
            self.done.release()
        return False


_calls: list[_Call] = []


def living() -> set[int]:
    """The identifiers of all threads that execute Python. (Not their frames: a function that
    keeps those in a variable keeps its own frame, and so all of them alive.)"""
    return set(sys._current_frames())


def running() -> int:
    """The number of threads of the agent."""
    return _running


def is_own(outermost: FrameType) -> bool:
    """Whether a thread is the agent's, by the frame in which it began."""
    return outermost.f_code is _run.__code__


def start_over() -> None:
    """Called at the agent's start. After a fork only the thread that forked exists."""
    global _running, _busy, _ending, _main, watcher
    _running = _busy = 0
    watcher = None
    own.clear()
    _ending = False
    # threading takes the thread that imports it first for the main one, and gevent returns a
    # greenlet. (On Linux the main thread's native id is the pid.)
    _main = _thread.get_ident() if _thread.get_native_id() == os.getpid() else 0


def main_thread_by_start() -> int:
    """Its identifier, if the agent was started in the main thread; else 0."""
    return _main


def main_thread() -> int:
    main = getattr(sys.modules.get("threading"), "_main_thread", None)
    return _main or getattr(main, "ident", None) or 0


def permit_tracing() -> None:
    """Let the user's own probes (py-spy, gdb) attach to this process under Yama.

    With ptrace_scope=1, Ubuntu's default, only a parent may attach to a process, unless that
    process permits it. A rank that hangs can no longer do so, so it is done at the start.
    """
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            restricted = file.read().strip() == b"1"
    except OSError:
        return
    if restricted:
        native.set_ptracer_any()
