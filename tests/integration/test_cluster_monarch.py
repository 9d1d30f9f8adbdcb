"""Real jobs of Monarch with four procs: every verb, breakpoints in endpoints, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import monarch_cluster
from jobs import Job, rankdbg
from monarch_cluster import PROGRAM, MonarchJob, line_of, wait_for
from rankdbg.types import Answer
from waiting import PATIENCE

pytestmark = [
    pytest.mark.skipif(bool(monarch_cluster.missing()), reason=monarch_cluster.missing()),
]

Start = Callable[..., MonarchJob]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[MonarchJob] = []

    def start_job(what: str, *options: str) -> MonarchJob:
        started.append(MonarchJob(what, tmp_path, *options))
        return started[-1]

    yield start_job
    for job in started:
        job.end()


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonarchJob]:
    """Its trainers are in an endpoint that never ends."""
    job = MonarchJob("waits", tmp_path_factory.mktemp("waits"))
    job.until_in("wait")
    yield job
    job.end()


# --- who is there -------------------------------------------------------------------------


def test_roster(waiting: MonarchJob) -> None:
    """Procs are ranks with the mesh's own dimensions; actors' classes are their role."""
    ranks = waiting.until_in("wait")
    assert [rank.number for rank in ranks] == [0, 1, 2, 3]
    assert [dict(rank.coordinates) for rank in ranks] == [
        {"dp": dp, "tp": tp} for dp in range(2) for tp in range(2)
    ]
    assert {(r.role, r.world, r.names["mesh"], r.names["actors"]) for r in ranks} == {
        ("Rollout+Trainer", 4, "workers", "rollout+trainer")
    }


def test_client_is_launcher(waiting: MonarchJob) -> None:
    """The client's process belongs to the job, and is no rank."""
    (client,) = [rank for rank in waiting.ranks(everything=True) if rank.kind != "rank"]
    assert client.kind == "launcher"
    assert str(PROGRAM) in client.command
    shown = waiting.cli("ps", "--all").stdout
    assert shown.count("(launcher)") == 1 and str(client.pid) in shown


def test_only_monarch(waiting: MonarchJob, job: Job) -> None:
    """The target leaves out jobs in which Monarch has started nothing."""
    job.start_ranks("waits")
    job.wait_for(lambda ranks: len(ranks) == 1)
    environment = {**os.environ, "RANKDBG_DIR": str(job.directory)}
    here = rankdbg("ps", "--json", env=environment).stdout
    monarchs = rankdbg("ps", "--json", "-t", "monarch", env=environment).stdout
    assert job.name in here and job.name not in monarchs


def test_renamed_mesh(start: Start) -> None:
    """Messages to a mesh that was renamed bring its new dimension names."""
    job = start("ticks")
    ranks = job.until(lambda ranks: all("replica" in rank.coordinates for rank in ranks))
    assert dict(ranks[2].coordinates) == {"replica": 1, "tp": 0}


