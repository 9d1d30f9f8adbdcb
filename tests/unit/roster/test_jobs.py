"""jobs and nesting: which processes are one job, and which jobs run inside another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankdbg.process import identity
from rankdbg.roster.jobs import name_elements, name_unnamed
from rankdbg.roster.members import Ancestor, Member
from rankdbg.roster.nesting import surrounding_jobs
from rankdbg.roster.ranks import classify

LAUNCH = "python -m sglang.launch_server"


def process(pid: int, ppid: int, command: str, environ: Mapping[str, str] | None = None) -> Member:
    words = [command] if "::" in command or "[" in command else command.split()
    labels = identity.of_process(command, words, environ or {})
    return Member(pid, pid * 10, ppid, True, labels, words)


def jobs(*members: Member, others: Mapping[int, tuple[int, str]] | None = None) -> list[str]:
    """Of each. `others`: parent and command of processes that are not members."""
    above: dict[int, tuple[int, list[str]]] = {
        pid: (ppid, command.split()) for pid, (ppid, command) in (others or {}).items()
    }
    above.update({member.pid: (member.ppid, member.command) for member in members})
    for member in members:
        chain, pid = [], member.ppid
        while pid in above:
            chain.append(Ancestor(pid, identity.program(above[pid][1])))
            pid = above[pid][0]
        member.above = tuple(chain)
    name_unnamed(members)
    classify(members)
    return [member.job for member in members]


def titled(pid: int, ppid: int, place: int) -> Member:
    return process(pid, ppid, f"sglang::scheduler_TP{place}")


def test_engine_in_a_program() -> None:
    """Its workers are one job, whatever the program is called."""
    others = {10: (1, "bash"), 11: (10, "python offline.py")}
    assert len({*jobs(titled(21, 11, 0), titled(22, 11, 1), others=others)}) == 1


def test_two_programs_with_an_engine() -> None:
    """Are two jobs, also if one shell has started both."""
    others = {10: (1, "bash"), 11: (10, "python a.py"), 12: (10, "python b.py")}
    assert len({*jobs(titled(21, 11, 0), titled(22, 12, 0), others=others)}) == 2


def test_two_engines_of_one_shell() -> None:
    """Two servers are two jobs."""
    others = {10: (1, "bash"), 11: (10, LAUNCH), 12: (10, LAUNCH)}
    found = jobs(*[titled(20 + n, 11 + n // 2, n % 2) for n in range(4)], others=others)
    assert [found.count(job) for job in found] == [2] * 4


def test_child_of_a_dask_worker() -> None:
    """Belongs to its job."""
    members = [
        process(11, 10, "python /bin/dask worker x"),
        process(12, 11, "dask worker [tcp://10.0.0.1:1]"),
        process(13, 12, "python tool.py", {"RANK": "0"}),
    ]
    assert len({*jobs(*members, others={10: (1, "bash")})}) == 1


def element(pid: int, **environ: str) -> Member:
    return process(
        pid, 1, "python train.py", {"SLURM_JOB_ID": "20", "SLURM_PROCID": "0", **environ}
    )


def test_two_names_of_an_element() -> None:
    """A process that knows the element's own number alone is of the same job."""
    known = {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}
    members = [element(11, **known), element(12), element(13, SLURM_JOB_ID="21")]
    name_elements(members)
    assert jobs(*members) == ["slurm-17_3", "slurm-17_3", "slurm-21"]


def ranks(count: int, parent: int, **environ: str) -> list[Member]:
    known: dict[str, Any] = {"WORLD_SIZE": str(count), **environ}
    return [
        process(100 * parent + n, parent, "python train.py", {"RANK": str(n), **known})
        for n in range(count)
    ]


def test_job_in_an_actor_in_slurm() -> None:
    """What an actor launches is inside Ray's job, which is inside the scheduler's."""
    slurm = {"SLURM_JOB_ID": "17"}
    actor = process(12, 11, "ray::Trainer.fit", slurm)
    identity.name_job(actor.labels, "ray-01000000")
    launcher = process(13, 12, "python /bin/accelerate launch train.py", slurm)
    members = [actor, launcher, *ranks(2, 13, **slurm)]
    found = jobs(*members, others={11: (1, "raylet")})
    assert found == ["ray-01000000", *["train-d"] * 3]
    around = {"ray-01000000": "slurm-17", "train-d": "ray-01000000"}
    assert surrounding_jobs(members) == around


def test_job_in_no_other() -> None:
    """A launcher and its ranks are one job."""
    members = [process(13, 1, "python /bin/torchrun train.py"), *ranks(2, 13)]
    jobs(*members)
    assert surrounding_jobs(members) == {}


def test_jobs_around_each_other() -> None:
    """Contradictions, from forged labels perhaps, are left out."""
    members = ranks(2, 13, RANKDBG_JOB="a")
    members[1].labels = {**members[1].labels, "job": "b", "outer": "a"}
    members[0].labels["outer"] = "b"
    jobs(*members)
    assert surrounding_jobs(members) == {}
