"""An editor in this rank: debugpy's debugger speaks DAP on the agent's own connection.

There is no adapter process and no port: the connection on which the question came is given to the
debugger, so only clients that the agent admits get here. When it ends, for whatever reason,
stopped threads continue and tracing is turned off.

Imported when an editor attaches to this rank, not before. `pydevd` is the debugger inside debugpy.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from rankdbg.agent import active, announcing, threads
from rankdbg.agent.editor import (
    breakpoint_conditions,
    breakpoint_gates,
    debugger_requests,
    debugpy_loading,
    editor_stops,
    thread_events,
    thread_tracing,
)

# What is used of pydevd. None of it is a public API, so it is checked before it is used.
_NEEDED = {
    "pydevd": ("settrace", "stoptrace", "start_client", "PyDB", "PyDevdAPI"),
    "pydevd_tracing": ("set_trace_to_threads", "restore_sys_set_trace_func"),
    "_pydevd_bundle.pydevd_constants": ("get_global_debugger", "set_global_debugger"),
}
_END_SECONDS = 2.0
# For the previous session to be turned off. Less than a client waits.
_OFF_SECONDS = 20.0

_one_at_a_time = threads.new_lock()
_attached = False
_connections: list[Any] = []  # the editor's, while it is attached


class Unavailable(Exception):
    """Why no editor can attach to this process."""


def _paused() -> str:
    """Whether a thread is stopped in the editor: a label of the card."""
    return "in an editor" if _attached and editor_stops.stopped() else ""


# --- for the agent's connection -----------------------------------------------------------------


def converse(connection: Any, message: dict[str, Any], send: Any) -> None:
    """Answer the question for a debugger. If there is one, give it the connection until the
    client closes it."""

    def answer(state: str, **more: Any) -> None:
        send(connection, {"id": message.get("id"), "answer": {"state": state, **more}})

    if not _one_at_a_time.acquire(timeout=0.0 if _is_taken() else _OFF_SECONDS):
        answer("taken")
        return
    try:
        with threads.AtWork():
            version = _load(str(message.get("path") or ""))
    except ImportError as error:
        _one_at_a_time.release()
        answer("missing", why=str(error))
        return
    except Exception as error:
        _one_at_a_time.release()
        answer("refused", why=str(error) or repr(error))
        return
    try:
        _begin(connection, bool(message.get("together")))
        _connections.append(connection)
        _show_tensors(bool(message.get("tensor_summary", True)))
        # The client sends nothing to the debugger before this answer, so every breakpoint that
        # the debugger accepts takes effect.
        answer("ready", debugpy=version)
        _wait_until_closed(connection)
    finally:
        _connections.clear()
        _end()
        _one_at_a_time.release()


def load_ahead() -> None:
    """Load debugpy, so that the first session in this rank starts faster. A failure is reported
    when an editor attaches."""
    if not _one_at_a_time.acquire(timeout=0.0):
        return
    try:
        with threads.AtWork():
            _load("")
    except Exception:
        pass
    finally:
        _one_at_a_time.release()


def _is_taken() -> bool:
    """Whether an editor is attached and has not disconnected."""
    return _attached and not any(_has_hung_up(each) for each in list(_connections))


def _has_hung_up(connection: Any, milliseconds: int = 0) -> bool:
    """Without reading: the data is for the debugger."""
    import select

    poll = select.poll()
    try:
        poll.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        return bool(poll.poll(milliseconds))
    except (OSError, ValueError):  # closed on this side
        return True


def _load(path: str) -> str:
    debugpy_loading.load(path)
    version = str(getattr(sys.modules["debugpy"], "__version__", "of unknown version"))
    for module, names in _NEEDED.items():
        missing = [name for name in names if not hasattr(sys.modules.get(module), name)]
        if missing:
            raise Unavailable(f"debugpy {version} has no {', '.join(missing)} in its {module}")
    if editor_stops.current() is not None:
        raise Unavailable("another debugger (debugpy, PyCharm) is attached to this process")
    return version


# --- on -----------------------------------------------------------------------------------------


def _begin(connection: Any, together: bool) -> None:
    pydevd: Any = sys.modules["pydevd"]
    _correct_main_thread()
    _OwnThreads.begin_all()
    package = os.path.abspath(__file__).rpartition("agent")[0]
    own = (os.path.dirname(sys.modules["debugpy"].__file__ or ""), package)
    dial, pydevd.start_client = pydevd.start_client, lambda host, port: connection
    try:
        pydevd.settrace(
            host="rankdbg",
            port=0,
            suspend=False,
            wait_for_ready_to_run=False,
            block_until_connected=True,
            patch_multiprocessing=False,
            notify_stdin=False,
            dont_trace_start_patterns=own,
        )
    finally:
        pydevd.start_client = dial
    _set_attached(True)
    debugger = editor_stops.current()
    thread_events.begin(debugger)
    breakpoint_conditions.begin(debugger)
    breakpoint_gates.begin(debugger, together)
    debugger.add_dap_messages_listener(editor_stops.EditorMessages())
    debugger_requests.begin(debugger)
    thread_tracing.begin()


def _set_attached(attached: bool) -> None:
    global _attached
    _attached = attached
    active.editor = editor_stops if attached else None
    announcing.changed()


def _show_tensors(wanted: bool) -> None:
    """A failure is ignored: an editor works without it."""
    from rankdbg.agent.editor import tensors

    try:
        tensors.begin() if wanted else tensors.end()
    except (ImportError, AttributeError):  # another version of debugpy
        pass


def _correct_main_thread() -> None:
    """threading takes the thread that first imports it for the main thread. In a program that
    does not use threading, that was a thread of the agent."""
    main: Any = threading.main_thread()
    real = threads.main_thread_by_start()
    if real in (0, main.ident):
        return
    active: dict[int, Any] = threading._active  # type: ignore[attr-defined]
    active.pop(main.ident, None)
    main._ident = real
    active[real] = main
    if hasattr(main, "_tstate_lock"):  # until 3.12: released at the end of the program
        main._tstate_lock = threads.new_lock()
        main._tstate_lock.acquire()


def _wait_until_closed(connection: Any) -> None:
    while not _has_hung_up(connection, 1000):
        if editor_stops.current() is None:  # the debugger has disconnected itself
            return


class _OwnThreads:
    """Makes the debugger skip the agent's threads: else a stop, which stops all threads, would
    stop these too."""

    @classmethod
    def begin_all(cls) -> None:
        threads.watcher = cls
        for ident in list(threads.own):
            cls.begin(ident)

    @classmethod
    def begin(cls, ident: int) -> None:
        threading._active[ident] = _OwnThread(ident)  # type: ignore[attr-defined]

    @classmethod
    def end(cls, ident: int) -> None:
        active: dict[int, Any] = threading._active  # type: ignore[attr-defined]
        if isinstance(active.get(ident), _OwnThread):
            del active[ident]

    @classmethod
    def end_all(cls) -> None:
        threads.watcher = None
        table: Any = threading._active  # type: ignore[attr-defined]
        for ident in [ident for ident, each in list(table.items()) if type(each) is _OwnThread]:
            cls.end(ident)


class _OwnThread(threading.Thread):
    """An entry in threading's table, marked as the debugger's own threads are."""

    is_pydev_daemon_thread = pydev_do_not_trace = True

    def __init__(self, ident: int) -> None:
        super().__init__(name="rankdbg", daemon=True)
        self._ident = ident

    def is_alive(self) -> bool:
        return True

    def join(self, timeout: float | None = None) -> None:
        pass

    # threading calls these in a forked child.
    def _reset_internal_locks(self, is_alive: bool) -> None:
        pass

    def _stop(self) -> None:
        pass

    def _after_fork(self, new_ident: int | None = None) -> None:
        pass


# --- off ----------------------------------------------------------------------------------------


def _end() -> None:
    """Leave no trace of the editor."""
    _set_attached(False)
    pydevd: Any = sys.modules["pydevd"]
    current = editor_stops.current()
    try:
        if current is not None:
            pydevd.PyDevdAPI().request_disconnect(current, resume_threads=True)
            thread_events.wake_all(current)
            _wait_until_all_run()
        pydevd.stoptrace()
        _wait_until_disposed()
        thread_tracing.end()
        _restore_streams()
    finally:
        _OwnThreads.end_all()


def _wait_until_all_run() -> None:
    """A thread that is stopped in the debugger continues within a tenth of a second."""
    for _ in range(int(_END_SECONDS / 0.005)):
        if not editor_stops.stopped():
            return
        threads.pause(0.005)


def _wait_until_disposed() -> None:
    """The debugger's own thread disposes it too, when it sees that the connection is closed."""
    for _ in range(int(_END_SECONDS / 0.005)):
        if editor_stops.current() is None:
            return
        threads.pause(0.005)
    sys.modules["_pydevd_bundle.pydevd_constants"].set_global_debugger(None)


def _restore_streams() -> None:
    """VS Code makes the debugger copy what the program prints."""
    streams: Any = sys.modules.get("_pydevd_bundle.pydevd_io")
    stop: Any = getattr(streams, "stop_redirect_stream_to_pydb_io_messages", lambda name: None)
    for name in ("stdout", "stderr"):
        stop(name)


def _after_fork() -> None:
    """The child has the parent's debugger, but none of its threads: a breakpoint would hang."""
    global _one_at_a_time
    _one_at_a_time = threads.new_lock()
    if not _attached:
        return
    _set_attached(False)
    sys.modules["_pydevd_bundle.pydevd_constants"].set_global_debugger(None)
    pydevd: Any = sys.modules["pydevd"]
    pydevd.stoptrace()
    thread_tracing.clear(sys._getframe(1))
    _restore_streams()


active.paused_by.append(_paused)
active.after_fork.append(_after_fork)
