"""An editor in this rank: debugpy's debugger speaks DAP on the agent's own connection.

There is no adapter process and no port: the connection that brought the question becomes the
debugger's, and only who may ask the agent gets here. When it ends, however that happens,
stopped threads go on and nothing is traced any more.

Imported when an editor opens this rank, not before; `pydevd` is what debugpy carries inside.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from rankdbg.agent import dap_loading, dap_stops, dap_tracing, threads

# What is used of pydevd, none of which is promised to anybody: looked for before it is used.
_NEEDED = {
    "pydevd": ("settrace", "stoptrace", "start_client", "PyDB", "PyDevdAPI"),
    "pydevd_tracing": ("set_trace_to_threads", "restore_sys_set_trace_func"),
    "_pydevd_bundle.pydevd_constants": ("get_global_debugger", "set_global_debugger"),
}
_END_SECONDS = 2.0
# Until the one before has been switched off. Less than a client waits.
_OFF_SECONDS = 20.0

_one_at_a_time = threads.new_lock()
_here = False  # whether an editor is in this process


class Unavailable(Exception):
    """Why no editor can look into this process."""


def attached() -> bool:
    return _here


def paused() -> bool:
    """Whether a thread stands in the editor."""
    return _here and bool(dap_stops.standing())


# --- for the agent's connection -----------------------------------------------------------------


def converse(connection: Any, message: dict[str, Any], send: Any) -> None:
    """Answer the question for a debugger; if there is one, let it have the connection until
    the other side closes it."""

    def answer(state: str, **more: Any) -> None:
        send(connection, {"id": message.get("id"), "answer": {"state": state, **more}})

    if not _one_at_a_time.acquire(timeout=0.0 if _here else _OFF_SECONDS):
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
        _begin(connection)
        _show_tensors(bool(message.get("tensor_summary", True)))
        # Nothing is said to the debugger before this: a breakpoint that it has accepted holds.
        answer("ready", debugpy=version)
        _wait_until_closed(connection)
    finally:
        _end()
        _one_at_a_time.release()


def _load(path: str) -> str:
    dap_loading.load(path)
    version = str(getattr(sys.modules["debugpy"], "__version__", "of unknown version"))
    for module, names in _NEEDED.items():
        missing = [name for name in names if not hasattr(sys.modules.get(module), name)]
        if missing:
            raise Unavailable(f"debugpy {version} has no {', '.join(missing)} in its {module}")
    if dap_stops.current() is not None:
        raise Unavailable("another debugger (debugpy, PyCharm) is in this process already")
    return version


# --- on -----------------------------------------------------------------------------------------


def _begin(connection: Any) -> None:
    global _here
    pydevd: Any = sys.modules["pydevd"]
    _right_main_thread()
    _OwnThreads.begin_all()
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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
    _here = True
    dap_stops.current().add_dap_messages_listener(dap_stops.Watch())
    dap_tracing.begin()


def _show_tensors(wanted: bool) -> None:
    """Nothing that an editor cannot do without."""
    from rankdbg.agent import dap_tensors

    try:
        dap_tensors.begin() if wanted else dap_tensors.end()
    except (ImportError, AttributeError):  # another debugpy, which keeps these things elsewhere
        pass


def _right_main_thread() -> None:
    """threading takes the thread that imports it first for the main one, and in a program
    that has no use for it that was ours."""
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
    """Without reading: that is the debugger's."""
    import select

    poll = select.poll()
    poll.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    while not poll.poll(1000):
        if dap_stops.current() is None:  # it has hung up itself
            return


class _OwnThreads:
    """What makes the debugger pass over the agent's threads: else a stop, which stops all
    threads, would stop these too."""

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
    """An entry in threading's table, as the debugger's own threads have one."""

    is_pydev_daemon_thread = pydev_do_not_trace = True

    def __init__(self, ident: int) -> None:
        super().__init__(name="rankdbg", daemon=True)
        self._ident = ident

    def is_alive(self) -> bool:
        return True

    def join(self, timeout: float | None = None) -> None:
        pass

    # What threading does with the threads that a forked child does not have.
    def _reset_internal_locks(self, is_alive: bool) -> None:
        pass

    def _stop(self) -> None:
        pass

    def _after_fork(self, new_ident: int | None = None) -> None:
        pass


# --- off ----------------------------------------------------------------------------------------


def _end() -> None:
    """As if there had been no editor."""
    global _here
    _here = False
    pydevd: Any = sys.modules["pydevd"]
    current = dap_stops.current()
    try:
        if current is not None:
            pydevd.PyDevdAPI().request_disconnect(current, resume_threads=True)
            _wait_until_all_run()
        pydevd.stoptrace()
        _wait_until_disposed()
        dap_tracing.end()
        _give_streams_back()
    finally:
        _OwnThreads.end_all()


def _wait_until_all_run() -> None:
    """A thread that stands in the debugger leaves it within a tenth of a second."""
    for _ in range(int(_END_SECONDS / 0.005)):
        if not dap_stops.standing():
            return
        threads.pause(0.005)


def _wait_until_disposed() -> None:
    """The debugger's own thread does it too, when it sees that the connection is closed."""
    for _ in range(int(_END_SECONDS / 0.005)):
        if dap_stops.current() is None:
            return
        threads.pause(0.005)
    sys.modules["_pydevd_bundle.pydevd_constants"].set_global_debugger(None)


def _give_streams_back() -> None:
    """VS Code has the debugger copy what the program prints."""
    streams: Any = sys.modules.get("_pydevd_bundle.pydevd_io")
    stop: Any = getattr(streams, "stop_redirect_stream_to_pydb_io_messages", lambda name: None)
    for name in ("stdout", "stderr"):
        stop(name)


def after_fork() -> None:
    """The child has the parent's debugger, but none of its threads: a breakpoint there would
    hold it for ever."""
    global _here, _one_at_a_time
    _one_at_a_time = threads.new_lock()
    if not _here:
        return
    _here = False
    sys.modules["_pydevd_bundle.pydevd_constants"].set_global_debugger(None)
    pydevd: Any = sys.modules["pydevd"]
    pydevd.stoptrace()
    dap_tracing.clear(sys._getframe(1))
    _give_streams_back()
