"""What is wrong with a node: figures of disks, memory, processes and GPUs -> complaints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rankdbg.text.amounts import in_bytes
from rankdbg.verdicts.hangs import gpu_signs
from rankdbg.wire.node_answers import Disk, Gpu, HeldProcess, Memory, NodeFigures

FULL = 0.97  # of a disk, of its inodes, of memory
SMALL_SHARED_MEMORY = 64 << 20  # what a container gets by default
SHARED_MEMORY = "/dev/shm"
GPU_COMPLAINTS = {
    "lost": "reset it (nvidia-smi -r), or take the node out of service; look at its Xid errors",
    "ecc": "results may be wrong: stop using it until it has been reset",
    "throttled": "this rank is slower than others: look at cooling and power of the node",
}


@dataclass(frozen=True)
class Complaint:
    about: str  # disk, memory, process, gpu
    text: str
    fix: str


def complaints(health: NodeFigures, gpus: Iterable[Gpu]) -> list[Complaint]:
    """Of one node, as node/machine/node_figures.py and node/machine/gpus.py describe it."""
    return [
        *(found for disk in health.disks for found in _disk(disk)),
        *_memory(health.memory),
        *_processes(health.processes),
        *(found for gpu in gpus for found in _gpu(gpu)),
    ]


def _disk(disk: Disk) -> Iterator[Complaint]:
    place = disk.place
    if disk.size is None or disk.why:
        fix = "a network file system has lost its server: every read or write there waits"
        yield Complaint("disk", f"{place}: {disk.why}", fix)
        return
    size, free = disk.size, disk.free
    if place == SHARED_MEMORY and free < size / 2 and size <= SMALL_SHARED_MEMORY:
        text = f"{place} has only {in_bytes(size)}, and {in_bytes(free)} are free"
        fix = "data loaders and NCCL need more: docker run --ipc=host or --shm-size, in a pod an "
        yield Complaint("disk", text, fix + "emptyDir of medium Memory at /dev/shm")
    if size and free < size * (1 - FULL):
        text = f"{place} is full: {in_bytes(free)} of {in_bytes(size)} are free"
        fix = "shared memory of jobs that have died stays there" if place == SHARED_MEMORY else ""
        yield Complaint("disk", text, fix or f"du -xh -d1 {place} | sort -h")
    elif disk.files and disk.files_free < disk.files * (1 - FULL):
        text = f"{place} has no room for more files: {disk.files_free} of {disk.files}"
        yield Complaint("disk", text, f"du -x --inodes -d1 {place} | sort -h")


def _memory(memory: Memory) -> Iterator[Complaint]:
    size, available = memory.size, memory.available
    if size and available < size * (1 - FULL):
        text = f"memory is used up: {in_bytes(available)} of {in_bytes(size)} are available"
        yield Complaint("memory", text, "the kernel will kill a process soon: ps aux --sort=-rss")
    for group in memory.groups:
        limit, used = group.limit, group.used
        if group.kills:
            times = "once" if group.kills == 1 else f"{group.kills} times"
            text = f"the kernel has killed {times} in control group {group.group} for its memory"
            limited = f" (limit {in_bytes(limit)})" if limit else ""
            yield Complaint(
                "memory", text + limited, "give the job more memory, or let it use less"
            )
        elif limit and used is not None and used > limit * FULL:
            text = f"control group {group.group}: {in_bytes(used)} of {in_bytes(limit)} are used"
            yield Complaint("memory", text, "page cache counts too; if it rises, a kill follows")


def _processes(held: Iterable[HeldProcess]) -> Iterator[Complaint]:
    ended: dict[int, list[str]] = {}
    for process in held:
        name = f"{process.name} (pid {process.pid})"
        if process.state == "D":
            fix = "it waits for a disk, a network file system or a driver, and no signal reaches it"
            yield Complaint("process", f"{name}: {process.why}", fix)
        elif process.parent != 1:  # the first process of many containers collects none
            ended.setdefault(process.parent, []).append(name)
    for parent, names in ended.items():
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        text = f"ended, but process {parent} has not collected its exit status: {shown}"
        yield Complaint("process", text, f"see whether process {parent} hangs: rankdbg why")


def _gpu(gpu: Gpu) -> Iterator[Complaint]:
    for sign in gpu_signs.signs(gpu):
        if sign.name in GPU_COMPLAINTS:
            yield Complaint("gpu", f"GPU {gpu.index}: {sign.text}", GPU_COMPLAINTS[sign.name])
