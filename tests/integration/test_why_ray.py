"""`why` on Ray: who holds up those that wait in Ray, and that each story's healthy twin has no
culprit. The driver is on one node, and what it waits for on another."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import ray_cluster
from jobs import PROGRAMS, rankdbg
from rankdbg.errors import RankdbgError
from rankdbg.investigations.hangs.further_looks import find_verdict
from rankdbg.investigations.hangs.hang_investigation import HangInvestigation
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from ray_cluster import RayCluster, wait_for
from tiers import extra
from waiting import PATIENCE

pytestmark = [
    pytest.mark.skipif(bool(ray_cluster.missing()), reason=ray_cluster.missing()),
    pytest.mark.slow,
]
RULES = load_hang_rules()
# All stories have the same verdicts with agents and without (tried on 2.60): each is here in one way.
with_agents = pytest.mark.parametrize("stories", [True], indirect=True, ids=["agents"])
both_ways = pytest.mark.parametrize(
    "stories",
    [pytest.param(False, marks=extra), True],
    indirect=True,
    ids=["outside", "agents"],
)
RESOURCES = '{"slot": 1, "seat": 1, "place": 1, "away": 100}'


# A raylet that waits for a file answers nobody, and Ray gives it up after half a minute.
PATIENT = {"RAY_health_check_failure_threshold": "1000"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    home = '{"home": 100}'
    with RayCluster(apart=True, head=PATIENT, resources=home, other_resources=RESOURCES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def session(cluster: RayCluster) -> Iterator[Session]:
    with cluster.session() as session:
        yield session


class Stories:
    """Drivers of one test, which end with it."""

    def __init__(self, cluster: RayCluster, session: Session, folder: Path, agents: bool) -> None:
        self.folder = folder
        self._agents = agents
        self._cluster = cluster
        self._session = session
        self._drivers = ExitStack()

    def start(self, *names: str) -> list[subprocess.Popen[str]]:
        """Returns when all of them wait."""
        drivers = [self._drivers.enter_context(self._driver(name)) for name in names]
        for driver in drivers:
            until_line(driver, "ready\n")
        return drivers

    @contextmanager
    def _driver(self, name: str) -> Iterator[subprocess.Popen[str]]:
        program = PROGRAMS / "ray_stories.py"
        words = [*self._cluster.enter(), sys.executable, program, self._cluster.address, name]
        named = {"RANKDBG": "1", "RANKDBG_JOB": name} if self._agents else {"RANKDBG": "0"}
        process = subprocess.Popen(
            [*map(str, words), str(self.folder)],
            env={**os.environ, **named},
            cwd=self._cluster.scratch,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start_one(self, name: str) -> subprocess.Popen[str]:
        return self._drivers.enter_context(self._driver(name))

    def end(self) -> None:
        self._drivers.close()

    def ranks(self, name: str) -> list[Rank]:
        """Of the job whose driver runs this story."""

        def found() -> list[Rank]:
            with suppress(RankdbgError):  # the machine is busy
                for ranks in self._session.roster(where=False).jobs().values():
                    if any(r.role == "driver" and name in r.command for r in ranks):
                        return ranks
            return []

        return wait_for(found, f"the driver of {name}")

    def why(self, name: str) -> dict[str, Any]:
        ranks = self.ranks(name)
        investigation = HangInvestigation(self._session, ranks, ranks, outside=not self._agents)
        verdict, evidence = find_verdict(investigation, RULES)
        return JobVerdict(verdict, evidence, ranks).as_json()

    def until(self, name: str, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """A busy machine delays what Ray's tables say, and makes idle threads look busy."""
        last: list[dict[str, Any]] = []

        def found() -> dict[str, Any] | None:
            last[:] = [self.why(name)]
            return last[0] if wanted(last[0]) else None

        return wait_for(found, lambda: last)

    def stuck(self, name: str) -> dict[str, Any]:
        return self.until(name, lambda found: found["stuck"])

    def assert_no_culprit(self, name: str) -> dict[str, Any]:
        found = self.why(name)
        assert not found["stuck"] and not found["culprit"] and not found["findings"], found
        return found


