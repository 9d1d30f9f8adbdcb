"""ranks: from processes and their parents to ranks and numbers. Pure, so no process runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from rankdbg.process import identity
from rankdbg.roster.members import Ancestor, Member
from rankdbg.roster.ranks import classify

TORCHRUN = "python /bin/torchrun train.py"
DAEMON = "python -m pyspark.daemon pyspark.worker"
SPARK = {"engine": "spark", "part": "worker", "role": "worker"}
FORKSERVER = ["python", "-c", "from multiprocessing.forkserver import main; main(3)"]


def process(
    pid: int,
    ppid: int = 1,
    *,
    command: str | list[str] = "python train.py",
    alive: bool = True,
    modules: int = 100,
    job: str = "j",
    **labels: Any,
) -> Member:
    words = command.split() if isinstance(command, str) else command
    labels = {"job": job, **identity.from_title(" ".join(words)), **labels}
    return Member(pid, pid * 10, ppid, alive, labels, words, modules=modules)


def by(source: str, rank: int, **labels: Any) -> dict[str, Any]:
    return {"source": source, "rank": rank, **labels}


def worker(index: int, target: str = "train.main", depth: int = 1) -> dict[str, Any]:
    return {"multiprocessing": {"index": index, "depth": depth, "target": target}}


def classified(
    *found: Member, others: Mapping[int, int] | None = None
) -> dict[int, tuple[str, int | None]]:
    """pid -> kind, and number if it is a rank. `others` are processes that are no Pythons."""
    parents = {**(others or {}), **{p.pid: p.ppid for p in found if p.alive}}
    for each in found:
        each.above = tuple(above(each.ppid, parents))
    classify(found)
    return {p.pid: (p.kind, p.number if p.kind == "rank" else None) for p in found}


def generations(*found: Member) -> dict[int, int]:
    classified(*found)
    return {each.pid: each.generation for each in found if each.kind == "rank"}


def above(pid: int, parents: Mapping[int, int]) -> Iterator[Ancestor]:
    while pid in parents:
        yield Ancestor(pid, "")
        pid = parents[pid]


RANK0, RANK1, RANK2, RANK3 = (("rank", number) for number in range(4))
LAUNCHER, HELPER, CHILD = ("launcher", None), ("helper", None), ("child", None)


# --- numbers from launchers ---------------------------------------------------------------


def test_torchrun() -> None:
    """The launcher is known by its name, also where the scheduler gave it a number."""
    assert classified(
        process(10, command=TORCHRUN, **by("slurm", 0)),
        process(11, 10, **by("torchrun", 0)),
        process(12, 10, **by("torch", 1)),
    ) == {10: LAUNCHER, 11: RANK0, 12: RANK1}


def test_unknown_launcher() -> None:
    """A Python without a number that has started ranks is their launcher."""
    assert classified(
        process(10), process(11, 10, **by("torchrun", 0)), process(12, 10, **by("torchrun", 1))
    ) == {10: LAUNCHER, 11: RANK0, 12: RANK1}


@pytest.mark.parametrize("weak", ["slurm", "openmpi", "pmi"])
@pytest.mark.parametrize("strong", ["torchrun", "torch", "init"])
def test_number_of_the_scheduler(weak: str, strong: str) -> None:
    """What has its number from the scheduler and started a rank with a RANK is its launcher."""
    assert classified(process(10, **by(weak, 3)), process(11, 10, **by(strong, 3))) == {
        10: LAUNCHER,
        11: RANK3,
    }


def test_rank_of_the_machine() -> None:
    """Where RANK is the machine's number, what torch knows by other numbers are the ranks."""
    assert classified(
        process(10, **by("torchrun", 0)),
        process(11, 10, **by("torch", 0, world=2), **worker(1)),
        process(12, 10, **by("torch", 1, world=2), **worker(2)),
    ) == {10: LAUNCHER, 11: RANK0, 12: RANK1}


def test_torch_alone_in_a_child() -> None:
    """A rank's child with a process group of its own, of one, does not make it a launcher."""
    kinds = classified(process(10, **by("torchrun", 3)), process(11, 10, **by("torch", 0, world=1)))
    assert kinds[10] == RANK3


