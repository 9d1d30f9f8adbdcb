"""Which processes are one job, which are its ranks and what each is called, for every launcher, as
its users start it: without a name for the job, without agents and under `rankdbg run`.

What each was decided from is kept in tests/fixtures/rosters: see support/recorded_rosters.py. Spark,
MPICH, Intel MPI, vLLM's titles and multiprocessing are there alone (tests/unit/roster)."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorded_rosters
from jobs import PROGRAMS, TORCHRUN, free_port
from rankdbg.session import Session
from rankdbg.types import Rank
from tiers import extra
from waiting import ANSWER_SECONDS, wait_for

PYTHON = sys.executable
BIN = Path(PYTHON).parent
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", PYTHON)
LOOP = "for i in 0 1 2; do RANK=$i WORLD_SIZE=3 {0} & done; wait"
NAMED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_", "RANKDBG", "OMPI_", "PMI")


Job = dict[str, Any]  # as recorded_rosters.summary() has it


def words(*command: object) -> list[str]:
    return [*map(str, command)]


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"without {module}")


class Launched:
    """Commands that run a program in a folder of its own, and what rankdbg makes of them."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.program = scratch / f"train_{uuid.uuid4().hex[:8]}.py"
        shutil.copy(PROGRAMS / "rank_with_children.py", self.program)
        self._mark = f"LAUNCHED={self.program.stem}"
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], agents: bool = False) -> int:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(NAMED)}
        name, _, value = self._mark.partition("=")
        run = words(PYTHON, "-m", "rankdbg", "run", "--") if agents else []
        here = {"PROGRAM": str(self.program), "SCRATCH": str(self.scratch)}
        for mark, path in here.items():
            command = [word.replace(mark, path) for word in command]
        process = subprocess.Popen(
            run + command,
            env={
                **environment,
                name: value,
                "OMP_NUM_THREADS": "1",
                **({"RANKDBG_DIR": str(self.scratch / "agents")} if agents else {}),
            },
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._started.append(process)
        return process.pid

    def jobs(self, session: Session) -> list[dict[str, Any]]:
        roster = session.roster(where=False)
        return [*recorded_rosters.summaries(roster, self._is_ours).values()]

    def _is_ours(self, process: Rank) -> bool:
        """By its command; or by its session, since some have a title in its place."""
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process.pid) in [started.pid for started in self._started]:
                return True
        return str(self.scratch) in " ".join(process.command)

    def wait_for(self, *expected: dict[str, Any], name: str = "") -> None:
        """Until these are the jobs. `name`: of the file, when rosters are recorded."""
        seen: list[Any] = []
        with Session(timeout=ANSWER_SECONDS) as session:

            def is_right() -> bool:
                seen[:] = self.jobs(session)
                return sorted(seen, key=str) == sorted(expected, key=str)

            wait_for(is_right, lambda: seen)
            if recorded_rosters.RECORDING and name:
                self.record(name, session)

    def record(self, name: str, session: Session, also: dict[str, str] | None = None) -> None:
        paths = {str(self.program): "/src/train.py", self.program.stem: "train", **(also or {})}
        paths[str(self.scratch)] = "/scratch"
        recorded_rosters.record(name, session, paths, self._is_ours)

    def end(self) -> None:
        """By the environment; or by the session, since titles lie over environments."""
        sessions = [started.pid for started in self._started]
        for entry in Path("/proc").glob("[0-9]*/environ"):
            pid = int(entry.parent.name)
            with contextlib.suppress(OSError):
                marked = self._mark.encode() in entry.read_bytes().split(b"\0")
                if marked or os.getsid(pid) in sessions:
                    os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.wait()


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Launched]:
    launched = Launched(tmp_path)
    yield launched
    launched.end()


