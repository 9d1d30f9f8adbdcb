"""Messages of kernels -> whose they are."""

from __future__ import annotations

from typing import Any

from rankdbg.errors import NodeFailed
from rankdbg.frontends.surroundings import kernel_scans, while_written
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.types import ProcessKey, Rank

RANKS = [Rank(ProcessKey(f"node-{n}", 100 + n, 1), "job", number=n) for n in (1, 2)]


def hit(second: int, text: str) -> Hit:
    stamp = f"2026-11-15 10:41:{second:02}"
    line = f"{stamp} kernel: {text}"
    return Hit("failure:any", 1, 1, line, line, stamp)


def whose(*hits: Hit, own_pids: bool = True) -> dict[str, tuple[tuple[int, ...], int]]:
    told: dict[str, Any] = {
        "node-1": {"kernel": [*hits], "own_pids": own_pids},
        "node-3": NodeFailed("it does not answer"),
    }
    scans = kernel_scans(told, RANKS)
    return {scan.path: (scan.file.ranks, len(scan.hits)) for scan in scans if scan.file}


def test_a_message_that_names_a_rank_is_about_it() -> None:
    """In each of the forms in which kernels name processes."""
    for text in (
        "Out of memory: Killed process 101 (python) total-vm:1kB",
        "oom-kill:constraint=CONSTRAINT_NONE,task=python,pid=101,uid=0",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=101, name=python, Ch 00000008",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid='101', name=python",
        "python[101]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so",
    ):
        assert whose(hit(7, text)) == {"kernel log of node-1, pid 101": ((1,), 1)}


def test_what_leads_up_to_it_is_about_the_same_process() -> None:
    """If it was said in the same second."""
    before = hit(7, "python invoked oom-killer: gfp_mask=0xcc0")
    killed = hit(7, "Out of memory: Killed process 101 (python)")
    assert whose(before, killed) == {"kernel log of node-1, pid 101": ((1,), 2)}
    assert whose(before._replace(stamp="2026-11-15 10:40:00"), killed) == {
        "kernel log of node-1, pid 101": ((1,), 1),
        "kernel log of node-1": ((), 1),
    }


def test_processes_that_are_no_ranks() -> None:
    """Belong to the node: others' numbers, those of other nodes, and all in a container."""
    other = hit(7, "Out of memory: Killed process 999 (python)")
    elsewhere = hit(8, "Out of memory: Killed process 102 (python)")
    ours = hit(9, "Out of memory: Killed process 101 (python)")
    assert whose(other, elsewhere) == {"kernel log of node-1": ((), 2)}
    assert whose(ours, own_pids=False) == {"kernel log of node-1": ((), 1)}


def test_what_was_said_before_all_logs_is_about_another_job() -> None:
    """By the first line of the logs, also where no line of theirs is known to any rule."""
    kernel = FileScan("kernel log", (hit(7, "Killed process 101"), hit(50, "Killed process 102")))
    calm = FileScan(
        "raylet.out", beginning="[2026-11-15 10:41:30,828 I 1 1] (raylet) main.cc: hello"
    )
    assert while_written(kernel, [calm], slack=10.0).hits == (kernel.hits[1],)
    assert while_written(kernel, [calm], slack=60.0).hits == kernel.hits
    assert while_written(kernel, [FileScan("no-clock.log")], slack=10.0).hits == kernel.hits