def test_first_rank_starts_the_others() -> None:
    """Lightning's first rank starts the others, and is a rank all the same."""
    assert classified(
        process(10, **by("torchrun", 0)),
        process(11, 10, **by("torchrun", 1)),
        process(12, 10, **by("torchrun", 2)),
    ) == {10: RANK0, 11: RANK1, 12: RANK2}


def test_last_number_is_left_in_the_launcher() -> None:
    """A launcher that sets its own RANK for each rank that it starts has that of the last."""
    assert classified(
        process(10, **by("torchrun", 1)),
        process(11, 10, **by("torchrun", 0)),
        process(12, 10, **by("torchrun", 1)),
    ) == {10: LAUNCHER, 11: RANK0, 12: RANK1}


def test_first_rank_starts_a_tool_too() -> None:
    """What it starts with its own number beside the other ranks has loaded less, and is a child."""
    assert classified(
        process(10, **by("torchrun", 0)),
        process(11, 10, **by("torchrun", 1)),
        process(12, 10, **by("torchrun", 0), modules=20),
    ) == {10: RANK0, 11: RANK1, 12: CHILD}


# --- children -----------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["init", "torch", "torchrun", "slurm"])
def test_inherited_number(source: str) -> None:
    """A process with the number of one above it is its child, and so are that one's own."""
    assert classified(
        process(10, **by("torchrun" if source == "slurm" else source, 3)),
        process(11, 10, **by(source, 3)),
        process(12, 11, **by(source, 3)),
    ) == {10: RANK3, 11: CHILD, 12: CHILD}


def test_child_below_a_shell() -> None:
    """The shell between a rank and its child does not matter."""
    kinds = classified(
        process(10, **by("torchrun", 3)), process(12, 11, **by("torchrun", 3)), others={11: 10}
    )
    assert kinds == {10: RANK3, 12: CHILD}


def test_child_without_a_number() -> None:
    """A process below a rank that has lost its RANK is its child too."""
    assert classified(process(10, **by("torchrun", 1)), process(11, 10)) == {10: RANK1, 11: CHILD}


@pytest.mark.parametrize(
    "target",
    [
        "torch.utils.data._utils.worker._worker_loop",
        "multiprocessing.pool.worker",
        "multiprocessing.managers._run_server",
        "concurrent.futures.process._process_worker",
        "joblib.externals.loky.process_executor._process_worker",
    ],
)
def test_pools_and_loaders(target: str) -> None:
    """Known workers are children whatever is above them, also when their rank has died."""
    main, pool = process(10), process(11, 10, **worker(1, target))
    assert classified(main, pool) == {10: RANK0, 11: CHILD}
    orphan = process(12, 1, **by("torchrun", 0), **worker(1, target))
    assert classified(orphan, process(13, **by("torchrun", 1))) == {12: CHILD, 13: RANK1}


def test_not_a_rank_and_not_related() -> None:
    """A Python beside numbered ranks, without a number, is a helper."""
    assert classified(process(10), process(11, **by("torchrun", 0))) == {10: HELPER, 11: RANK0}


# --- no numbers ---------------------------------------------------------------------------


def test_single_process() -> None:
    """One process is rank 0; what it starts are its children."""
    assert classified(process(10), process(11, 10)) == {10: RANK0, 11: CHILD}


def test_topmost() -> None:
    """Several topmost processes are ranks in the order of their start."""
    assert classified(process(12), process(10), process(11, 10)) == {
        10: RANK0,
        11: CHILD,
        12: RANK1,
    }


def test_workers() -> None:
    """multiprocessing's children are ranks in the order in which they were made."""
    assert classified(
        process(10),
        process(13, 10, **worker(2)),
        process(12, 10, **worker(3)),
        process(14, 13, **worker(1, depth=2)),
    ) == {10: LAUNCHER, 13: RANK0, 12: RANK1, 14: CHILD}


def test_workers_of_a_fork_server() -> None:
    """A fork server is a helper; its forks have its command line, and are none."""
    assert classified(
        process(10),
        process(11, 10, command=FORKSERVER),
        process(12, 11, command=FORKSERVER, **worker(1)),
        process(13, 11, command=FORKSERVER, **worker(2)),
    ) == {10: LAUNCHER, 11: HELPER, 12: RANK0, 13: RANK1}


