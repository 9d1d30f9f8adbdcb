"""The gradients of a program that trains meanwhile.

A backward pass stores gradients without the GIL. A thread that reads `.grad` during one may get a
tensor that is freed while it looks at it, and the process dies (torch 2.13 on the CPU: once in some
fifty reads of two small ranks on a busy machine). So they are read while no thread is in a backward
pass, and no thread can enter one.
"""

from __future__ import annotations

import sys
import time
from _operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECONDS = 2.0  # for a backward pass to end; one that waits for another rank may never do so
_PAUSE = 0.001
# Seconds for which no other thread can demand the GIL. On a busy machine this one may get no processor
# for a part of a second while it has the GIL: with 0.05 ranks still died.
_SWITCH = 5.0
_BACKWARD = "_engine_run_backward"  # of torch.autograd.graph: all passes go through it


def read(parameters: list[Any], seconds: float = SECONDS) -> list[Any] | None:
    """Of each parameter, or None where it has none. None alone: a backward pass went on all the time."""
    deadline = time.monotonic() + seconds
    usual = sys.getswitchinterval()
    sys.setswitchinterval(max(usual, _SWITCH))
    try:
        while True:
            # Threads that wait for the GIL get it here. Afterwards they wait for the new interval.
            time.sleep(_PAUSE)
            if not _is_running():
                return [*map(attrgetter("grad"), parameters)]
            if time.monotonic() > deadline:
                return None
    finally:
        sys.setswitchinterval(usual)


def _is_running() -> bool:
    for frame in sys._current_frames().values():
        above: Any = frame
        while above is not None:
            if above.f_code.co_name == _BACKWARD:
                return True
            above = above.f_back
    return False