torchrun = words(*TORCHRUN, 2)
accelerate = words(BIN / "accelerate", "launch", "--multi_gpu", "--num_processes", 2)
accelerate += words("--num_machines", 1, "--mixed_precision", "no", "--dynamo_backend", "no")
accelerate += words("--main_process_port", 0)
deepspeed = words("env", "DS_ACCELERATOR=cpu", PYTHON, BIN / "deepspeed", "--num_accelerators", 2)
deepspeed += words("--master_port", 0)
DASK = (
    "{0} scheduler --port 0 --no-dashboard {1} & {0} worker --nworkers 2 --no-dashboard {1}; wait"
)
dask = DASK.format(f"{PYTHON} {BIN / 'dask'}", "--scheduler-file SCRATCH/scheduler.json")


def first_of(way: str) -> list[str]:
    """A program that starts its own ranks."""
    program = PROGRAMS / "first_of_its_ranks.py"
    return ["sh", "-c", f"cp {program} PROGRAM; exec {PYTHON} PROGRAM {way}"]


# Without agents nothing tells which of its processes are ranks.
JAX = f"cp {PROGRAMS / 'labels_jax.py'} PROGRAM; exec {PYTHON} PROGRAM 2 {{port}}"
jax = words("env", "JAX_PLATFORMS=cpu", "sh", "-c", JAX.format(port=free_port()))
needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin")
slow = pytest.mark.slow
# Launchers that load torch in every process are started without agents alone; with them they are
# decided from recorded facts (tests/unit/roster).
EVERY_ONE = os.environ.get("RANKDBG_TEST_HANGS") == "all"


def row(
    name: str,
    command: list[str],
    expected: Job,
    *marks: pytest.MarkDecorator,
    with_agents: Job | bool = True,
) -> list[Any]:
    """One without agents, and one with them: whether, and what differs then."""
    rows = [pytest.param(command, [expected], False, name, marks=marks, id=name)]
    if with_agents is not False:
        also = with_agents if isinstance(with_agents, dict) else {}
        which = f"{name} with agents"
        both = {**expected, **also}
        more = (*marks, extra) if slow in marks else marks
        rows.append(pytest.param(command, [both], True, which, marks=more, id=which))
    return rows


TABLE = [
    *row("shell loop", ["sh", "-c", LOOP.format(f"{PYTHON} PROGRAM")], {"ranks": [0, 1, 2]}),
    *row(
        "shell loop with wrappers",
        ["sh", "-c", LOOP.format(f"sh -c '{PYTHON} PROGRAM; true'")],
        {"ranks": [0, 1, 2]},
    ),
    *row(
        "ranks with children",
        ["sh", "-c", LOOP.format(f"{PYTHON} PROGRAM children")],
        {"ranks": [0, 1, 2], "child": 6},
    ),
    *row("the first rank starts the others", [PYTHON, "PROGRAM", "again"], {"ranks": [0, 1, 2]}),
    *row("rank 0 starts another command", first_of("code"), {"ranks": [0, 1, 2]}),
    *row(
        "rank 0 starts the others with multiprocessing",
        first_of("spawn"),
        {"ranks": [0, 1, 2], "helper": 1},
    ),
    *row(
        "a launcher whose rank 0 has ended",
        first_of("launcher"),
        {"ranks": [1, 2]},
        with_agents=False,
    ),
    *row(
        "torchrun",
        [*torchrun, "PROGRAM", "children"],
        {"ranks": [0, 1], "launcher": 1, "child": 4},
        slow,
    ),
    *row(
        "torchrun with wrappers",
        [*torchrun, "--no-python", "sh", "-c", f"{PYTHON} PROGRAM; true"],
        {"ranks": [0, 1], "launcher": 1},
        slow,
        extra,
        with_agents=False,
    ),
    *row("mpirun", [*MPIRUN, "PROGRAM"], {"ranks": [0, 1]}, needs_mpirun),
    *row(
        "accelerate",
        [*accelerate, "PROGRAM"],
        {"ranks": [0, 1], "launcher": 1},
        slow,
        extra,
        needs("accelerate"),
        with_agents=EVERY_ONE,
    ),
    *row(
        "deepspeed",
        [*deepspeed, "PROGRAM"],
        {"ranks": [0, 1], "launcher": 2},
        slow,
        needs("deepspeed"),
        extra,
        with_agents=EVERY_ONE,
    ),
    *row(
        "dask",
        ["sh", "-c", dask],
        {"worker": [0, 1], "launcher": 1, "helper": 1},
        slow,
        needs("distributed"),
        with_agents={"helper": 2},  # the scheduler, and multiprocessing's tracker
    ),
    *row(
        "dask in a program",
        ["sh", "-c", f"cp {PROGRAMS / 'dask_local.py'} PROGRAM; exec {PYTHON} PROGRAM"],
        {"worker": [0, 1]},
        slow,
        extra,
        needs("distributed"),
        with_agents={"launcher": 1, "helper": 1},
    ),
    pytest.param(
        jax,
        [{"ranks": [0, 1], "launcher": 1}],
        True,
        "jax with agents",
        marks=[slow, extra, needs("jax")],
        id="jax with agents",
    ),
]