def test_fork_of_a_worker() -> None:
    """A fork of a worker says to be that worker, and is its child."""
    assert classified(process(10), process(11, 10, **worker(1)), process(12, 11, **worker(1))) == {
        10: LAUNCHER,
        11: RANK0,
        12: CHILD,
    }


def test_workers_that_torch_knows_in_part() -> None:
    """A worker that has not joined yet, or has left, has the number that is free."""
    assert classified(
        process(10),
        process(11, 10, **worker(1), **by("torch", 0, world=3)),
        process(12, 10, **worker(2)),
        process(13, 10, **worker(3), **by("torch", 2, world=3)),
    ) == {10: LAUNCHER, 11: RANK0, 12: RANK1, 13: RANK2}


def test_worker_beside_a_complete_world() -> None:
    """Where all ranks are known, one more worker (a logger) is none."""
    assert classified(
        process(10),
        process(11, 10, **worker(1)),
        process(12, 10, **worker(2), **by("torch", 0, world=2)),
        process(13, 10, **worker(3), **by("torch", 1, world=2)),
    ) == {10: LAUNCHER, 11: HELPER, 12: RANK0, 13: RANK1}


# --- engines ------------------------------------------------------------------------------


def test_engine() -> None:
    """An engine's innermost processes are its ranks, in the order of their coordinates."""
    assert classified(
        process(10, command="VLLM::APIServer"),
        process(11, 10, command="VLLM::EngineCore_DP0"),
        process(12, 11, command="VLLM::Worker_DP0_TP1"),
        process(13, 11, command="VLLM::Worker_DP0_TP0"),
        process(14, 10, command="VLLM::DPCoordinator"),
    ) == {10: LAUNCHER, 11: LAUNCHER, 12: RANK1, 13: RANK0, 14: HELPER}


@pytest.mark.parametrize("source", ["slurm", "torchrun"])
def test_engine_with_an_inherited_number(source: str) -> None:
    """A number that an engine's processes inherited is not theirs."""
    kinds = classified(
        process(10, **by(source, 5)),
        process(11, 10, command="sglang::scheduler_TP0", **by(source, 5)),
        process(12, 10, command="sglang::scheduler_TP1", **by(source, 5)),
    )
    assert (kinds[11], kinds[12]) == (RANK0, RANK1)
    assert kinds[10] == (LAUNCHER if source == "slurm" else ("rank", 5))


def test_engine_that_uses_multiprocessing() -> None:
    """A title says more than that a process is a child of multiprocessing."""
    assert classified(
        process(10),
        process(11, 10, command="sglang::scheduler_TP0", **worker(1)),
        process(12, 10, command="sglang::detokenizer", **worker(2)),
    ) == {10: LAUNCHER, 11: RANK0, 12: HELPER}


def test_actors() -> None:
    """Ray's actors are ranks, also those that started an engine; RANK numbers them."""
    assert classified(
        process(10, command="ray::Trainer", **by("torchrun", 1)),
        process(11, command="ray::Trainer", **by("torchrun", 0)),
        process(12, 10, command="sglang::scheduler_TP0", **by("torchrun", 1)),
        process(13, command="ray::IDLE"),
    ) == {10: RANK1, 11: RANK0, 12: RANK0, 13: HELPER}


DRIVER = {"engine": "ray", "part": "driver", "role": "driver"}
TRAINER = {"engine": "ray", "part": "Trainer", "role": "Trainer"}


def test_ray_job_that_was_started_again() -> None:
    """Under its name, after kill -9 of everything: what ended with the driver before is no rank."""
    assert classified(
        process(10, 0, alive=False, **DRIVER),
        process(11, 5, alive=False, **TRAINER),
        process(12, 5, alive=False, **TRAINER),
        process(20, 0, **DRIVER),
        process(21, 5, **TRAINER),
    ) == {10: HELPER, 11: HELPER, 12: HELPER, 20: RANK0, 21: RANK0}


