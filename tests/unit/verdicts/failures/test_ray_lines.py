"""Whom Ray's messages are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.logs.patterns import FileScan, Pattern
from rankdbg.logs.places import LogFile
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.failures import ray_lines
from rankdbg.verdicts.failures.log_lines import Origin, Origins
from rankdbg.verdicts.failures.root_causes import diagnose
from rankdbg.verdicts.rules.log_rules import load_rules

DIED = """\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: Trainer
\tactor_id: 1cb98fcea6caeabe93847bcd03000000
\tpid: 491
\tname: trainer-1
\tip: 10.0.0.2
The actor is dead because its worker process has died.
"""
RAISED = """\
Traceback (most recent call last):
  File "train.py", line 9, in main
    ray.get(running)
ray.exceptions.RayTaskError(ValueError): ray::Trainer.step() (pid=320, ip=10.0.0.2, actor_id=8e)
  File "train.py", line 35, in step
ValueError: shard 7 is damaged
"""
# raylet.out, shortened: the constructor of an actor of job 4, and the environment of job 15.
QUOTED = """\
[2026-11-18 23:40:46,625 I 85 85] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=true, \
has_creation_task_exception=true worker_id=4da731571231db664947ebdccbdfc65058a7ea4e369b1f0b94a27404 job_id=04000000
[2026-11-18 23:40:46,625 I 85 85] (raylet) node_manager.cc:1504: Formatted creation task exception: \
Traceback (most recent call last):

  File "python/ray/_raylet.pyx", line 2198, in ray._raylet.execute_task

  File "/home/me/train.py", line 14, in __init__
    raise ValueError("no tokenizer at /x")

ValueError: no tokenizer at /x

 worker_id=4da731571231db664947ebdccbdfc65058a7ea4e369b1f0b94a27404
[2026-11-18 23:42:33,033 I 85 85] (raylet) runtime_env_agent_client.cc:387: Failed to create runtime \
env for job 0f000000, error message: [Node 127.0.0.1] Traceback (most recent call last):
  File "/opt/ray/_private/runtime_env/pip.py", line 132, in __init__
    import virtualenv  # noqa: F401 ensure virtualenv exists.
ValueError: No module named 'virtualenv'

[2026-11-18 23:42:34,033 E 85 85] (raylet) main.cc:7: ValueError: of no job
"""
PATTERNS = [
    Pattern("wanted", (("died unexpectedly", ""), ("ValueError: ", ""), ("(autoscaler", ""))),
    Pattern("traceback", (("Traceback", ""),), after=40),
    *ray_lines.PATTERNS,
]


def scan(path: Path, text: str) -> FileScan:
    path.write_text(text)
    return Scanner(PATTERNS).scan(str(path))


def origins(path: Path, text: str) -> dict[str, Origin]:
    """By the beginning of the line."""
    found = scan(path, text)
    known = Origins([found])
    return {hit.text[:12]: known.of(found.path, hit) for hit in found.hits}


@pytest.mark.parametrize("name", ["ray::Trainer.step()", "ray::trainer-1:Trainer.__init__()"])
def test_an_error_of_an_actor(tmp_path: Path, name: str) -> None:
    """A driver's traceback, and what stands in it, is the actor's."""
    text = RAISED.replace("ray::Trainer.step()", name)
    found = origins(tmp_path / "driver.log", text)
    expected = Origin(None, 320, "Trainer", "10.0.0.2")
    assert (found["Traceback (m"], found["ValueError: "]) == (expected, expected)


def test_an_actor_that_has_died(tmp_path: Path) -> None:
    """The lines after the message describe it."""
    found = origins(tmp_path / "driver.log", DIED)
    assert found["ray.exceptio"] == Origin(None, 491, "Trainer", "10.0.0.2")


def test_what_others_say_in_between(tmp_path: Path) -> None:
    """A line with a prefix of its own is not of the traceback before it."""
    found = origins(tmp_path / "driver.log", RAISED + "(autoscaler +5s) Error: no nodes\n")
    assert found["(autoscaler "].pid is None


def test_the_rank_of_the_process(tmp_path: Path) -> None:
    """Where a worker's file is known to be a rank's, the driver's line is that rank's too."""
    driver = scan(tmp_path / "driver.log", RAISED)
    worker = FileScan("w", file=LogFile("node-2", "w", kind="ray", pid=320, ranks=(5,)))
    known = Origins([driver, worker])
    assert {known.of(driver.path, hit).rank for hit in driver.hits} == {5}


def test_lines_of_other_jobs(tmp_path: Path) -> None:
    """In Ray's own logs an actor's number ends with its job's."""
    (hit,) = (h for h in scan(tmp_path / "a", DIED).hits if h.pattern == "speaks:died")
    line = hit._replace(text="Actor 1cb98fcea6caeabe93847bcd03000000 died")
    assert ray_lines.Jobs([]).is_of_another(line, "ray-05000000")
    assert not ray_lines.Jobs([]).is_of_another(line, "ray-03000000")
    assert not ray_lines.Jobs([]).is_of_another(line, "train-4f2a")
    driver = hit._replace(
        text=f"Reporting worker exit, worker id = 03000000{'f' * 48}, node", after=()
    )
    assert ray_lines.Jobs([]).is_of_another(driver, "ray-05000000")


