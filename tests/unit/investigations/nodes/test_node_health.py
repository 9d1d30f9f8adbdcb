"""Messages of kernels -> whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from rankdbg.errors import NodeFailed
from rankdbg.investigations.nodes.node_health import KernelMessages, read_kernels, while_written
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.types import ProcessKey, Rank
from rankdbg.wire.node_answers import Memory, NodeFigures

RANKS = [Rank(ProcessKey(f"node-{n}", 100 + n, 1), "job", number=n) for n in (1, 2)]


def hit(second: int, text: str) -> Hit:
    stamp = f"2026-11-15 10:41:{second:02}"
    line = f"{stamp} kernel: {text}"
    return Hit("failure:any", 1, 1, line, line, stamp)


def figures(*hits: Hit, **more: Any) -> NodeFigures:
    return NodeFigures((), Memory(0, 0, ()), (), kernel=hits, **more)


def read(*hits: Hit, own_pids: bool = True, job: Any = None) -> KernelMessages:
    told: dict[str, Any] = {
        "node-1": figures(*hits, own_pids=own_pids, job=job or {}),
        "node-3": NodeFailed("it does not answer"),
    }
    return read_kernels(told, RANKS)


def whose(*hits: Hit, **known: Any) -> dict[str, tuple[tuple[int, ...], int]]:
    scans = read(*hits, **known).scans
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
    earlier = before._replace(stamp="2026-11-15 10:40:00")
    assert whose(earlier, killed) == {"kernel log of node-1, pid 101": ((1,), 1)}
    assert len(read(earlier, killed).hints) == 1


def test_processes_that_are_no_ranks() -> None:
    """Belong to the node: others' numbers, those of other nodes, and all in a container."""
    other = hit(7, "NVRM: Xid (PCI:0000:3b:00): 31, pid=999, name=python")
    elsewhere = hit(8, "NVRM: Xid (PCI:0000:3b:00): 31, pid=102, name=python")
    ours = hit(9, "NVRM: Xid (PCI:0000:3b:00): 31, pid=101, name=python")
    assert whose(other, elsewhere) == {"kernel log of node-1": ((), 2)}
    assert whose(ours, own_pids=False) == {"kernel log of node-1": ((), 1)}


def test_a_kill_of_which_nothing_is_known_is_a_hint() -> None:
    """Of a process that is no rank, where the control groups of the job are not known."""
    for known in ({"own_pids": True}, {"own_pids": False}):
        said = read(hit(7, "Out of memory: Killed process 999 (python)"), **known)
        assert not said.scans
        assert said.hints == [
            "node-1: an OOM kill that may belong to another job: "
            "2026-11-15 10:41:07 kernel: Out of memory: Killed process 999 (python)"
        ]


def test_many_kills_are_one_line() -> None:
    """Of a node, with the last of them."""
    kills = [hit(7 + n, f"Out of memory: Killed process {900 + n} (python)") for n in range(3)]
    assert read(*kills).hints == [
        "node-1: 3 OOM kills that may belong to other jobs, the last: "
        "2026-11-15 10:41:09 kernel: Out of memory: Killed process 902 (python)"
    ]


POD, OTHER_POD = "1b2c3d4e-0000-4000-8000-00000000000a", "1b2c3d4e-0000-4000-8000-00000000000b"


def kill(group: str, limit: str = "", user: int = 0) -> list[Hit]:
    above = f"oom_memcg={limit}," if limit else "global_oom,"
    return [
        hit(7, "python invoked oom-killer: gfp_mask=0xcc0"),
        hit(
            7,
            f"oom-kill:constraint=X,nodemask=(null),{above}task_memcg={group},task=python,"
            f"pid=999,uid={user}",
        ),
        hit(7, f"Killed process 999 (python) total-vm:1kB, UID:{user} pgtables:1kB"),
    ]


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ({"cgroups": ["/slurm/job_7"]}, kill("/slurm/job_7/step_0/task_1", "/slurm/job_7")),
        ({"cgroups": ["/pods/a/c1"]}, kill("/pods/a/c1")),
        # The limit of the pod is also that of the container beside it.
        ({"cgroups": ["/pods/a/c1"]}, kill("/pods/a/c2", "/pods/a")),
        ({"containers": [POD]}, kill(f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice")),
        ({"cgroups": ["/"]}, kill("/")),
    ],
)
def test_a_kill_in_the_jobs_own_group(job: Any, lines: list[Hit]) -> None:
    """Is a failure, whoever was killed: a child of a rank is no rank."""
    said = read(*lines, job=job)
    assert [len(scan.hits) for scan in said.scans] == [3]
    assert not said.hints


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ({"cgroups": ["/slurm/job_7"]}, kill("/slurm/job_77/step_0", "/slurm/job_77")),
        ({"cgroups": ["/pods/a/c1"]}, kill("/pods/b/c1", "/pods/b")),
        ({"cgroups": ["/user.slice/session-3.scope"]}, kill("/pods/b/c1", "/pods/b")),
        ({"cgroups": ["/"]}, kill("/pods/b/c1", "/pods/b")),
        ({"containers": [POD]}, kill(f"/kubepods/pod{OTHER_POD}/c1")),
        ({"uids": [1000]}, kill("/", user=1001)),
    ],
)
def test_a_kill_in_another_group(job: Any, lines: list[Hit]) -> None:
    """Is neither a failure of this job nor a hint."""
    said = read(*lines, job=job)
    assert said == ([], [])


def test_a_process_that_a_launcher_names_is_the_jobs() -> None:
    """Its rank may be gone from the roster: torchrun says which process has died."""
    killed = hit(7, "Out of memory: Killed process 999 (python)")
    text = "failed (exitcode: -9) local_rank: 0 (pid: 999) of binary: python"
    log = FileScan("log", (Hit("failure:any", 1, 1, text, text, ""),))
    told = {"node-1": figures(killed, own_pids=True)}
    assert [len(scan.hits) for scan in read_kernels(told, RANKS, [log]).scans] == [1]


def test_what_was_said_before_all_logs_is_about_another_job() -> None:
    """By the first line of the logs, also where no line of theirs is known to any rule."""
    kernel = FileScan("kernel log", (hit(7, "Killed process 101"), hit(50, "Killed process 102")))
    calm = FileScan(
        "raylet.out", beginning="[2026-11-15 10:41:30,828 I 1 1] (raylet) main.cc: hello"
    )
    assert while_written(kernel, [calm], slack=10.0).hits == (kernel.hits[1],)
    assert while_written(kernel, [calm], slack=60.0).hits == kernel.hits
    assert while_written(kernel, [FileScan("no-clock.log")], slack=10.0).hits == kernel.hits