def until_line(driver: subprocess.Popen[str], wanted: str) -> None:
    """Ray's own messages may come before it."""
    assert driver.stdout is not None
    assert any(line == wanted for line in driver.stdout), wanted


@pytest.fixture
def stories(
    request: pytest.FixtureRequest, cluster: RayCluster, session: Session, tmp_path: Path
) -> Iterator[Stories]:
    found = Stories(cluster, session, tmp_path, agents=getattr(request, "param", False))
    yield found
    found.end()


def chain(found: dict[str, Any]) -> list[str]:
    """The names of all parties, from the one that waits to the end."""
    links = found["chain"]
    return [links[0]["who"], *(link["whom"] for link in links)] if links else []


@both_ways
def test_lock(stories: Stories) -> None:
    """An actor that waits for a lock is the culprit; one that answers is none. A driver wakes up once
    a second in ray.get(), and as often as it likes in ray.wait()."""
    stories.start("lock", "lock_in_turns", "lock_twin")
    found = stories.stuck("lock")
    assert (found["culprit"], found["cause"]) == ("Trainer 0", "waits-for-lock")
    assert found["waiting"] == "driver 0"
    assert chain(found) == ["driver 0", "task Trainer.train", "Trainer 0"]
    assert found["evidence"][0].startswith("Ray: Trainer.train has run for ")
    found = stories.stuck("lock_in_turns")
    assert (found["culprit"], found["cause"]) == ("Trainer 0", "waits-for-lock")
    stories.assert_no_culprit("lock_twin")
    stories.until("lock_twin", lambda found: found["state"] == "moving")  # on a busy machine, later


@pytest.mark.extra
@with_agents
def test_queue(stories: Stories) -> None:
    """The consumer of an empty queue is the culprit, unless a producer is at work."""
    stories.start("ray_queue", "ray_queue_twin")
    found = stories.stuck("ray_queue")
    assert (found["culprit"], found["cause"]) == ("Consumer 0", "waits-for-queue")
    assert "an empty queue" in found["findings"][0]["says"]
    assert chain(found)[-2:] == ["task _QueueActor.get", "_QueueActor 0"]
    stories.assert_no_culprit("ray_queue_twin")


@pytest.mark.extra
def test_queue_in_an_actor(stories: Stories) -> None:
    """A queue of an actor's own, and one that a coroutine awaits; a server that waits for requests,
    and that no rank waits for, is idle."""
    stories.start("own_queue", "async_queue", "idle")
    found = stories.stuck("own_queue")
    assert (found["culprit"], found["cause"]) == ("Trainer 0", "waits-for-queue")
    found = stories.stuck("async_queue")
    assert (found["culprit"], found["cause"]) == ("Awaiter 0", "event-loop-awaits")
    assert stories.assert_no_culprit("idle")["state"] == "idle"


def test_task_that_cannot_be_placed(stories: Stories) -> None:
    """No node has 64 processors; one that waits for a task at work has patience."""
    stories.start("placement", "placement_twin")
    found = stories.stuck("placement")
    assert (found["culprit"], found["cause"]) == ("task large", "ray-unplaceable")
    assert found["findings"][0]["says"] == "needs 64 CPU; the largest node has 4 CPU"
    assert found["confidence"] == "high"
    stories.assert_no_culprit("placement_twin")


@pytest.mark.extra
@with_agents
def test_resources_that_are_held(stories: Stories) -> None:
    """An actor that runs nothing keeps what a task needs."""
    stories.start("held")
    found = stories.stuck("held")
    assert (found["culprit"], found["cause"]) == ("task seated", "ray-resources-held")
    assert "held by Keeper 0" in found["findings"][0]["says"]


