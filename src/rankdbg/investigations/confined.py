"""Processing of untrusted files in a child process with limited memory and time, which is killed
if it exceeds them.

CPython's unpickler, for example, checks neither a clock nor signals, and nine bytes make it
allocate gigabytes.
"""

from __future__ import annotations

import marshal
import math
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

_PIECE = 1 << 20
# The limit is of processor time. By the clock it may take so many times as long: the machine may
# be busy, the file on a slow disk.
_SLOWER = 4


class ConfinedFailed(Exception):
    """Why there is no result: raised by `work`, or it was killed."""


def confined(work: Callable[[], Any], seconds: float, memory: int) -> Any:
    """Run `work`, which returns plain values, in a child with `memory` bytes more than this
    process and `seconds` of processor time. Raises ConfinedFailed, with its text if `work` does."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _work(work, write, seconds, memory)
    os.close(write)
    try:
        result = _read_all(read, seconds * _SLOWER)
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if result is None:
        raise ConfinedFailed(f"it could not be read within {seconds * _SLOWER:.0f} s")
    if not result:
        raise ConfinedFailed(_ending(status, seconds))
    done, value = marshal.loads(result)
    if not done:
        raise ConfinedFailed(value)
    return value


def _work(work: Callable[[], Any], write: int, seconds: float, memory: int) -> NoReturn:
    """Runs in the child and never returns."""
    try:
        _limit(seconds, memory)
        _silence()
        try:
            result = True, work()
        except ConfinedFailed as refused:
            result = False, str(refused)
        except MemoryError:
            most = f"{memory >> 20} MiB"
            result = False, f"refused: reading it needs more than {most}, too much for its size"
        with open(write, "wb") as file:
            marshal.dump(result, file)
    finally:
        os._exit(1)


def _silence() -> None:
    """CPython prints a line where an unpickler runs out of memory in the middle of a bytearray."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)


def _limit(seconds: float, memory: int) -> None:
    with open("/proc/self/statm", "rb") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + memory
    for kind, limit in (
        (resource.RLIMIT_AS, most),
        (resource.RLIMIT_CPU, math.ceil(seconds)),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def _read_all(descriptor: int, seconds: float) -> bytes | None:
    """Empty if the child has ended without a result; None if it is late."""
    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        part = os.read(descriptor, _PIECE)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _ending(status: int, seconds: float) -> str:
    if os.WIFEXITED(status):
        return "the process that read it has failed"
    if os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU):
        return f"it could not be read within {seconds:.0f} s of processor time"
    return f"it killed the process that read it ({signal.Signals(os.WTERMSIG(status)).name})"