def test_ray_actor_that_has_died_with_its_driver_alive() -> None:
    """It is gone, and counted, in a job of one driver and of two that one script started."""
    dead = process(11, 5, alive=False, **TRAINER)
    living = process(12, 5, **TRAINER)
    found = {11: RANK0, 12: RANK1}
    assert classified(process(10, 0, **DRIVER), dead, living) == {10: RANK0, **found}
    first = process(7, 3, alive=False, **DRIVER)
    second = process(8, 3, **DRIVER)
    assert classified(first, second, dead, living) == {7: RANK0, 8: RANK1, **found}


# --- the same number twice ----------------------------------------------------------------


def test_helper_of_a_script() -> None:
    """Of two Pythons that a rank's script starts, the one that has loaded more is the rank."""
    assert classified(
        process(20, 10, modules=50, **by("openmpi", 0)),
        process(21, 10, modules=500, **by("openmpi", 0)),
        process(22, 11, modules=500, **by("openmpi", 1)),
        process(23, 11, modules=50, **by("openmpi", 1)),
        others={10: 5, 11: 5},
    ) == {20: HELPER, 21: RANK0, 22: RANK1, 23: HELPER}


def test_who_says_so_is_the_rank() -> None:
    """One that torch or init() gave the number is the rank, whatever the other has loaded."""
    assert classified(
        process(20, 10, modules=500, **by("torchrun", 0)),
        process(21, 10, modules=50, **by("torch", 0)),
    ) == {20: HELPER, 21: RANK0}