@pytest.mark.extra
def test_placement_group(stories: Stories) -> None:
    """One that no cluster of this size can have; one whose place a task at work has."""
    stories.start("group", "group_wait", "group_twin")
    found = stories.stuck("group")
    assert (found["culprit"], found["cause"]) == ("placement group trainers", "ray-unplaceable")
    assert "needs 2 CPU + 32 CPU" in found["findings"][0]["says"]
    found = stories.stuck("group_wait")
    assert (found["culprit"], found["cause"]) == ("placement group waited", "ray-unplaceable")
    stories.assert_no_culprit("group_twin")


@pytest.mark.extra
@with_agents
def test_actor_that_dies_in_its_constructor(stories: Stories) -> None:
    """Again and again; one that has died once loads its model."""
    stories.start("restarts", "restarts_twin")
    found = stories.stuck("restarts")
    assert found["cause"] == "ray-actor-restarts"
    assert "Fragile" in found["culprit"]
    assert stories.assert_no_culprit("restarts_twin")["state"] in ("starting", "moving")


@with_agents
def test_cycle(stories: Stories) -> None:
    """Two actors that wait for each other are both named; one that waits for an actor at work is
    none."""
    stories.start("cycle", "cycle_twin")
    found = stories.stuck("cycle")
    assert (found["culprit"], found["cause"]) == ("Peer 0-1", "ray-cycle")
    assert found["waiting"] == "driver 0"
    found = stories.assert_no_culprit("cycle_twin")
    *_, one, work, other = chain(found)
    assert work == "task Peer.work"
    assert {one, other} == {"Peer 0", "Peer 1"}, chain(found)  # by process id


@with_agents
def test_slow_rollout(stories: Stories) -> None:
    """Of 32 rollouts 31 have returned: the last is named as what is waited for, not as stuck."""
    stories.start("slow")

    def waits(found: dict[str, Any]) -> bool:
        assert not found["stuck"] and not found["culprit"], found
        return bool(found["awaited"]) and found["awaited"]["slow"]

    awaited = stories.until("slow", waits)["awaited"]
    assert (awaited["task"], awaited["returned"]) == ("generate", 31)
    assert awaited["processes"][0]["role"] == "generate"


@pytest.mark.extra
def test_spilled_object(stories: Stories, cluster: RayCluster) -> None:
    """Reading a spilled object again does not return: Ray's worker at it is named. The twin reads
    such objects all the time."""
    (twin,) = stories.start("spill_twin")
    stories.assert_no_culprit("spill_twin")
    stories.end()
    assert twin.returncode
    before = spilled(cluster)
    driver = stories.start_one("spill")
    until_line(driver, "made\n")
    for file in wait_for(lambda: spilled(cluster) - before):
        file.rename(file.with_name(f"moved-{file.name}"))
        os.mkfifo(file)  # as a file system that does not answer
    (stories.folder / "go").touch()
    until_line(driver, "ready\n")
    found = stories.stuck("spill")
    assert found["cause"] == "object-spilling"
    assert "worker for spilled objects" in found["culprit"]
    assert found["processes"][0]["role"].endswith("RestoreWorker")
    stories.end()
    let_all_readers_go(cluster)


@pytest.mark.extra
def test_object_spilled_on_another_node(stories: Stories, cluster: RayCluster) -> None:
    """The raylet of that node reads the file for the node of the driver, and does not return: the chain
    names the object, where it is, and the raylet. The twin fetches such objects all the time."""
    stories.start("spill_away_twin")
    stories.assert_no_culprit("spill_away_twin")
    stories.end()
    before = spilled(cluster)
    driver = stories.start_one("spill_away")
    until_line(driver, "made\n")
    for file in wait_for(lambda: spilled(cluster) - before):
        file.rename(file.with_name(f"moved-{file.name}"))
        os.mkfifo(file)
    (stories.folder / "go").touch()
    until_line(driver, "ready\n")
    found = stories.stuck("spill_away")
    assert found["cause"] == "object-spilling"
    assert found["culprit"].startswith("Ray's raylet (pid ")
    _, awaited, raylet = chain(found)
    assert awaited.startswith("object ") and f"spilled on {ray_cluster.OTHER}" in awaited
    assert raylet == found["culprit"]
    assert any("openat" in line for line in found["evidence"])
    let_all_readers_go(cluster)


