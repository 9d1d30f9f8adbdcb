"""What the figures of a GPU are a sign of. A sign is no verdict: it supports what stacks and
collectives say.

The share of time in which a kernel ran (`utilization`) does not tell work from waiting: a
kernel that spins on a flag counts as 100 %. The power draw does. Measured on an H200 of 700 W
(docs/gpu-notes.md): 127 W with a context and nothing to do, 127 to 132 W with a kernel that
spins, 410 W copying, 690 W multiplying. Small kernels that follow each other closely (decoding,
one row at a time: 215 W at 70 %) lie between, so only full use at little power is a sign.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rankdbg.wire.node_answers import Gpu

# NVML takes the mean of up to a second, and the moments between two kernels count.
FULL_USE = 95  # percent
LITTLE_POWER = 1 / 3  # of the limit
FULL_MEMORY = 0.98

# Not "power limit": that is how a GPU runs that has much to do.
SLOWDOWNS = {"hardware slowdown", "heat", "heat, by the hardware", "power brake"}


@dataclass(frozen=True)
class GpuSign:
    """`name` is one of spinning, busy, idle, throttled, ecc, memory-full, lost."""

    name: str
    text: str


def signs(gpu: Gpu) -> list[GpuSign]:
    """Of one GPU, as NVML tells. What it does not tell is a sign of nothing."""
    if gpu.error:
        return [GpuSign("lost", f"NVML cannot read it: {gpu.error}")]
    found = [_use(gpu), _slowdown(gpu), _ecc(gpu), _memory(gpu)]
    return [sign for sign in found if sign is not None]


def used_by(pid: int, gpus: Iterable[Gpu]) -> list[Gpu]:
    """Those on which this process computes, as far as the node can tell."""
    return [gpu for gpu in gpus if any(entry.pid == pid for entry in gpu.processes)]


def _use(gpu: Gpu) -> GpuSign | None:
    use, power, limit = gpu.utilization, gpu.power, gpu.power_limit
    if use is None:
        return None
    if use == 0:
        return GpuSign("idle", "no kernel runs")
    if power is None or not limit:
        return GpuSign("busy", f"{use} % use")
    figures = f"{use} % use at {power:.0f} W of {limit:.0f} W"
    if use >= FULL_USE and power < limit * LITTLE_POWER:
        return GpuSign("spinning", f"a kernel runs all the time and does little: {figures}")
    return GpuSign("busy", figures)


def _slowdown(gpu: Gpu) -> GpuSign | None:
    reasons = [reason for reason in gpu.slowed_by if reason in SLOWDOWNS]
    if not reasons:
        return None
    clocks = _clocks(gpu)
    return GpuSign("throttled", f"slowed by {' and '.join(reasons)}{clocks}")


def _clocks(gpu: Gpu) -> str:
    clock, limit, degrees = gpu.clock, gpu.clock_limit, gpu.temperature
    at = f": {clock} of {limit} MHz" if clock is not None and limit else ""
    return at + (f", {degrees} °C" if degrees is not None else "")


def _ecc(gpu: Gpu) -> GpuSign | None:
    errors = gpu.ecc_uncorrected
    if not errors:
        return None
    many = "error" if errors == 1 else "errors"
    return GpuSign("ecc", f"{errors} uncorrected memory {many} since the driver was loaded")


def _memory(gpu: Gpu) -> GpuSign | None:
    used, total = gpu.memory_used, gpu.memory_total
    if used is None or not total or used < total * FULL_MEMORY:
        return None
    return GpuSign("memory-full", f"{used / 2**30:.1f} of {total / 2**30:.1f} GiB are taken")