def test_without_agent(tmp_path: Path) -> None:
    """Number and mesh are seen from outside, and where the actor is, not the main thread."""
    environment = {**os.environ, "RANKDBG_DIR": str(tmp_path), "RANKDBG": "0"}
    client = subprocess.Popen(
        [sys.executable, PROGRAM, "waits"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        ranks: list[Any] = []

        def seen() -> bool:
            result = rankdbg("ps", "-t", "monarch", "--json")
            all_ranks = [] if result.returncode else json.loads(result.stdout)["ranks"]
            ranks[:] = [r for r in all_ranks if _parent(r["pid"]) == client.pid]
            return len(ranks) == 4 and all(
                r["where"] and r["where"]["function"] == "wait" for r in ranks
            )

        wait_for(seen, lambda: f"four ranks in wait; last: {ranks}")
        assert sorted(rank["rank"] for rank in ranks) == [0, 1, 2, 3]
        assert {(rank["role"], rank["state"]) for rank in ranks} == {("workers", "no agent")}
        assert {rank["job"][:8] for rank in ranks} == {"monarch-"}
    finally:
        os.killpg(client.pid, signal.SIGKILL)
        client.wait()


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


# --- every verb ---------------------------------------------------------------------------


def test_stacks(waiting: MonarchJob) -> None:
    """The stack of a rank is that of the actor at work."""
    shown = waiting.cli("stacks").stdout
    assert "4 ranks" in shown and f"wait {PROGRAM.name}:" in shown
    assert "selectors.py" not in shown
    everything = waiting.cli("stacks", "--threads", "all").stdout
    assert "\nMainThread\n" in everything and "\nrollout\n" in everything


def test_ask(waiting: MonarchJob) -> None:
    """Variables of the endpoint, also by thread, which has the actor's name."""
    answers = waiting.json("ask", "--frame", "step", "dp=1", "loss")
    assert [group["value"] for group in answers["groups"]] == ["20", "30"]
    by_name = waiting.json("ask", "--thread", "trainer", "--frame", "step", "0", "what")
    assert [group["value"] for group in by_name["groups"]] == ["'waits'"]


def test_check(waiting: MonarchJob) -> None:
    """It says that all is well."""
    result = waiting.cli("check", "--timeout", 60, timeout=PATIENCE)
    assert result.returncode == 0, result.stdout
    assert "all ranks have one that responds" in result.stdout


def test_save(waiting: MonarchJob, tmp_path: Path) -> None:
    """A snapshot has the procs with their coordinates."""
    assert waiting.cli("save", tmp_path / "saved").returncode == 0
    shown = rankdbg("ps", "-t", f"snapshot:{tmp_path / 'saved'}").stdout
    assert "4 ranks on 1 node" in shown and "dp=2 tp=2" in shown


@pytest.mark.slow
def test_break_and_pause(start: Start) -> None:
    """A line of an endpoint that is called again and again; a pause likewise."""
    job = start("ticks")
    job.until(lambda ranks: all("replica" in rank.coordinates for rank in ranks))
    where = f"{PROGRAM.name}:{line_of('return self.steps')}"
    result = job.cli("break", where, "--ranks", "2")
    assert result.returncode == 0 and "not yet in threads" not in result.stdout, result.stdout
    (stop,) = job.until_stops(1)
    assert stop["rank"] == 2
    assert "Trainer.tick" in job.cli("list").stdout
    assert job.cli("break", "--clear", where, "--ranks", "2").returncode == 0
    assert job.cli("continue", "2").returncode == 0
    job.until_stops(0)
    job.cli("pause", "1")
    (stop,) = job.until_stops(1)
    assert (stop["rank"], stop["kind"]) == (1, "pause")
    assert job.cli("continue", "1").returncode == 0


# --- stops --------------------------------------------------------------------------------


def test_stops(start: Start) -> None:
    """breakpoint() lands here and not in Monarch's server; two actors in one proc stop apart;
    stepping off an endpoint's end lets it go."""
    job = start("stops")
    stops = job.until_stops(6)
    functions = sorted((s["rank"], s["where"][0].rpartition(".")[2]) for s in stops)
    assert functions == [
        *((0, "step"), (1, "step"), (2, "generate"), (2, "step"), (3, "generate"), (3, "step"))
    ]
    assert not _listens(27000, job.client.pid)
    assert "20\n" in job.cli("ask", "--thread", "trainer", "--frame", "step", "2", "loss").stdout
    answers = job.json("cast", "ranks(dp=0)", "p loss")["groups"]
    assert sorted(group["output"] for group in answers) == ["0\n", "10\n"]
    places: set[str] = set()
    ranks = job.until(lambda ranks: True)
    with job.session() as session:

        def steps_to_its_end() -> bool:
            for answer in session.command(ranks, "next"):
                if isinstance(answer, Answer):
                    places.update(answer.value.output.splitlines())
            return job.ended()

        wait_for(steps_to_its_end, job.stops)
    files = {line.split("(")[0] for line in places if line.startswith("> ")}
    assert files == {f"> {PROGRAM}"}
    output, _ = job.client.communicate(timeout=PATIENCE)
    assert output.splitlines()[-1] == "[[0, 10, 20, 30], [[1, 2, 3], [1, 2, 3]]]"


def test_two_actors_in_one_process(start: Start) -> None:
    """`cast` speaks to the same actor in all ranks and asks which if several are stopped; one is
    addressed by its thread or by its name; `continue` lets all go on."""
    job = start("stops")
    job.until_stops(6)
    refused = job.cli("cast", "all", "p", "loss")
    assert refused.returncode == 2
    assert "several actors are stopped in one process" in refused.stderr
    assert "trainer: 0-3" in refused.stderr and "rollout: 2-3" in refused.stderr
    for address in ("thread=trainer", "actor=trainer"):
        losses = job.json("cast", address, "p", "loss")["groups"]
        assert sorted(group["output"] for group in losses) == ["0\n", "10\n", "20\n", "30\n"]
    (tokens,) = job.json("cast", "actor=rollout, 2-3", "p", "tokens")["groups"]
    assert (tokens["ranks"], tokens["output"]) == ("2-3", "[1, 2, 3]\n")
    attached = job.cli("shell", input="attach 2,thread=rollout\np tokens\ndetach\n")
    assert "[1, 2, 3]" in attached.stdout
    assert job.cli("continue", "thread=rollout").returncode == 0
    assert {stop["thread"] for stop in job.until_stops(4)} == {"trainer"}
    assert job.cli("continue").returncode == 0
    output, _ = job.client.communicate(timeout=PATIENCE)
    assert output.splitlines()[-1] == "[[0, 10, 20, 30], [[1, 2, 3], [1, 2, 3]]]"


def test_all_actors_continue(start: Start) -> None:
    """`continue` without an address releases every actor that is stopped."""
    job = start("stops")
    job.until_stops(6)
    assert job.cli("continue").returncode == 0
    output, _ = job.client.communicate(timeout=PATIENCE)
    assert output.splitlines()[-1] == "[[0, 10, 20, 30], [[1, 2, 3], [1, 2, 3]]]"


def _listens(port: int, client: int) -> bool:
    """Whether the client or one of its procs does."""
    processes = {client, *(p for p in _pids() if _parent(p) == client)}
    sockets = set()
    for pid in processes:
        with suppress(OSError):  # it has ended meanwhile
            for entry in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    sockets.add(os.readlink(f"/proc/{pid}/fd/{entry}"))
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{client}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(f":{port:04X}") and f"socket:[{words[9]}]" in sockets:
                return True
    return False


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def test_meshes_of_one_name(start: Start) -> None:
    """Two meshes whose name and class are the same have stops of their own: one goes on alone."""
    job = start("meshes")
    job.until_stops(4)
    ranks = job.until(lambda ranks: all(rank.state == "stopped" for rank in ranks))
    assert [(r.number, r.coordinates["gpus"], r.role) for r in ranks] == [
        *((0, 0, "Trainer"), (0, 0, "Trainer"), (1, 1, "Trainer"), (1, 1, "Trainer"))
    ]
    meshes = {rank.names["actor_mesh"] for rank in ranks}
    assert len(meshes) == 2
    unfolded = job.cli("ps", "--all").stdout
    assert all(mesh[:8] in unfolded for mesh in meshes)
    assert job.cli("continue", f"pid={ranks[0].pid}").returncode == 0
    assert ranks[0].pid not in {stop["pid"] for stop in job.until_stops(3)}
    assert job.cli("continue").returncode == 0
    output, _ = job.client.communicate(timeout=PATIENCE)
    assert output.splitlines()[-1] == "[[0, 10], [0, 10]]"


def test_post_mortem(start: Start) -> None:
    """An endpoint's exception is held with its frames, and then goes to who has called it."""
    job = start("fails", "--break-on-error")
    stops = job.until_stops(3)
    assert {stop["kind"] for stop in stops} == {"post-mortem"}
    whys = sorted((stop["rank"], stop["why"].partition(":")[0]) for stop in stops)
    assert whys == [(2, "IndexError"), (3, "IndexError"), (3, "ValueError")]
    assert job.cli("cast", "2", "p tokens").stdout == "2  [1, 2, 3]\n"
    assert "generate" in job.cli("cast", "2", "where").stdout.splitlines()[-2]
    wait_for(lambda: job.cli("continue", "all") and job.ended(), job.stops)
    output, _ = job.client.communicate(timeout=PATIENCE)
    assert output.splitlines()[-1] == "['ValueError', 'IndexError']"


# --- and nothing else ---------------------------------------------------------------------


def test_killed_client_leaves_nothing(waiting: MonarchJob) -> None:
    """The node process ends when whoever asked is killed; the ranks do not notice."""
    words = [sys.executable, "-m", "rankdbg", "stacks", "-t", "monarch", "--job", waiting.name]
    asking = subprocess.Popen(
        [*words, "--samples", "500"], env=waiting.environment, stdout=subprocess.DEVNULL
    )
    node: list[int] = []
    wait_for(lambda: node.extend(p for p in _pids() if _parent(p) == asking.pid) or node)
    asking.kill()
    asking.wait()
    wait_for(lambda: not os.path.exists(f"/proc/{node[0]}"))
    assert len(waiting.until_in("wait")) == 4


def test_killed_proc(start: Start) -> None:
    """A proc that is killed in the debugger takes nobody's stop with it."""
    job = start("meshes")
    job.until_stops(4)
    first, *others = job.until(lambda ranks: all(rank.state == "stopped" for rank in ranks))
    os.kill(first.pid, signal.SIGKILL)
    job.until_stops(3)
    answers = job.json("cast", f"pid={others[-1].pid}", "p loss")
    assert [group["output"] for group in answers["groups"]] == ["10\n"]


@pytest.mark.parametrize("target", ["monarch:4", "monarch:tcp://host:1234"])
def test_bad_target(target: str) -> None:
    """One sentence and the next step."""
    result = rankdbg("ps", "-t", target)
    assert (result.returncode, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    rest = target.partition(":")[2]
    assert first == f"error: invalid target monarch:{rest}: monarch takes no argument"
    assert second.startswith("  hint: ")


def test_none_here(tmp_path: Path) -> None:
    """Where Monarch runs nothing, it is said where else to look."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    command = [sys.executable, "-m", "rankdbg", "ps", "-t", "monarch"]
    environment = {**os.environ, "RANKDBG_DIR": str(tmp_path)}
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs the right to make namespaces")
    result = subprocess.run(
        [*inside, *command], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "-t ssh:HOST,HOST or -t slurm:JOB" in result.stderr
