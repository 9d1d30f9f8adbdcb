"""Which log files are one, whose they are, and what their names say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rankdbg.logs.places import RAY, FoundLogs, LogFile, kind_of, merged, ray_worker
from rankdbg.node.logs import open_logs, ray_sessions
from rankdbg.node.logs.slurm_outputs import find_outputs


def test_a_file_of_many_ranks_is_one() -> None:
    """On a file system that two nodes share it is read once, where somebody writes it."""
    shared = {"path": "/home/train.log", "identity": "1f"}
    files = [
        LogFile("login", **shared),
        LogFile("node-1", **shared, kind="open", ranks=(0,), pid=11, job="t"),
        LogFile("node-2", **shared, kind="open", ranks=(1,), pid=12, job="t"),
    ]
    (file,) = merged(files)
    assert (file.node, file.ranks, file.pid, file.job) == ("node-1", (0, 1), None, "t")


def test_files_of_one_name_on_two_nodes_are_two() -> None:
    """Every node has its own /tmp."""
    files = [LogFile("a", "/tmp/x.log", identity="1"), LogFile("b", "/tmp/x.log", identity="2")]
    assert [file.node for file in merged(files)] == ["a", "b"]


def test_a_launcher_does_not_own_what_it_has_opened() -> None:
    """torchrun opens the files of its ranks: they are the ranks' all the same."""
    same = {"path": "/l/attempt_0/0/stderr.log", "identity": "1", "job": "t"}
    launcher = LogFile("a", **same, role="launcher", pid=1)
    rank = LogFile("a", **same, kind="open", ranks=(4,), pid=2)
    (file,) = merged([launcher, rank])
    assert (file.rank, file.pid, file.role) == (4, 2, "")


def test_the_files_of_a_job() -> None:
    """Its own and those of nobody; Ray's own only for a job of Ray's."""
    own = LogFile("a", "/w/worker.err", kind="ray", job="ray-01000000")
    files = [own, LogFile("a", "/w/raylet.out", kind="ray", job=RAY), LogFile("a", "/x", job="t")]
    found = FoundLogs(files)
    assert [file.path for file in found.of_job("ray-01000000").files] == [
        "/w/worker.err",
        "/w/raylet.out",
    ]
    assert [file.path for file in found.of_job("t").files] == ["/x"]


def test_a_file_of_two_jobs_belongs_to_no_third_one() -> None:
    """All Monarch jobs of a user write into one file; a job that does not is not read with it."""
    same = {"path": "/tmp/me/monarch_log.log", "identity": "1"}
    files = merged([LogFile("a", **same, job="one"), LogFile("a", **same, job="two")])
    found = FoundLogs([LogFile.from_json(file.as_json(), "a") for file in files])
    assert [len(found.of_job(job).files) for job in ("one", "two", "three")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/ray/session_1/logs/worker-0c3d-01000000-490.err", "ray"),
        ("/logs/none_ab/attempt_0/3/stderr.log", "torchrun"),
        ("/out/structured_logs/training_rank_0.jsonl", "torchtitan"),
        ("/run/training/10.0.0.1/training_g0_rank2_20260301_080013.log", "torchspec"),
        ("/home/me/train.log", "open"),
    ],
)
def test_what_a_name_says(path: str, kind: str) -> None:
    """Who has written a file is known by its form."""
    assert kind_of(path) == kind


def test_a_worker_of_ray() -> None:
    """Its file's name has the worker, the job and the process."""
    assert ray_worker("worker-0c3d-01000000-490.err") == ("0c3d", "01000000", 490, "stderr")
    assert ray_worker("raylet.out") is None


def test_what_a_worker_of_ray_has_written_first(tmp_path: Path) -> None:
    """Its job and its class, also after it has died."""
    log = tmp_path / "worker-1-ffffffff-2.err"
    log.write_text(":job_id:03000000\n:actor_name:trainer.Trainer\nstep 1\n")
    assert ray_sessions.started_for(str(log)) == ("03000000", "Trainer")


def test_outputs_of_slurm(tmp_path: Path) -> None:
    """A pattern's %t is a rank; what is not known here stands for anything."""
    names = ["t-7-0-nid1.out", "t-7-12-nid2.out", "t-8-0-nid1.out", "t-7-x-nid1.out"]
    for name in names:
        (tmp_path / name).touch()
    found = list(find_outputs("t-%j-%t-%N.out", str(tmp_path), "7"))
    assert [(Path(o.path).name, o.task) for o in found] == [(names[0], 0), (names[1], 12)]
    assert list(find_outputs("100%%-%j.out", str(tmp_path), "7")) == []


def test_output_through_pipes(tmp_path: Path) -> None:
    """The log of `program 2>&1 | sed … | tee FILE` is found from the program's process."""
    log = tmp_path / "train.log"
    script = f"{sys.executable} -c 'print(1, flush=True); input()' 2>&1 | sed -u s/1/2/ | tee {log}"
    pipes = {"stdin": -1, "stdout": -1, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(["sh", "-c", f"exec 3<&0; {script}"], **pipes) as shell:  # type: ignore[call-overload]
        assert shell.stdout.readline() == b"2\n"
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        holdings, _ = open_logs.read_holdings([int(children[0])])
        readers = open_logs.readers_of(holdings.values(), open_logs.read_others(holdings))
        assert [file.path for each in readers.values() for file in each.files] == [str(log)]
        shell.communicate(b"\n")


def test_open_files_that_are_no_logs(tmp_path: Path) -> None:
    """Data that is written is none; a log that was deleted can still be read."""
    program = (
        "import sys\n"
        f"a = open('{tmp_path}/train.log', 'a'); a.write('x\\n'); a.flush()\n"
        f"b = open('{tmp_path}/model.pt', 'wb'); c = open('{tmp_path}/data', 'wb')\n"
        f"d = open('{tmp_path}/events.out.tfevents.1', 'ab'); e = open('{tmp_path}/f', 'a+')\n"
        f"import os; os.unlink('{tmp_path}/train.log')\n"
        "print(flush=True); input()\n"
    )
    pipes = {"stdin": -1, "stdout": -1, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        holdings, _ = open_logs.read_holdings([process.pid])
        (file,) = holdings[process.pid].files
        assert (file.path, file.deleted) == (str(tmp_path / "train.log"), True)
        assert Path(file.place).read_text() == "x\n"
        process.communicate(b"\n")
