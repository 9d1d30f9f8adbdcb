"""cudaProfilerStart() and cudaProfilerStop(), from any thread.

Both apply to the current context of the calling thread. A thread of the agent has none: a start
would create one on GPU 0, whichever GPU the rank uses, and a stop would have no effect. So it uses
the context that the program has created.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RUNTIMES = ("libcudart.so", *(f"libcudart.so.{major}" for major in (13, 12, 11)))
_DRIVER = "libcuda.so.1"


def call(which: str, in_its_thread: bool = True) -> str:
    """`which`: Start or Stop. Returns why it could not be called, or ``. `in_its_thread`: the
    caller is a thread of the program, where CUDA may create a context."""
    try:
        import ctypes
    except ImportError:
        return "this Python has no ctypes"
    with _Context(ctypes) as context:
        if context.missing and not in_its_thread:
            return "it has not used a GPU yet"
        return _call(which, ctypes)


def is_used() -> bool:
    """Whether this process has loaded CUDA."""
    return bool(_loaded("/libcuda"))


def _call(which: str, ctypes: Any) -> str:
    """Not through torch, which holds the GIL during the call: with a GPU that hangs, without
    end."""
    for name in (*_loaded("/libcudart"), *_RUNTIMES, _DRIVER):
        prefix = "cuProfiler" if name == _DRIVER else "cudaProfiler"
        try:
            status = getattr(ctypes.CDLL(name), f"{prefix}{which}")()
        except (OSError, AttributeError):
            continue
        return f"{prefix}{which} failed with CUDA error {status}" if status else ""
    return "neither libcudart nor libcuda was found"


class _Context:
    """Makes the program's context current in this thread, if none is. `missing`: the program has
    created none."""

    def __init__(self, ctypes: Any) -> None:
        self._ctypes = ctypes
        self._driver: Any = None
        self._device = -1
        self.missing = not is_used()

    def __enter__(self) -> _Context:
        try:
            if _loaded("/libcuda.so"):
                self._driver = self._ctypes.CDLL(_DRIVER)
                self._borrow()
        except (OSError, AttributeError):  # a driver without these functions
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if self._device >= 0:
            self._driver.cuCtxSetCurrent(None)
            self._driver.cuDevicePrimaryCtxRelease_v2(self._device)

    def _borrow(self) -> None:
        c = self._ctypes
        context, count = c.c_void_p(), c.c_int()
        failed = self._driver.cuCtxGetCurrent(c.byref(context))
        if context.value and not failed:
            return
        self.missing = True
        if self._driver.cuDeviceGetCount(c.byref(count)):  # the driver is not initialised yet
            return
        for device in range(count.value):
            flags, active = c.c_uint(), c.c_int()
            self._driver.cuDevicePrimaryCtxGetState(device, c.byref(flags), c.byref(active))
            if active.value and not self._driver.cuDevicePrimaryCtxRetain(c.byref(context), device):
                self._driver.cuCtxSetCurrent(context)
                self._device, self.missing = device, False
                return


def _loaded(part: str) -> list[str]:
    """The libraries that this process has loaded: they are preferred to any other."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[-1].strip() for line in file if part in line}
        return sorted(path for path in paths if os.path.isabs(path))
    except OSError:
        return []
