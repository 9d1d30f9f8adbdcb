"""Threads of the agent's own, and which of the program's is the main one."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _original_thread_module() -> Any:
    """`_thread` as the interpreter made it.

    gevent and eventlet replace its functions by ones that start greenlets; a greenlet
    that blocks in accept() would block the whole program. A built-in module can be made
    a second time, and comes out as new.
    """
    importer = sys.modules["_frozen_importlib"].BuiltinImporter
    spec = importer.find_spec("_thread")
    module = importer.create_module(spec)
    importer.exec_module(module)
    return module


_thread = _original_thread_module()
new_lock = _thread.allocate_lock
get_ident = _thread.get_ident

_own: set[int] = set()
_main = 0


def start(work: Callable[..., None], *arguments: Any) -> None:
    """Run it in a thread that the program's threading module does not know about."""
    _thread.start_new_thread(_run, (work, arguments))


def _run(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    ident = get_ident()
    _own.add(ident)
    try:
        work(*arguments)
    except SystemExit:  # an interrupted evaluation
        pass
    finally:
        _own.discard(ident)


def is_own(ident: int) -> bool:
    return ident in _own


def remember_main_thread() -> None:
    """Called where the agent starts. After a fork only the thread that forked is there,
    whatever threads the parent had."""
    global _main
    _own.clear()
    _main = get_ident()


def main_thread() -> int:
    threading = sys.modules.get("threading")
    main = getattr(threading, "_main_thread", None)
    return getattr(main, "ident", None) or _main


def permit_tracing() -> None:
    """Let the user's own probes (py-spy, gdb) look at this process under Yama.

    With ptrace_scope=1, Ubuntu's default, only a parent may look at a process, unless
    that process permits it; a rank that hangs can no longer be asked to.
    """
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            restricted = file.read().strip() == b"1"
    except OSError:
        return
    if restricted:
        set_ptracer_any()


def set_ptracer_any() -> int:
    """prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY). The C half of ctypes is enough for it."""
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        return int(_ctypes.call_function(prctl, (0x59616D61, -1)))
    except (ImportError, AttributeError, OSError):
        return -1