def test_two_launches() -> None:
    """Two launchers in one job, Pythons or not, have a rank of the same number each."""
    pythons = [process(pid, command=TORCHRUN) for pid in (10, 11)]
    ranks = [process(20 + i, 10 + i // 2, **by("torchrun", i % 2)) for i in range(4)]
    kinds = classified(*pythons, *ranks)
    assert [kinds[pid] for pid in (20, 21, 22, 23)] == [RANK0, RANK1, RANK0, RANK1]
    kinds = classified(*ranks, others={10: 5, 11: 5})
    assert [kinds[pid] for pid in (20, 21, 22, 23)] == [RANK0, RANK1, RANK0, RANK1]


def test_roles() -> None:
    """Equal numbers in different roles are different ranks."""
    assert classified(
        process(20, 10, role="policy", **by("torchrun", 0)),
        process(21, 10, role="reward", **by("torchrun", 0)),
    ) == {20: RANK0, 21: RANK0}


def test_jobs_do_not_mix() -> None:
    """Two jobs have ranks of the same number, and numbers of their own."""
    assert classified(
        process(10, job="a", **by("torchrun", 0)),
        process(11, 10, job="b", **by("torchrun", 0)),
        process(12, job="c"),
        process(13, job="d"),
    ) == {10: RANK0, 11: RANK0, 12: RANK0, 13: RANK0}


# --- the dead -----------------------------------------------------------------------------


def test_dead_rank() -> None:
    """A dead rank is a rank while nobody has its place."""
    kinds = classified(
        process(10, command=TORCHRUN),
        process(11, 10, alive=False, **by("torchrun", 0)),
        process(12, 10, **by("torchrun", 1)),
    )
    assert (kinds[11], kinds[12]) == (RANK0, RANK1)


def test_replaced_rank() -> None:
    """A dead rank whose place is taken is of an earlier generation; not one of another launch."""
    found = [
        process(10, command=TORCHRUN),
        process(11, 10, alive=False, **by("torchrun", 0)),
        process(12, 10, **by("torchrun", 0)),
        process(20, command=TORCHRUN),
        process(21, 20, alive=False, **by("torchrun", 0)),
    ]
    assert classified(*found)[21] == RANK0
    assert generations(*found) == {11: 1, 12: 2, 21: 2}


def test_replaced_from_elsewhere() -> None:
    """A dead rank whose parents are not known any more is replaced by any of its number."""
    assert generations(
        process(11, 9, alive=False, **by("torchrun", 0)), process(12, 8, **by("torchrun", 0))
    ) == {11: 1, 12: 2}


def test_a_job_that_was_started_three_times() -> None:
    """Under the same name, each time after kill -9 of everything."""
    assert generations(
        process(11, 9, alive=False, **by("torchrun", 0)),
        process(12, 9, alive=False, **by("torchrun", 1)),
        process(21, 19, alive=False, **by("torchrun", 0)),
        process(30, command=TORCHRUN),
        process(31, 30, **by("torchrun", 0)),
        process(32, 30, **by("torchrun", 1)),
    ) == {11: 1, 12: 1, 21: 2, 31: 3, 32: 2}


def test_ranks_that_outlive_their_launcher() -> None:
    """Only torchrun was killed, and started again under the same name: the ranks that live on are of
    the older generation."""
    found = [
        process(11, 9, **by("torchrun", 0)),
        process(12, 9, **by("torchrun", 1)),
        process(30, command=TORCHRUN),
        process(31, 30, **by("torchrun", 0)),
        process(32, 30, **by("torchrun", 1)),
    ]
    kinds = classified(*found)
    assert [kinds[pid] for pid in (11, 12, 31, 32)] == [RANK0, RANK1, RANK0, RANK1]
    assert generations(*found) == {11: 1, 12: 1, 31: 2, 32: 2}


def test_ranks_that_outlive_two_launchers() -> None:
    """Agents know the pids of both, after both were killed."""
    found = [
        process(11, 9, **by("torchrun", 0)),
        process(12, 9, **by("torchrun", 1)),
        process(21, 19, **by("torchrun", 0)),
        process(22, 19, **by("torchrun", 1)),
    ]
    assert generations(*found) == {11: 1, 12: 1, 21: 2, 22: 2}


def test_two_launches_of_which_both_live() -> None:
    """Neither is an older generation of the other, whichever began first."""
    assert generations(
        process(10, command=TORCHRUN),
        process(11, 10, **by("torchrun", 0)),
        process(20, command=TORCHRUN),
        process(21, 20, **by("torchrun", 0)),
    ) == {11: 1, 21: 1}


def test_ranks_that_were_left_by_a_shell() -> None:
    """nohup and an exit: no launcher lives, and none has started them again. What rank 0 has started
    in the background with its number is a helper."""
    found = [
        process(11, 1, **by("torchrun", 0)),
        process(12, 1, **by("torchrun", 1)),
        process(13, 1, modules=20, **by("torchrun", 0)),
    ]
    assert classified(*found) == {11: RANK0, 12: RANK1, 13: HELPER}
    assert generations(*found) == {11: 1, 12: 1}


def test_restarts_that_the_launcher_counts() -> None:
    """Nothing may be left of the first generation."""
    assert generations(process(11, **by("torchrun", 0), restart=2)) == {11: 3}


def test_a_dead_job_that_was_started_twice() -> None:
    dead = by("torchrun", 0)
    first, second = process(11, 9, alive=False, **dead), process(21, 19, alive=False, **dead)
    assert generations(first, second) == {11: 1, 21: 2}


def test_two_steps_of_a_slurm_job() -> None:
    """Each has a rank 0."""
    steps = [{"environment": {"SLURM_STEP_ID": str(step)}} for step in range(2)]
    ranks = [process(11, **by("slurm", 0), **steps[0]), process(12, **by("slurm", 0), **steps[1])]
    assert classified(*ranks) == {11: RANK0, 12: RANK0}
    assert [rank.text("role") for rank in ranks] == ["step0", "step1"]
    assert generations(*ranks) == {11: 1, 12: 1}


def test_pid_in_use_again() -> None:
    """A living process is not a child of the dead one whose pid its parent has."""
    dead = process(10, alive=False, **by("torchrun", 0))
    kinds = [process(10, command=TORCHRUN), dead, process(11, 10, **by("torchrun", 0))]
    assert classified(*kinds)[11] == RANK0


# --- rubbish ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        {"rank": "3", "source": ["x"], "world": "many"},
        {"rank": True, "role": {"a": 1}},
        {"rank": 0, "world": 10**18, "source": "torch", **worker(1)},
        {"multiprocessing": "yes", "coordinates": 7, "engine": 3},
        {"multiprocessing": {"index": "x", "depth": 1, "target": None}},
        {"coordinates": {"pp": "x"}, "engine": "sglang"},
    ],
)
def test_labels_that_are_rubbish(labels: dict[str, Any]) -> None:
    """Labels of a wrong type, from a file that anybody may have written, do no harm."""
    assert len(classified(process(10, **labels), process(11, **worker(2)), process(12, 11))) == 3


