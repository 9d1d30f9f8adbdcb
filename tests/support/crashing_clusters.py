"""Jobs that really crash on Ray and Slurm, of two and four nodes. As a program it records their logs
anew, beside those of crashing_jobs.py:

    python tests/support/crashing_clusters.py [NAME ...]"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crashing_jobs import RECORDS, TESTS, neutral
from ray_cluster import HEAD, OTHER, RayCluster
from slurm_cluster import SlurmCluster, running_cluster
from waiting import PATIENCE, wait_for

ACTORS = TESTS / "programs/crashing_actors.py"
RANK = TESTS / "programs/crashing_rank.py"


@dataclass(frozen=True)
class ClusterJob:
    """`modes`: those that are right; empty where nothing failed. `rank` and `host`: where."""

    fault: str
    modes: tuple[str, ...]
    rank: int | None = None
    host: str = ""
    action: str = ""  # what is done to the job while it runs: a method of the recorder


DIED = ("ray_worker_died_sigkill", "ray_actor_died_sigkill")
RAY_JOBS = {
    "ray_exception": ClusterJob("raise_error", ("python_error",), 3, OTHER),
    "ray_killed": ClusterJob("kill_itself", DIED, 3, OTHER),
    "ray_segfault": ClusterJob("crash_in_c", ("segfault", *DIED), 3, OTHER),
    "ray_full_disk": ClusterJob("fill_the_disk", ("disk_full",), 3, OTHER),
    "ray_constructor": ClusterJob("constructor", ("ray_actor_init_failed",), None, OTHER),
    "ray_finished": ClusterJob("nothing", ()),
    "ray_node_lost": ClusterJob("wait", ("ray_node_dead_heartbeat", *DIED), None, OTHER, "lose_node"),
}  # fmt: skip
SLURM_JOBS = {
    "slurm_exception": ClusterJob("raise_error", ("python_error",), 5, "node-1"),
    "slurm_killed": ClusterJob("kill_itself", ("torchrun_child_sigkill",), 5, "node-1"),
    "slurm_segfault": ClusterJob("crash_in_c", ("segfault",), 5, "node-1"),
    "slurm_cancelled": ClusterJob("nothing", ("slurm_step_cancelled",), action="cancel"),
    "slurm_node_failed": ClusterJob("nothing", ("slurm_node_failed",), None, "node-2", "fail"),
    "slurm_time_limit": ClusterJob("nothing", ("slurm_time_limit",), action="wait"),
    "slurm_finished": ClusterJob("nothing", ()),
}
CLUSTER_JOBS = {**RAY_JOBS, **SLURM_JOBS}


# --- Ray ------------------------------------------------------------------------------------------


def run_on_ray(cluster: RayCluster, job: ClusterJob, folder: Path) -> None:
    """Leaves the driver's log, and those of this job's workers and of Ray itself, in the folder."""
    before = {path for address in (HEAD, OTHER) for path in _ray_logs(cluster, address)}
    driver = folder / "driver.log"
    with driver.open("w") as log:
        words = [*cluster.enter(), sys.executable, str(ACTORS), cluster.address, job.fault]
        env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ACTORS.parent)}
        running = subprocess.Popen(words, stdout=log, stderr=log, env=env, cwd=folder)
        if job.action == "lose_node":
            wait_for(lambda: driver.read_text().count("step 3") >= 2, driver.read_text)
            cluster.kill_node(OTHER)
        running.wait(PATIENCE)
    for address in (HEAD, OTHER):
        for path in _ray_logs(cluster, address):
            is_rays_own = path.name in ("raylet.out", "gcs_server.out")
            if (path not in before or is_rays_own) and path.stat().st_size:
                target = folder / address / "session_latest/logs" / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_without_states(path.read_text(errors="replace")))


def _without_states(text: str) -> str:
    """Without what Ray tells of itself every minute."""
    lines = text.splitlines(keepends=True)
    return "".join(
        x for x in lines if not re.match(r"\[state-dump\]|\s|- |Global|Exec|Event|Queue", x)
    )


def _ray_logs(cluster: RayCluster, address: str) -> list[Path]:
    logs = (cluster.scratch / address).glob("session_2*/logs/*")
    kinds = re.compile(r"worker-.*\.(out|err)$|raylet\.out$|gcs_server\.out$")
    return sorted(path for path in logs if kinds.match(path.name))


# --- Slurm ----------------------------------------------------------------------------------------


def run_on_slurm(cluster: SlurmCluster, job: ClusterJob, folder: Path) -> None:
    """Leaves the output of the batch script in the folder."""
    output = folder / "slurm.out"
    steps = 12 if job.action == "" else 3000
    script = (
        f"export BAD=5 PYTHONUNBUFFERED=1 STEPS={steps}\n"
        "srun -l --mpi=none --kill-on-bad-exit=1 "
        f"sh -c 'RANK=$SLURM_PROCID exec {sys.executable} {RANK} {job.fault} -'\n"
    )
    limit = ["--time=1"] if job.action == "wait" else []
    number = cluster.submit_script(
        script, "-N4", "-n8", "--no-requeue", f"--output={output}", *limit
    )
    if job.action in ("cancel", "fail"):
        wait_for(lambda: output.exists() and " step 3 " in output.read_text(), "steps")
        ACTIONS[job.action](cluster, number)
    wait_for(lambda: cluster.state(number) not in ("RUNNING", "PENDING", "COMPLETING"), "the end")  # fmt: skip


def _cancel(cluster: SlurmCluster, number: str) -> None:
    cluster.call("scancel", number)


def _fail(cluster: SlurmCluster, number: str) -> None:
    """A machine that is gone: its daemons and tasks end, and an operator says that it is down."""
    cluster.kill_node("node-2")
    for pid in cluster.processes(f"SLURM_JOB_ID={number}", "SLURMD_NODENAME=node-2"):
        os.kill(pid, signal.SIGKILL)
    cluster.call("scontrol", "update", "nodename=node-2", "state=down", "reason=gone")


ACTIONS: dict[str, Callable[[SlurmCluster, str], None]] = {"cancel": _cancel, "fail": _fail}


# --- records --------------------------------------------------------------------------------------


def record(name: str, run: Callable[[Path], None]) -> None:
    """What the run leaves in its folder, without the names of this machine."""
    target = RECORDS / name
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        os.chmod(folder, 0o755)
        run(folder)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            inside = target / path.relative_to(folder)
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.write_text(neutral(path.read_text(errors="replace"), folder))
    print(name, flush=True)


def main(names: list[str]) -> None:
    slurm = [name for name in SLURM_JOBS if name in names]
    if slurm:
        with running_cluster() as slurm_cluster:
            for name in slurm:
                record(name, partial(run_on_slurm, slurm_cluster, SLURM_JOBS[name]))
                if SLURM_JOBS[name].action == "fail":
                    slurm_cluster.start_node("node-2")
                slurm_cluster.wait_for_nodes("idle")
    ray = [name for name in RAY_JOBS if name in names]
    if ray:
        with RayCluster() as ray_cluster:
            for name in ray:
                record(name, partial(run_on_ray, ray_cluster, RAY_JOBS[name]))


if __name__ == "__main__":
    main(sys.argv[1:] or [*CLUSTER_JOBS])