def let_all_readers_go(cluster: RayCluster) -> None:
    """Processes of Ray that wait for one that writes: until then they hear of nothing else, and are
    in the way of the next job."""
    for pipe in cluster.scratch.glob("*/session_*/ray_spilled_objects_*/*"):
        if pipe.is_fifo():
            with suppress(OSError):  # there is none
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def spilled(cluster: RayCluster) -> set[Path]:
    files = cluster.scratch.glob("*/session_*/ray_spilled_objects_*/*")
    return {file for file in files if file.is_file() and not file.is_symlink()}


@pytest.mark.extra
def test_submitted_job(stories: Stories, session: Session, cluster: RayCluster) -> None:
    """Its submission id is a name of the job, Ray's supervisor of it is no rank, and `ray list jobs`
    shows rankdbg in one word. A snapshot has Ray's tables too."""
    ident, saved = f"raysubmit_{os.urandom(4).hex()}", stories.folder / "saved"
    with submitted(cluster, ident, "lock"):
        stories.ranks("lock")
        reach = ("-t", cluster.target, "--python", cluster.python, "--timeout", 30)
        words = ("why", "--json", "--outside", "--save", saved, *reach, "--job", ident)

        def stuck() -> dict[str, Any] | None:
            shutil.rmtree(saved, ignore_errors=True)
            result = rankdbg(*words, timeout=PATIENCE)
            assert result.returncode == 0, result.stderr
            found: dict[str, Any] = json.loads(result.stdout)
            return found if found["stuck"] else None

        found = wait_for(stuck)
        processes = session.roster(where=False).processes
        jobs = cluster.run(sys.executable, "-c", LIST_JOBS, cluster.address).stdout.splitlines()
    assert (found["culprit"], found["cause"]) == ("Trainer 0", "waits-for-lock")
    assert chain(found) == ["driver 0", "task Trainer.train", "Trainer 0"]
    later = json.loads(rankdbg("why", "--json", "-t", f"snapshot:{saved}").stdout)
    assert chain(later) == chain(found)
    assert [r.kind for r in processes if r.role == "JobSupervisor"] == ["helper"]
    assert {job for job in jobs if "rankdbg" in job.replace(str(PROGRAMS), "")} == {"rankdbg"}


LIST_JOBS = """
import sys, ray
ray.init(sys.argv[1], logging_level="ERROR")
print(*(job["Entrypoint"] for job in ray._private.state.jobs() if job["JobID"]), sep="\\n")
"""


@contextmanager
def submitted(cluster: RayCluster, ident: str, story: str) -> Iterator[None]:
    """Ray's supervisor goes on without the one that has submitted it."""
    program = PROGRAMS / "ray_stories.py"
    entrypoint = f"{sys.executable} {program} {cluster.address} {story} {cluster.scratch}"
    words = [sys.executable, PROGRAMS / "ray_submit.py", cluster.address, cluster.scratch]
    command = [*cluster.enter(), *map(str, words), ident, entrypoint]
    environment = {**os.environ, "RANKDBG": "0"}
    process = subprocess.Popen(
        command, env=environment, cwd=cluster.scratch, stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until_line(process, "submitted\n")
    yield
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pid in cluster.pids(lambda command: entrypoint in command):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.extra
@with_agents
def test_agents_tell_what_is_waited_for(stories: Stories) -> None:
    """A server that no rank waits for is no culprit beside a trainer at work. With agents the
    objects of the wait are known: the chain leads to the trainer alone."""
    stories.start("background")
    found = stories.until("background", lambda f: len(f["chain"]) > 1)
    assert not found["stuck"], found
    assert chain(found)[1] == "task Trainer.work"
    assert found["chain"][0]["what"].startswith("waits in ray.get(), background ray_stories.py:")