def test_workers_of_other_jobs(tmp_path: Path) -> None:
    """They are known by their files, also where a job has another name than Ray's."""
    (hit,) = (h for h in scan(tmp_path / "a", DIED).hits if h.pattern == "speaks:died")
    ours, theirs = "a" * 56, "b" * 56
    jobs = ray_lines.Jobs(
        [
            LogFile("node-1", f"/tmp/ray/worker-{ours}-01000000-7.err", job="train-4f2a"),
            LogFile("node-1", f"/tmp/ray/worker-{theirs}-02000000-8.err", job="ray-02000000"),
        ]
    )
    for worker, other in ((ours, False), (theirs, True)):
        line = hit._replace(text=f"Reporting worker exit, worker id = {worker}, node", after=())
        assert jobs.is_of_another(line, "train-4f2a") is other
    line = hit._replace(text="Actor 1cb98fcea6caeabe93847bcd01000000 died", after=())
    assert not jobs.is_of_another(line, "train-4f2a")


def test_what_a_raylet_quotes(tmp_path: Path) -> None:
    """The lines of an error that a raylet quotes belong to the job that it names before them."""

    def left(job: str) -> list[str]:
        found = ray_lines.Jobs([]).without_others(scan(tmp_path / "r", QUOTED).hits, job)
        return [hit.text.rpartition(": ")[2] for hit in found if hit.pattern == "wanted"]

    assert left("ray-05000000") == ["of no job"]
    assert left("ray-04000000") == ["no tokenizer at /x", "of no job"]
    assert left("ray-0f000000") == ["No module named 'virtualenv'", "of no job"]


def test_directory_of_a_session_in_which_all_is_well(tmp_path: Path) -> None:
    """Its actors end with their job, and rankdbg's own with rankdbg: what Ray writes of that for its
    makers is no failure."""
    logs = tmp_path / "session_latest" / "logs"
    logs.mkdir(parents=True)
    when, own = "[2026-11-18 23:48:18,234 I 238 256]", "aaa45b93c633bb2b983c528b" + "0" * 32
    (logs / f"python-core-driver-01000000{'f' * 48}_238.log").write_text(
        f"{when} actor_manager.cc:236: received notification on actor, state: DEAD, num_restarts: 0, "
        "death context type=ActorDiedErrorContext actor_id=99091f1dc08cc763f168a59001000000\n"
    )
    killed = "The actor is dead because it was killed by `ray.kill`.\n"
    (logs / f"python-core-worker-{own}_333.log").write_text(f"{when} core_worker.cc:4630: {killed}")
    (logs / f"worker-{own}-01000000-333.out").write_text(
        f":job_id:01000000\n:actor_name:RankdbgNode\n{killed}"
    )
    worker = "82232bacb17d52b262f121031fbdce67e91b60339fb9d12084b8d379"
    (logs / f"worker-{worker}-02000000-1829.out").write_text("2026-11-18 23:48:10 INFO step 1\n")
    rules = load_rules()
    assert diagnose(given_logs([str(tmp_path)], rules.patterns()).scan(), rules).failures == ()


def test_driver_of_another_job_in_the_log_of_the_head(tmp_path: Path) -> None:
    """The head's log tells of all jobs; the id of a driver as a worker begins with its job's."""
    logs = tmp_path / "session_latest" / "logs"
    logs.mkdir(parents=True)
    exits = "gcs_worker_manager.cc:70: Reporting worker exit, worker id = {}, address = 10.0.0.1, "
    exits += (
        "exit_type = SYSTEM_ERROR, exit_detail = Worker unexpectedly exits with a connection error "
        "code 2. End of file. Some common causes include: (1) the process was killed by the OOM killer"
    )
    head = f"[2026-11-17 15:24:15,567 W 7 7] (gcs_server) {exits}\n"
    (logs / "gcs_server.out").write_text(head.format("06000000" + "f" * 48))
    worker = "82232bacb17d52b262f121031fbdce67e91b60339fb9d12084b8d379"
    (logs / f"worker-{worker}-0b000000-1829.out").write_text("2026-11-17 15:24:10 INFO step 1\n")
    rules = load_rules()
    found = diagnose(given_logs([str(tmp_path)], rules.patterns()).scan(), rules)
    assert [failure.mode for failure in found.failures if failure.role == "root"] == []
    (logs / "gcs_server.out").write_text(head.format("0b000000" + "f" * 48))
    found = diagnose(given_logs([str(tmp_path)], rules.patterns()).scan(), rules)
    assert [failure.mode for failure in found.failures] != []
