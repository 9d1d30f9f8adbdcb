"""A job has its name after its death, as long as its logs are there: logs, doctor and why read them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from jobs import Job
from rankdbg.node.machine.processes import read_stat
from waiting import wait_for

ENDS = "import os; print('epoch', os.environ['EPOCH'], flush=True); {0}"
RAISES = ENDS.format("raise ValueError('shard 7 is damaged')")
WAITS = ENDS.format("import signal; signal.pause()")
LOOP = """
for i in 0 1; do
    RANK=$i WORLD_SIZE=2 EPOCH={epoch} {python} -c "{code}" > {folder}/{epoch}-$i.log 2>&1 &
done
wait
"""


def start(job: Job, folder: Path, epoch: int, code: str) -> Any:
    script = LOOP.format(folder=folder, epoch=epoch, code=code, python=sys.executable)
    process = job.start("sh", "-c", script)
    said = [folder / f"{epoch}-{rank}.log" for rank in (0, 1)]
    wait_for(lambda: all(log.exists() and "epoch" in log.read_text() for log in said))
    return process


def kill(job: Job, process: Any) -> None:
    """Everything at once, so that nothing cleans up."""
    ranks = job.wait_for(lambda ranks: [rank.agent for rank in ranks] == [True, True])
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: all(has_ended(rank.pid) for rank in ranks))


def has_ended(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is None or stat.state in "ZX"


def lines(job: Job) -> dict[str, str]:
    """Text -> ranks."""
    return {line["text"]: line["ranks"] for line in job.json("logs")["lines"]}


def test_killed_job(job: Job, tmp_path: Path) -> None:
    """Its logs are found by its name, as often as one asks; not when they are gone."""
    kill(job, start(job, tmp_path, 1, WAITS))
    for _ in range(2):
        assert lines(job) == {"epoch 1": "0-1"}
    for log in tmp_path.glob("*.log"):
        log.unlink()
    assert "no job" in job.cli("logs").stderr


def test_job_that_has_raised(job: Job, tmp_path: Path) -> None:
    """The agent leaves the card when the program exits; why and doctor say what it died of."""
    start(job, tmp_path, 1, RAISES).wait()
    verdict = json.loads(job.cli("why", "--json").stdout)
    assert (verdict["state"], verdict["stuck"]) == ("ended", False), verdict
    assert "shard 7 is damaged" in job.cli("doctor", "--json").stdout


def test_children_of_another_job(job: Job, tmp_path: Path) -> None:
    """One that its parent has not collected is not told of a job that has ended."""
    ended, log = job.name, tmp_path / "other.log"
    start(job, tmp_path, 1, RAISES).wait()
    job.name = f"{ended}-other"
    program = (
        "import os, signal; os.fork() or os._exit(0); print('ready', flush=True); signal.pause()"
    )
    environment = {"RANK": "0", "WORLD_SIZE": "1"}
    with log.open("w") as output:
        job.start(sys.executable, "-c", program, env=environment, stdout=output)
    wait_for(lambda: "not collected" in job.cli("doctor", "--json").stdout)
    job.name = ended
    report = job.cli("doctor", "--json").stdout
    assert "shard 7 is damaged" in report
    assert "not collected" not in report, report


def test_beside_a_node_without_response(job: Job, tmp_path: Path) -> None:
    """What the job has left on the others is read; that it has ended is not claimed, since that node
    may have ranks."""
    start(job, tmp_path, 1, RAISES).wait()
    result = job.cli("doctor", "-t", "local", "-t", "ssh:nowhere.invalid")
    assert result.returncode == 1, result.stderr
    said = " ".join(result.stdout.split())
    assert "shard 7 is damaged" in said
    assert "1 of 2 nodes answer" in said and "nowhere.invalid" in said
    assert f"{job.name} does not run on a node that answers; what it has left is read" in said


def test_started_again_under_its_name(job: Job, tmp_path: Path) -> None:
    """The last run is meant, however the ones before have ended: while it runs, and after its death."""
    start(job, tmp_path, 1, RAISES).wait()
    process = start(job, tmp_path, 2, WAITS)
    assert lines(job) == {"epoch 2": "0-1"}
    kill(job, process)
    assert lines(job) == {"epoch 2": "0-1"}
    kill(job, start(job, tmp_path, 3, WAITS))
    process = start(job, tmp_path, 4, WAITS)
    assert lines(job) == {"epoch 4": "0-1"}
    kill(job, process)
    assert lines(job) == {"epoch 4": "0-1"}
