"""torch.profiler, started and stopped by the agent: operators of all threads, kernels of GPUs."""

from __future__ import annotations

import os
import sys

from rankdbg.agent import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# For the main thread to execute Python, where only that thread can start and stop a profile.
MAIN_SECONDS = 20.0


def begin(path: str, with_stack: bool) -> Callable[[], dict[str, Any]] | str:
    """Returns the function that ends it, or the reason why it cannot start."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "autograd"):
        return "it has not loaded torch"
    if getattr(torch.autograd.profiler, "_is_profiler_enabled", False):
        return "its program is using torch.profiler, and only one profile is possible at a time"
    profiler: Any = __import__("torch.profiler").profiler
    settings: dict[str, Any] = {"with_stack": with_stack, "activities": _activities(torch)}
    in_main = False
    try:
        # Else only the thread that starts the profile is recorded, which is the agent's.
        settings["experimental_config"] = profiler._ExperimentalConfig(profile_all_threads=True)
        _choose_gpu(torch)
    except (TypeError, AttributeError):  # torch before 2.7
        in_main = True
    profile: Any = profiler.profile(**settings)
    start = _Call(profile.start)
    if not start.make(in_main):
        start.wanted = False
        return "its main thread is in C, and this version of torch can only be profiled from it"

    def finish() -> dict[str, Any]:
        if not _Call(profile.stop).make(in_main):
            return {"why": "its main thread is in C, and the profile cannot be ended"}
        file = f"{path}.trace.json"
        profile.export_chrome_trace(file)
        return {} if _is_whole(file) else {"why": _not_written(file)}

    return finish


def _activities(torch: Any) -> list[Any]:
    """All supported activities; but in a program that has not initialised CUDA, the profiler must
    not initialise it."""
    possible = torch.profiler.supported_activities()
    cuda = torch.profiler.ProfilerActivity.CUDA
    return [each for each in possible if each != cuda or torch.cuda.is_initialized()]


def _choose_gpu(torch: Any) -> None:
    """torch synchronises the current GPU of the thread that ends a profile, which for a new thread
    is the first: that would allocate memory on the GPU of another rank."""
    if torch.cuda.is_initialized():
        used = [i for i in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(i)]
        if used:
            torch.cuda.set_device(used[0])


class _Call:
    """A call that is made here, or in the main thread as soon as that executes Python."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self.wanted = True

    def make(self, in_main: bool) -> bool:
        """False: the main thread has not made the call yet. It still does, unless `wanted` is set
        to False."""
        if not in_main:
            self._work()
            return True
        if not threads.call_in_main(self._in_main, MAIN_SECONDS):
            return False
        if self._error is not None:
            raise self._error
        return True

    def _in_main(self) -> None:
        try:
            if self.wanted:
                self._work()
        except BaseException as error:  # must not reach the program
            self._error = error


def _is_whole(file: str) -> bool:
    """torch does not report a full disk."""
    try:
        with open(file, "rb") as trace:
            trace.seek(max(0, os.fstat(trace.fileno()).st_size - 16))
            return trace.read().rstrip().endswith(b"}")
    except OSError:
        return False


def _not_written(file: str) -> str:
    try:
        os.unlink(file)
    except OSError:
        pass
    where = os.path.dirname(os.path.dirname(file))
    return f"its trace could not be written to {where}: is the disk full? (TMPDIR selects it)"
