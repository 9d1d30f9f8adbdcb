"""`rankdbg watch` in and beside jobs of a real Slurm, whose controller goes away at times."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import PROGRAMS
from slurm_cluster import SlurmCluster, running_cluster
from waiting import wait_for
from watching import WATCHED, Watch

RANKDBG = f"{sys.executable} -m rankdbg"
QUICK = "--hang-after 1 --look-every 0.5 --cuda none"
SRUN = "srun --mpi=none"


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    # Slurm's commands wait for so long for a controller that is away. A job that has reached its
    # time limit runs on, however long the tests before it take.
    with running_cluster(MessageTimeout=5, OverTimeLimit="UNLIMITED") as cluster:
        yield cluster


class Batch:
    """A job whose script runs in a folder of its own, and what it leaves there."""

    def __init__(self, slurm: SlurmCluster, place: Path, script: str, *options: str) -> None:
        self.slurm, self.place = slurm, place
        self.said = place / "said.txt"
        common = (f"--chdir={place}", f"--output={self.said}")
        self.job = slurm.submit_script(script, *common, *options)

    def wait_for(self, name: str, patience: float = 90) -> str:
        """The content of a file that it makes in one piece."""

        def told() -> str:
            said = self.said.read_text() if self.said.exists() else "nothing"
            return f"{name}; said: {said}"

        wait_for((self.place / name).exists, told, patience)
        return (self.place / name).read_text()

    def wait_until_said(self, text: str, patience: float = 90) -> None:
        wait_for(
            lambda: self.said.exists() and text in self.said.read_text(),
            lambda: f"{text!r} in {self.said.exists() and self.said.read_text()!r}",
            patience,
        )

    def report(self, name: str = "backtraces/report.json") -> dict[str, object]:
        report: dict[str, object] = json.loads((self.place / name).read_text())
        return report

    def end(self) -> None:
        self.slurm.call("scancel", self.job)


@pytest.fixture(scope="module", autouse=True)
def limited(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """A job of a minute, the shortest that Slurm knows: it runs while other tests do."""
    command = f"{SRUN} {sys.executable} {WATCHED} go-on"
    watch = f"exec {RANKDBG} watch {QUICK} --before-end 45 -- {command}"
    return Batch(slurm, tmp_path_factory.mktemp("limited"), watch, "-N1", "-n1", "--time=1")


def status(watch: str) -> str:
    """A script that leaves the exit status of a watch in a file."""
    return f"{watch}\necho $? > status.part; mv status.part status\n"


@pytest.mark.extra
def test_heterogeneous_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    """All components are one job: its ranks are shown, and a hang on all nodes is found."""
    command = f"{SRUN} --het-group=0,1 {sys.executable} {WATCHED} hang"
    script = (
        "#SBATCH -N1 -n2\n#SBATCH hetjob\n#SBATCH -N2 -n2\n"
        "until [ -e go ]; do sleep 0.1; done\n"
        + status(f"{RANKDBG} watch {QUICK} --abort -- {command}")
    )
    batch = Batch(slurm, tmp_path, script)
    (tmp_path / "go").touch()
    assert batch.wait_for("status", 120) == "86\n", batch.said.read_text()
    report = batch.report()
    assert (report["stuck"], report["culprit"]) == (True, "0-3")


@pytest.mark.extra
def test_components_as_targets(slurm: SlurmCluster, tmp_path: Path) -> None:
    """slurm:J is all components, slurm:J+1 is one; a component's own number names it too."""
    command = f"{SRUN} --het-group=0,1 {RANKDBG} run -- {sys.executable} {WATCHED} go-on"
    script = f"#SBATCH -N1 -n2\n#SBATCH hetjob\n#SBATCH -N2 -n2\n{command}\n"
    batch = Batch(slurm, tmp_path, script)
    slurm.wait_for_ranks(batch.job, 4, "train")
    found = slurm.roster(batch.job)
    assert [job["job"] for job in found["jobs"]] == [f"slurm-{batch.job}"]
    assert sorted(rank["rank"] for rank in found["ranks"]) == [0, 1, 2, 3]
    for target, numbers in (
        ((f"{batch.job}+0",), [0, 1]),
        ((f"{batch.job}+0.0", "het=0"), [0, 1]),
        ((batch.job, "het=0"), [0, 1]),
        ((batch.job, "het=1"), [2, 3]),
        ((f"{batch.job}+1",), [2, 3]),
        ((str(int(batch.job) + 1),), [2, 3]),
    ):
        found = slurm.json("ps", "-t", f"slurm:{target[0]}", *target[1:])
        assert sorted(rank["rank"] for rank in found["ranks"]) == numbers, target
    batch.end()


