"""Figures of nodes and GPUs that no machine here has: what their nodes would have told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdbg.errors import NodeFailed
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.types import Rank
from rankdbg.wire.node_answers import (
    Disk,
    Gpu,
    GpuFigures,
    GpuProcess,
    Memory,
    MemoryGroup,
    NodeFigures,
)

GIB = 1 << 30


def gpu(index: int, pid: int, use: float = 97, **figures: object) -> Gpu:
    whole = Gpu(
        index,
        name="NVIDIA H100 80GB HBM3",
        utilization=use,
        memory_used=68 * GIB,
        memory_total=80 * GIB,
        power=612.0,
        power_limit=700.0,
        temperature=61 + index % 4,
        clock=1980,
        clock_limit=1980,
        processes=(GpuProcess(pid),),
    )
    return replace(whole, **figures)  # type: ignore[arg-type]


def figures(
    number: int = 0, disks: Sequence[Disk] = (), groups: Sequence[MemoryGroup] = ()
) -> NodeFigures:
    memory = Memory(2048 * GIB, (1640 - 3 * (number % 9)) * GIB, tuple(groups))
    own = (
        Disk("/dev/shm", 1024 * GIB, 1003 * GIB, 1000, 990),
        Disk("/data", 90_000 * GIB, 51_000 * GIB, 1000, 900),
    )
    return NodeFigures((*own, *disks), memory, (), load=11.0 + number % 5, processors=96)


def well(ranks: Sequence[Rank]) -> NodeStates:
    """A GPU for each rank, all at work."""
    by_host: dict[str, list[Rank]] = {}
    for rank in ranks:
        by_host.setdefault(rank.host, []).append(rank)
    health = {host: figures(number) for number, host in enumerate(by_host)}
    gpus = {
        host: GpuFigures(
            tuple(gpu(n, rank.pid, 96 + (rank.pid + n) % 4) for n, rank in enumerate(own)),
            "580",
            "",
        )
        for host, own in by_host.items()
    }
    return NodeStates(health, gpus)


def troubled(ranks: Sequence[Rank]) -> NodeStates:
    """Of at least eight nodes: the second has a GPU that is slowed by heat, the third gives no
    response, the fourth is out of shared memory, and the GPUs of the fifth are idle."""
    states = well(ranks)
    health, gpus = {**states.health}, {**states.gpus}
    _, hot, lost, full, idle = [*health][:5]
    heat = {"slowed_by": ("heat",), "clock": 1380, "temperature": 87, "utilization": 100}
    gpus[hot] = _with(gpus[hot], 3, heat)
    health[lost] = NodeFailed(f"{lost} did not respond within 5 s")
    gpus[lost] = NodeFailed(f"{lost} did not respond within 5 s")
    health[full] = figures(3, [Disk("/tmp", 100 * GIB, GIB, 1000, 900)])
    for index in range(len(getattr(gpus[idle], "gpus", ()))):
        gpus[idle] = _with(gpus[idle], index, {"utilization": 0, "temperature": 41})
    return NodeStates(health, gpus)


def _with(told: object, index: int, changed: dict[str, object]) -> GpuFigures:
    assert isinstance(told, GpuFigures)
    gpus = [*told.gpus]
    gpus[index] = replace(gpus[index], **changed)  # type: ignore[arg-type]
    return replace(told, gpus=tuple(gpus))
