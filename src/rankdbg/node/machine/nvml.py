"""GPU data from NVIDIA's library, as a separate program: lines of JSON on stdout.

NVML may hang in the driver, and a thread that hangs in the kernel cannot be stopped. So gpus.py
runs this file in a separate process. It imports nothing of rankdbg, and announces each GPU
before it is queried, so that the one that does not respond is known.

    {"begun": true}
    {"gpus": 8, "driver": "580.95.05"}
    {"asking": 0}
    {"gpu": {"index": 0, "uuid": "GPU-5e2f…", "utilization": 100, …}}
    {"why": "…"}        instead of all after the first: there is no GPU, or no access
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import Array, byref, c_char, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

# By name, as the loader finds it; then where container runtimes and WSL put it.
LIBRARIES = (
    "libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
)

# Of nvml.h. After one of the last two errors a GPU returns no other values.
SUCCESS, INSUFFICIENT_SIZE, GPU_IS_LOST, RESET_REQUIRED = 0, 7, 15, 16
UNCORRECTED, VOLATILE = 1, 0
CLOCK_SM, CLOCK_MEMORY = 1, 2
NOT_AVAILABLE = 2**64 - 1

SLOWED_BY = {
    0x01: "idle",
    0x02: "clocks set by the administrator",
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x10: "clocks kept in step with other GPUs",
    0x20: "heat",
    0x40: "heat, by the hardware",
    0x80: "power brake",
    0x100: "display clocks",
}


class NvmlMemory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class ComputeProcess(ctypes.Structure):
    _fields_ = (
        ("pid", c_uint),
        ("memory", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class NvmlError(Exception):
    """NVML returned an error, with its text."""


class Nvml:
    def __init__(self, library: Any) -> None:
        self._library = library
        library.nvmlErrorString.restype = ctypes.c_char_p
        self.must("nvmlInit_v2")

    def must(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status != SUCCESS:
            raise NvmlError(self._library.nvmlErrorString(status).decode(errors="replace"))

    def try_call(self, function: str, *arguments: Any) -> int | None:
        """Its status; None if this driver has no such function."""
        found = getattr(self._library, function, None)
        if found is None:
            return None
        status = int(found(*arguments))
        if status in (GPU_IS_LOST, RESET_REQUIRED):
            raise NvmlError(self._library.nvmlErrorString(status).decode(errors="replace"))
        return status

    def count(self) -> int:
        value = c_uint()
        self.must("nvmlDeviceGetCount_v2", byref(value))
        return value.value

    def driver(self) -> str:
        return self._text("nvmlSystemGetDriverVersion")

    def describe(self, index: int) -> dict[str, Any]:
        device = c_void_p()
        self.must("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(device))
        memory = NvmlMemory()
        has_memory = self.try_call("nvmlDeviceGetMemoryInfo", device, byref(memory)) == SUCCESS
        ecc = (device, c_int(UNCORRECTED), c_int(VOLATILE))
        return {
            "uuid": self._text("nvmlDeviceGetUUID", device),
            "name": self._text("nvmlDeviceGetName", device),
            "utilization": self._utilization(device),
            "memory_used": memory.used if has_memory else None,
            "memory_total": memory.total if has_memory else None,
            "power": self._watts("nvmlDeviceGetPowerUsage", device),
            "power_limit": self._watts("nvmlDeviceGetEnforcedPowerLimit", device),
            "temperature": self._number("nvmlDeviceGetTemperature", device, c_int(0)),
            "slowed_by": self._slowed_by(device),
            "ecc_uncorrected": self._number("nvmlDeviceGetTotalEccErrors", *ecc, kind=c_ulonglong),
            "clock": self._number("nvmlDeviceGetClockInfo", device, c_int(CLOCK_SM)),
            "clock_limit": self._number("nvmlDeviceGetMaxClockInfo", device, c_int(CLOCK_SM)),
            "memory_clock": self._number("nvmlDeviceGetClockInfo", device, c_int(CLOCK_MEMORY)),
            "processes": self._processes(device),
        }

    def _number(self, function: str, *arguments: Any, kind: Any = c_uint) -> int | None:
        """None for values that this GPU does not have: a MIG instance has no utilization."""
        value = kind()
        if self.try_call(function, *arguments, byref(value)) != SUCCESS:
            return None
        return int(value.value)

    def _watts(self, function: str, device: c_void_p) -> float | None:
        milliwatts = self._number(function, device)
        return None if milliwatts is None else round(milliwatts / 1000, 1)

    def _text(self, function: str, *arguments: Any) -> str:
        text: Array[c_char] = ctypes.create_string_buffer(96)
        status = self.try_call(function, *arguments, text, c_uint(len(text)))
        return text.value.decode(errors="replace") if status == SUCCESS else ""

    def _utilization(self, device: c_void_p) -> int | None:
        shares = (c_uint * 2)()  # share of time: kernels ran; memory was accessed
        if self.try_call("nvmlDeviceGetUtilizationRates", device, byref(shares)) != SUCCESS:
            return None
        return int(shares[0])

    def _slowed_by(self, device: c_void_p) -> list[str]:
        bits = self._number("nvmlDeviceGetCurrentClocksEventReasons", device, kind=c_ulonglong)
        if bits is None:  # the name before driver 535
            old = "nvmlDeviceGetCurrentClocksThrottleReasons"
            bits = self._number(old, device, kind=c_ulonglong)
        return [words for bit, words in SLOWED_BY.items() if (bits or 0) & bit]

    def _processes(self, device: c_void_p) -> list[dict[str, int | None]] | None:
        """None if NVML does not report them. More may start between two calls: leave some space."""
        count = c_uint(0)
        function = "nvmlDeviceGetComputeRunningProcesses_v3"
        status = self.try_call(function, device, byref(count), None)
        if status is None:
            function = "nvmlDeviceGetComputeRunningProcesses_v2"
            status = self.try_call(function, device, byref(count), None)
        if status not in (SUCCESS, INSUFFICIENT_SIZE):
            return None
        count = c_uint(count.value + 16)
        found = (ComputeProcess * count.value)()
        if self.try_call(function, device, byref(count), found) != SUCCESS:
            return None
        return [
            {"pid": entry.pid, "memory": None if entry.memory == NOT_AVAILABLE else entry.memory}
            for entry in found[: count.value]
        ]


def load() -> Any:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NvmlError(f"no NVIDIA driver found ({LIBRARIES[0]} is missing)")


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    say({"begun": True})
    try:
        nvml = Nvml(load())
        count = nvml.count()
    except NvmlError as refusal:
        say({"why": str(refusal)})
        return
    say({"gpus": count, "driver": nvml.driver()})
    for index in range(count):
        say({"asking": index})
        try:
            say({"gpu": {"index": index, **nvml.describe(index)}})
        except NvmlError as refusal:
            say({"gpu": {"index": index, "error": str(refusal)}})


if __name__ == "__main__":
    main()