@pytest.mark.extra
def test_array(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Each element is watched by itself, the last one too, whose number is the array's; the name
    that a script makes from any of its numbers is the job's."""
    command = f"{SRUN} {sys.executable} {WATCHED} hang"
    watch = f"{RANKDBG} watch {QUICK} --abort --output-dir . $JOB -- {command}"
    script = (
        "mkdir $SLURM_ARRAY_TASK_ID; cd $SLURM_ARRAY_TASK_ID\n"
        '[ $SLURM_ARRAY_TASK_ID = 1 ] && JOB="--job slurm-$SLURM_JOB_ID"\n'
        f'[ $SLURM_ARRAY_TASK_ID = 2 ] && JOB="--job slurm-$SLURM_ARRAY_JOB_ID"\n{status(watch)}'
    )
    batch = Batch(slurm, tmp_path, script, "--array=1-3", "-N1", "-n1")
    for element in (1, 2, 3):
        assert batch.wait_for(f"{element}/status", 150) == "86\n", batch.said.read_text()
        assert batch.report(f"{element}/report.json")["stuck"] is True


def test_cancelled_job_leaves_evidence(slurm: SlurmCluster, tmp_path: Path) -> None:
    """scancel signals everything at once; what could be seen is there, with the reason, and a job
    that was well is not accused."""
    command = f"{SRUN} {sys.executable} {PROGRAMS / 'saves_when_cancelled.py'}"
    batch = Batch(slurm, tmp_path, f"exec {RANKDBG} watch {QUICK} -- {command}", "-N2", "-n2")
    slurm.wait_for_ranks(batch.job, 2, "train")
    batch.wait_until_said(f"watching job slurm-{batch.job}")
    slurm.cancel(batch.job)
    batch.wait_until_said("SIGTERM from slurmstepd")
    folder = tmp_path / "backtraces"
    assert "SIGTERM from slurmstepd" in batch.wait_for("backtraces/report.txt", 0)
    assert len([*folder.glob("stacks_node-*.txt")]) == 2
    if (folder / "report.json").exists():
        assert batch.report()["stuck"] is False


def test_signal_of_the_batch_script(slurm: SlurmCluster, tmp_path: Path) -> None:
    """A watch that takes the script's place gets what --signal=B:USR1 or scancel --batch send; the
    ranks get it when the evidence is there."""
    command = f"{SRUN} {sys.executable} {WATCHED} handle-signals"
    watch = f"{RANKDBG} watch {QUICK} --grace 60 -- {command}"
    batch = Batch(slurm, tmp_path, f"exec {watch}", "-N1", "-n1")
    slurm.wait_for_ranks(batch.job, 1, "train")
    batch.wait_for("ready")
    slurm.call("scancel", "--batch", "--signal=USR1", batch.job)
    assert batch.wait_for("got-SIGUSR1") == "collected"
    assert batch.report()["collected"] == "SIGUSR1 from slurmstepd"
    assert batch.report()["stuck"] is False
    batch.end()


@pytest.mark.extra
def test_element_of_an_array_as_target(slurm: SlurmCluster, tmp_path: Path) -> None:
    """One that ends does not look like the others, which run on under the same number."""
    options = ("-N1", "-n1", "--array=1-2")
    array = slurm.submit_ranks(Path(WATCHED), "go-on", options=options)
    slurm.wait_for_ranks(f"{array}_2", 1, "train")
    target = ("-t", f"slurm:{array}_2", "--job", f"slurm-{array}", "--look-every", "0.5")
    with Watch(tmp_path, slurm.environment, *target) as watch:
        watch.wait_until_said(f"watching job slurm-{array}_2")
        slurm.call("scancel", f"{array}_2")
        assert watch.wait() == 0
        assert f"job {array}_2 has ended" in watch.said
    slurm.call("scancel", array)


@pytest.mark.slow
def test_time_limit(limited: Batch) -> None:
    """Slurm is asked for it, where the environment does not tell it."""
    limited.wait_until_said("before the time limit: ")
    assert limited.slurm.state(limited.job) == "RUNNING"
    assert limited.report()["stuck"] is False
    limited.end()


# --- the controller is away, for all jobs ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("away", ["frozen", pytest.param("killed", marks=pytest.mark.extra)])
def test_controller_is_away(slurm: SlurmCluster, tmp_path: Path, away: str) -> None:
    """The command runs unwatched and ends with its own status; when the controller is back, the
    job is watched again."""
    command = f"{sys.executable} {WATCHED} handle-signals"
    script = f"until [ -e go ]; do sleep 0.1; done; {RANKDBG} watch {QUICK} -- {command}"
    batch = Batch(slurm, tmp_path, f"touch begun\n{status(script)}", "-N1", "-n1")
    batch.wait_for("begun")
    if away == "frozen":
        slurm.freeze_controller()
    else:
        slurm.kill_controller(batch.job)
    try:
        (tmp_path / "go").touch()
        batch.wait_until_said("the job runs unwatched")
        batch.wait_for("ready")
        assert not (tmp_path / "status").exists()
    finally:
        (slurm.thaw_controller if away == "frozen" else slurm.start_controller)()
    batch.wait_until_said("the job is watched again")
    wait_for(lambda: slurm.state(batch.job) == "RUNNING", "Slurm knows the job")
    (pid,) = [pid for pid in slurm.processes(WATCHED) if _is(pid, "handle-signals")]
    subprocess.run(["kill", str(pid)], check=True)
    assert batch.wait_for("status") == "5\n"


def _is(pid: int, word: str) -> bool:
    """Whether the program itself is this, and not a watch that has it among its arguments."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return word in words and "rankdbg" not in words


@pytest.mark.slow
def test_target_ends(slurm: SlurmCluster, tmp_path: Path) -> None:
    """A watch of a job ends when Slurm says that the job has, and not while the controller is away."""
    job = slurm.submit_ranks(Path(WATCHED), "go-on", options=("-N2", "-n2"))
    slurm.wait_for_ranks(job, 2, "train")
    options = ("-t", f"slurm:{job}", "--look-every", "0.5")
    with Watch(tmp_path, slurm.environment, *options) as watch:
        watch.wait_until_said(f"watching job slurm-{job}")
        # A node that has not answered yet is watched from the next look on.
        wait_for(lambda: len(slurm.node_processes()) == 2, slurm.node_processes)
        slurm.freeze_controller()
        try:
            for pid in slurm.processes("rankdbg.node", "slurm"):
                subprocess.run(["kill", "-9", str(pid)], check=False)
            # Slurm's own commands wait for the controller first.
            watch.wait_until_said("runs unwatched", 90)
            assert watch.process.poll() is None
        finally:
            slurm.thaw_controller()
        slurm.cancel(job)
        assert watch.wait() == 0
        assert (
            f"job {job} has ended: its state is C" in watch.said
        )  # CANCELLED, or still COMPLETING