@pytest.mark.parametrize(("command", "expected", "agents", "name"), TABLE)
def test_one_job(
    launched: Launched, command: list[str], expected: list[Job], agents: bool, name: str
) -> None:
    launched.start(command, agents)
    launched.wait_for(*expected, name=name)


def test_two_jobs_at_once(launched: Launched) -> None:
    """Of the same program, started by the same shell."""
    command = LOOP.format(f"{PYTHON} PROGRAM")
    launched.start(["sh", "-c", f"({command}) & ({command}) & wait"])
    launched.wait_for({"ranks": [0, 1, 2]}, {"ranks": [0, 1, 2]}, name="two jobs at once")


def test_name_of_its_script(launched: Launched) -> None:
    """Is one of the job's, though nobody has given it a name; it narrows what is asked."""
    launched.start(["sh", "-c", LOOP.format(f"{PYTHON} PROGRAM")])
    launched.wait_for({"ranks": [0, 1, 2]})
    with Session(timeout=ANSWER_SECONDS) as session:
        by_script = session.job(launched.program.name)
        assert {rank.job for rank in by_script} == {
            rank.job for rank in session.job(by_script[0].job)
        }
        assert sorted(rank.number or 0 for rank in by_script) == [0, 1, 2]


@pytest.mark.extra
@slow
@needs("ray")
@needs("accelerate")
def test_job_in_an_actor_in_a_slurm_job(launched: Launched) -> None:
    """Ray runs inside the Slurm job, and what an actor has launched inside Ray's. All inherit the
    variables of the Slurm job."""
    in_slurm = words("env", "SLURM_JOB_ID=4711", "RAY_AUTH_MODE=disabled", PYTHON)
    seen: list[Any] = []
    # Ray's sockets are in this directory, and their paths must be short.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        Session(timeout=ANSWER_SECONDS) as session,
    ):
        driver = words(PROGRAMS / "ray_starts_a_job.py", place)
        launched.start([*in_slurm, *driver, *accelerate, "PROGRAM"])

        def is_right() -> bool:
            roster = session.roster(where=False)
            jobs = roster.jobs()
            train = [job for job in jobs if job.startswith(launched.program.stem)]
            seen[:] = [train, roster.inside, jobs.keys()]
            inner = train[0] if train else ""
            numbers = sorted(rank.number or 0 for rank in jobs.get(inner, ()))
            around = roster.inside.get(inner, "")
            return numbers == [0, 1] and roster.inside.get(around) == "slurm-4711"

        wait_for(is_right, lambda: seen, 120)
        (inner,), inside, _ = seen
        assert inside[inner].startswith("ray-")
        if recorded_rosters.RECORDING:
            launched.record("a job in an actor in a slurm job", session, {place: "/ray"})
        launched.end()
