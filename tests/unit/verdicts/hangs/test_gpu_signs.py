"""Figures of GPUs -> signs. The figures are those of an H200 (docs/gpu-notes.md)."""

from __future__ import annotations

from typing import Any

import pytest

from rankdbg.node.machine import nvml
from rankdbg.verdicts.hangs.gpu_signs import SLOWDOWNS, GpuSign, signs, used_by
from rankdbg.wire.decoding import decode
from rankdbg.wire.node_answers import Gpu, GpuProcess

H200: dict[str, Any] = {
    "index": 0,
    "name": "NVIDIA H200",
    "utilization": 0,
    "memory_used": 644939776,
    "memory_total": 150754820096,
    "power": 81.8,
    "power_limit": 700.0,
    "temperature": 39,
    "slowed_by": ["idle"],
    "ecc_uncorrected": 0,
    "clock": 345,
    "clock_limit": 1980,
    "processes": [],
}


def gpu_of(**figures: Any) -> Gpu:
    return decode(Gpu, {**H200, **figures})


def names(**figures: Any) -> list[str]:
    return [sign.name for sign in signs(gpu_of(**figures))]


@pytest.mark.parametrize(
    ("load", "utilization", "power", "expected"),
    [
        ("nothing, no context", 0, 81.8, "idle"),
        ("nothing, with a context", 0, 127.1, "idle"),
        ("one thread spins", 100, 127.4, "spinning"),
        ("all processors spin", 100, 132.1, "spinning"),
        ("copying", 99, 408.0, "busy"),
        ("multiplying", 100, 690.0, "busy"),
        ("tiny training", 12, 129.5, "busy"),
        ("decoding", 69, 215.0, "busy"),
    ],
)
def test_use_and_power_tell_spinning_from_work(
    load: str, utilization: int, power: float, expected: str
) -> None:
    """Only full use at little power is a sign of a kernel that waits."""
    assert names(utilization=utilization, power=power) == [expected]


def test_spinning_quotes_its_figures() -> None:
    """The text can stand as evidence by itself."""
    (sign,) = signs(gpu_of(utilization=100, power=127.4))
    text = "a kernel runs all the time and does little: 100 % use at 127 W of 700 W"
    assert sign == GpuSign("spinning", text)


def test_heat_throttles_and_the_power_limit_does_not() -> None:
    """At its power limit a GPU is only busy."""
    hot = {"utilization": 99, "power": 690.0, "clock": 900, "temperature": 88}
    assert names(**hot, slowed_by=["power limit"]) == ["busy"]
    found = signs(gpu_of(**hot, slowed_by=["power limit", "heat, by the hardware"]))
    assert found[1] == GpuSign(
        "throttled", "slowed by heat, by the hardware: 900 of 1980 MHz, 88 °C"
    )


def test_slowdowns_are_words_that_the_node_says() -> None:
    """Node and verdicts do not import each other, and mean the same."""
    assert set(nvml.SLOWED_BY.values()) >= SLOWDOWNS


def test_uncorrected_memory_errors() -> None:
    """Counted since the driver was loaded."""
    assert signs(gpu_of(ecc_uncorrected=1))[1].text.startswith("1 uncorrected memory error ")
    assert names(ecc_uncorrected=None) == ["idle"]


def test_memory_that_is_full() -> None:
    """98 % and more: what engines reserve for themselves (90 %) is not."""
    assert names(memory_used=int(150754820096 * 0.9)) == ["idle"]
    (_, sign) = signs(gpu_of(memory_used=150_000_000_000))
    assert sign == GpuSign("memory-full", "139.7 of 140.4 GiB are taken")


def test_figures_that_are_not_told_are_no_signs() -> None:
    """A part of a GPU (MIG) has neither use nor power of its own."""
    assert signs(decode(Gpu, {"index": 0, "utilization": None, "power": None})) == []
    assert names(utilization=100, power=None) == ["busy"]


def test_lost_gpu_has_that_sign_alone() -> None:
    """What fell off the bus answers nothing else."""
    assert signs(Gpu(3, error="GPU is lost")) == [
        GpuSign("lost", "NVML cannot read it: GPU is lost")
    ]


def test_gpus_of_a_process() -> None:
    """By pid; none where the node could not tell."""
    gpus = [Gpu(i, processes=(GpuProcess(10 + i, 1),)) for i in range(2)]
    assert [gpu.index for gpu in used_by(11, gpus)] == [1]
    assert used_by(12, [*gpus, Gpu(2, error="GPU is lost")]) == []