def test_classes_of_rays_actors_are_numbered_apart() -> None:
    """Each as it started; the driver is one of them."""
    assert classified(
        process(10, command="python driver.py", engine="ray", part="driver", role="driver"),
        process(11, command="ray::Trainer.step"),
        process(12, command="ray::Trainer.step"),
        process(13, command="ray::Rollout.generate"),
    ) == {10: RANK0, 11: RANK0, 12: RANK1, 13: RANK0}


def test_place_that_the_launcher_knows() -> None:
    """Among the actors of all nodes; a number of its own is stronger."""
    assert classified(
        process(11, command="ray::Trainer", place=3),
        process(12, command="ray::Trainer", place=2),
        process(13, command="ray::Trainer", place=7, **by("torch", 0)),
    ) == {11: RANK3, 12: RANK2, 13: RANK0}


def test_monarch() -> None:
    """Procs are ranks, also those of two meshes with the same numbers; the client, and a host
    that has started procs, are launchers; what a proc starts is its child."""

    def proc(pid: int, parent: int, name: str) -> Member:
        command = "python -m monarch._src.actor.bootstrap_main"
        environ = {"HYPERACTOR_PROCESS_NAME": f"{name} @ host", "SLURM_PROCID": "0"}
        return process(
            pid, parent, command=command, **identity.of_process("", command.split(), environ)
        )

    assert classified(
        process(10, command="python client.py", **by("slurm", 0)),
        proc(11, 10, "anon-0"),
        proc(12, 10, "anon-1"),
        proc(13, 10, "anon-0"),
        process(14, 12, command="python tool.py"),
        process(15, 13, command=FORKSERVER),
        proc(20, 1, "service"),
        proc(21, 20, "anon-2"),
    ) == {
        **{10: LAUNCHER, 11: RANK0, 12: RANK1, 13: RANK0, 14: CHILD, 15: HELPER},
        **{20: LAUNCHER, 21: RANK2},
    }


def test_spark_workers() -> None:
    """Spark's daemon forks its workers: they are the ranks, and so is the driver, in a role of its
    own; the daemon is none."""
    assert classified(
        process(10),
        process(30, 20, command=DAEMON, **SPARK),
        process(31, 30, command=DAEMON, **SPARK),
        process(32, 30, command=DAEMON, **SPARK),
        others={20: 10},  # its Java
    ) == {10: RANK0, 30: LAUNCHER, 31: RANK0, 32: RANK1}


def test_spark_worker_that_has_ended() -> None:
    """Spark ends workers without a task: no rank is missing. The others keep their numbers."""
    ended = process(31, 30, command=DAEMON, **SPARK)
    ended.alive = False
    others = [process(30, 20, command=DAEMON, **SPARK), process(32, 30, command=DAEMON, **SPARK)]
    assert classified(*others, ended) == {30: LAUNCHER, 31: HELPER, 32: RANK1}


def test_driver_below_spark_submit() -> None:
    """Java has started the driver and the daemon; what else the script has started is no driver."""
    java = Ancestor(20, "spark")
    members = [
        process(10, 20),
        process(11, 5),
        process(30, 20, command=DAEMON, **SPARK),
        process(31, 30, command=DAEMON, **SPARK),
    ]
    for member in (members[0], *members[2:]):
        member.above = (*member.above, java, Ancestor(5, ""))
    members[1].above = (Ancestor(5, ""),)
    members[3].above = (Ancestor(30, "spark"), java, Ancestor(5, ""))
    classify(members)
    kinds = [(m.kind, m.text("role")) for m in members]
    assert kinds == [("rank", "driver"), ("helper", ""), ("launcher", ""), ("rank", "worker")]


def test_equal_numbers_on_two_hosts() -> None:
    """Both are ranks: only on one machine has one of them inherited it from the same script."""
    ranks = [process(11, **by("torchrun", 3)), process(11, **by("torchrun", 3))]
    ranks[1].host = "other"
    classify(ranks)
    assert [(rank.kind, rank.number) for rank in ranks] == [RANK3, RANK3]
