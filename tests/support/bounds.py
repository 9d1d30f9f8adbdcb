"""Bounds on one call: processor time and memory, however the code under it treats exceptions."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 10.0  # of processor time
MEMORY = 1 << 30  # of address space, beyond what the process has
GROWTH = 512 << 20  # of resident memory


class TooSlow(BaseException):
    """Not an Exception: a reader that survives everything must not survive this."""


@contextmanager
def bounded() -> Iterator[None]:
    """In the main thread. Raises AssertionError for what takes more."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft_before = resource.getrlimit(resource.RLIMIT_AS)[0]
    most_before = _most_resident()
    handler = signal.signal(signal.SIGPROF, _interrupt)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    except TooSlow as slow:
        raise AssertionError(f"more than {SECONDS:g} s of processor time, at {slow}") from slow
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft_before, hard))
    grown = _most_resident() - most_before
    assert grown < GROWTH, f"{grown >> 20} MiB of memory for one input"


def _interrupt(_: int, frame: FrameType | None) -> None:
    raise TooSlow(f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "")


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _most_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
