"""agent/cuda_profiler: the context that a thread borrows. (Real ones: test_nsys_cuda.)"""

# ruff: noqa: N802  (CUDA's names)

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from rankdbg.agent.profilers import cuda_profiler


class Driver:
    """libcuda, and libcudart: two GPUs, of which the program uses the second."""

    def __init__(self, active: tuple[int, ...] = (1,)) -> None:
        self.active = active
        self.current: int | None = None
        self.told: list[str] = []

    def cuCtxGetCurrent(self, place: Any) -> int:
        place._obj.value = self.current
        return 0

    def cuDeviceGetCount(self, place: Any) -> int:
        place._obj.value = 2
        return 0

    def cuDevicePrimaryCtxGetState(self, device: int, flags: Any, place: Any) -> int:
        place._obj.value = device in self.active
        return 0

    def cuDevicePrimaryCtxRetain(self, place: Any, device: int) -> int:
        place._obj.value = 100 + device
        self.told.append(f"retain {device}")
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> int:
        self.told.append(f"release {device}")
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.current = context.value if context is not None else None
        return 0

    def cudaProfilerStop(self) -> int:
        self.told.append(f"stop in {self.current}")
        return 0

    def cudaProfilerStart(self) -> int:
        return 3


def use(monkeypatch: pytest.MonkeyPatch, driver: Driver, loaded: bool = True) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    monkeypatch.setattr(cuda_profiler, "_loaded", lambda part: ["/lib/libcuda.so.1"] * loaded)


def test_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's, not one of GPU 0, and given back."""
    driver = Driver()
    use(monkeypatch, driver)
    assert cuda_profiler.call("Stop", in_its_thread=False) == ""
    assert driver.told == ["retain 1", "stop in 101", "release 1"]
    assert driver.current is None


def test_current_already(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    driver.current = 7
    use(monkeypatch, driver)
    assert cuda_profiler.call("Stop") == ""
    assert (driver.told, driver.current) == (["stop in 7"], 7)


@pytest.mark.parametrize("loaded", [True, False])
def test_no_gpu_in_use(monkeypatch: pytest.MonkeyPatch, loaded: bool) -> None:
    """A thread of the agent's makes no context; one of the program's may."""
    driver = Driver(active=())
    use(monkeypatch, driver, loaded)
    assert cuda_profiler.call("Stop", in_its_thread=False) == "it has not used a GPU yet"
    assert driver.told == []
    assert cuda_profiler.call("Stop") == ""


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Driver())
    assert cuda_profiler.call("Start") == "cudaProfilerStart failed with CUDA error 3"
