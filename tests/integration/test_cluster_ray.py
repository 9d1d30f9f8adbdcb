"""A real Ray cluster of two nodes: every verb, breakpoints everywhere, and what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ray_cluster
from editor import DapServer, Editor, frames
from jobs import PROGRAMS, Job, rankdbg
from rankdbg.clusters import Options
from rankdbg.errors import NodeFailed
from rankdbg.investigations.profiles.profile_files import read_all
from rankdbg.investigations.profiles.profiling import record
from rankdbg.session import Roster, Sampled, Session
from rankdbg.types import Answer, Rank
from rankdbg.wire.node_questions import BeginProfile
from ray_cluster import HEAD, OTHER, RayCluster, wait_for
from waiting import ANSWER_SECONDS, PATIENCE

pytestmark = [
    pytest.mark.skipif(bool(ray_cluster.missing()), reason=ray_cluster.missing()),
]

PROGRAM = PROGRAMS / "ray_job.py"
LOOP = PROGRAM.read_text().splitlines().index("        steps += 1") + 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def session(cluster: RayCluster) -> Iterator[Session]:
    with cluster.session() as session:
        yield session


class Look:
    """At one job, with the session that all tests share."""

    def __init__(self, cluster: RayCluster, session: Session, job: str) -> None:
        self.cluster = cluster
        self.session = session
        self.job = job

    def ranks(self, everything: bool = False) -> list[Rank]:
        try:
            return self.session.roster().jobs(everything).get(self.job, [])
        except NodeFailed:  # the machine is busy; the session tries again
            return []

    def until(self, wanted: Callable[[list[Rank]], bool]) -> dict[tuple[str, int | None], Rank]:
        """(role, number) -> rank, as soon as they are as wanted."""

        def found() -> list[Rank] | None:
            ranks = self.ranks()
            return ranks if wanted(ranks) else None

        ranks = wait_for(found, lambda: f"ranks as wanted; last: {self.ranks()}")
        assert len({(rank.role, rank.number) for rank in ranks}) == len(ranks)
        return {(rank.role, rank.number): rank for rank in ranks}

    def values(self, answers: Any) -> list[Any]:
        assert all(isinstance(answer, Answer) for answer in answers), answers
        return [answer.value for answer in answers]

    def outputs(self, ranks: list[Rank], line: str) -> list[str]:
        return [value.output for value in self.values(self.session.command(ranks, line))]


def start(cluster: RayCluster, job: Job, what: str, *options: str) -> Any:
    words = [*cluster.enter(), sys.executable, PROGRAM, cluster.address, what]
    return job.start(*words, options=options, cwd=cluster.scratch)


@pytest.fixture(scope="module")
def waiting(
    cluster: RayCluster, session: Session, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Look]:
    """A job whose trainers and task loop."""
    job = Job(f"waiting-{os.urandom(3).hex()}", tmp_path_factory.mktemp("waiting"))
    start(cluster, job, "waits")
    look = Look(cluster, session, job.name)
    look.until(lambda ranks: sum(is_at(rank, "wait") for rank in ranks) == 3)
    look.until(lambda ranks: sum("actor" in rank.names for rank in ranks) == 3)
    yield look
    job.end()


def is_at(rank: Rank, function: str) -> bool:
    return rank.where is not None and rank.where.function.endswith(function)


def is_stopped(rank: Rank) -> bool:
    return rank.state == "stopped"


def all_run(ranks: list[Rank]) -> bool:
    """All five of the job that waits, none of them mute because the machine is busy."""
    return len(ranks) == 5 and all(rank.agent and rank.state == "running" for rank in ranks)


def by_role(ranks: dict[tuple[str, int | None], Rank], role: str) -> list[Rank]:
    return [rank for (name, _), rank in sorted(ranks.items()) if name == role]


@pytest.mark.extra
def test_slow_constructors_are_not_accused(
    cluster: RayCluster, session: Session, job: Job, tmp_path: Path
) -> None:
    """While actors load their models, `why` names no culprit, neither an actor nor the driver that
    waits for them."""
    go = tmp_path / "go"
    program = PROGRAMS / "ray_constructors.py"
    started = job.start(
        *(*cluster.enter(), sys.executable, program, cluster.address, go), cwd=cluster.scratch
    )
    look = Look(cluster, session, job.name)
    look.until(lambda ranks: sum(is_at(rank, "load_weights") for rank in ranks) == 2)
    for options in ((), ("--outside",)):
        reach = ("-t", cluster.target, "--python", cluster.python, "--timeout", 30)
        words = ("why", "--json", *reach, "--job", job.name, *options)
        result = rankdbg(*words, timeout=PATIENCE)
        assert result.returncode == 0, result.stdout + result.stderr
        answer = json.loads(result.stdout)
        assert not answer["stuck"] and not answer["culprit"], result.stdout
    go.touch()
    output, errors = started.communicate(timeout=PATIENCE)
    assert "first step" in output, errors


def test_job_that_is_started_again(cluster: RayCluster, session: Session, job: Job) -> None:
    """Under its name, after kill -9 of everything and without a look in between: the ranks of the
    run before are not counted, whether Ray's tables are there or not."""
    start(cluster, job, "waits")
    look = Look(cluster, session, job.name)
    first = {rank.pid for rank in look.until(all_run).values()}
    assert cluster.run("kill", "-9", *first).returncode == 0
    start(cluster, job, "waits")
    cards = first.union  # those of the dead stay until the first look
    wait_for(lambda: len(cards(int(card.stem) for card in job.directory.glob("*.json"))) == 10)
    second = look.until(lambda ranks: all_run(ranks) and not first & {rank.pid for rank in ranks})
    words = (sys.executable, "-m", "rankdbg", "ps", "-t", "local", "--job", job.name, "--json")
    result = cluster.run(*words, env=job.environment)
    assert result.returncode == 0, result.stderr
    listed = {rank["pid"] for rank in json.loads(result.stdout)["ranks"]}
    assert listed == {rank.pid for rank in second.values()}


# --- looking ------------------------------------------------------------------------------


def test_roster(waiting: Look) -> None:
    """Actors by their class, with name, worker and node; the task; the driver; no idle worker."""
    ranks = waiting.until(all_run)
    (task,) = by_role(ranks, "load")
    assert set(ranks) == {
        *(("driver", 0), ("Trainer", 0), ("Trainer", 1), ("Rollout", 0)),
        ("load", task.number),  # that of its worker
    }
    hosts = [rank.host for rank in by_role(ranks, "Trainer")]
    assert hosts == [HEAD, OTHER]
    names = [rank.names for rank in by_role(ranks, "Trainer")]
    assert [each["actor"] for each in names] == ["trainer-0", "trainer-1"]
    assert all(len(each["worker"]) == 56 and len(each["actor_id"]) == 32 for each in names)
    all_ranks = waiting.ranks(everything=True)
    assert not any(rank.role.startswith("Rankdbg") for rank in all_ranks)


def test_stacks_and_values(waiting: Look) -> None:
    """Merged from both nodes; a variable of each actor."""
    trainers = by_role(waiting.until(all_run), "Trainer")

    def by_agents() -> list[Sampled] | None:
        sampled, silent = waiting.session.stacks(trainers)
        seen = not silent and {each.source for each in sampled} == {"agent"}
        return sampled if seen else None

    sampled = wait_for(by_agents)
    functions = [frame.function.rpartition(".")[2] for frame in sampled[1].main()[0].frames]
    assert functions[:2] == ["wait", "step"]
    values = waiting.values(waiting.session.evaluate(trainers, "loss", frame="step"))
    assert [value.text for value in values] == ["0", "10"]


def test_profile(waiting: Look, tmp_path: Path) -> None:
    """Samples of the actors of both nodes, and the difference of their clocks."""
    trainers = by_role(waiting.until(lambda ranks: len(ranks) == 5), "Trainer")
    settings = BeginProfile(kind="cpu", seconds=1.0, rate=100)

    def wait(seconds: float) -> bool:
        return not threading.Event().wait(seconds)

    recorded = record(waiting.session, trainers, settings, tmp_path, wait)
    assert recorded.no_response == []
    assert set(recorded.clocks) == {HEAD, OTHER}
    profiles = read_all(recorded, tmp_path, str)
    functions = [{f.function for s in p.stacks for f in s.frames} for p in profiles]
    assert all("Trainer.step" in names or "step" in names for names in functions)


def test_break_in_running_actors(waiting: Look) -> None:
    """A break at a line stops the actors of both nodes, and they go on."""
    trainers = by_role(waiting.until(lambda ranks: len(ranks) == 5), "Trainer")
    waiting.values(waiting.session.set_break(trainers, str(PROGRAM), LOOP))
    ranks = waiting.until(lambda ranks: sum(map(is_stopped, ranks)) == 2)
    assert [is_stopped(rank) for rank in by_role(ranks, "Trainer")] == [True, True]
    assert waiting.outputs(trainers, "p what") == ["'waits'\n"] * 2
    waiting.session.clear_breaks(trainers)
    waiting.session.command(trainers, "continue", 1)
    waiting.until(lambda ranks: not any(map(is_stopped, ranks)))


@pytest.mark.slow
def test_command_line(waiting: Look, cluster: RayCluster, tmp_path: Path) -> None:
    """ps, shell and save, with RAY_ADDRESS for a target; what was saved is shown without Ray."""
    reach = ("--python", cluster.python, "--job", waiting.job)
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "COLUMNS": "100"}

    def listed() -> subprocess.CompletedProcess[str] | None:
        table = rankdbg("ps", *reach, "role=Trainer", env=environment, timeout=PATIENCE)
        return table if are_running(table.stdout, 2) else None

    table = wait_for(listed)
    assert table.stderr.startswith(f"target: {cluster.target} (from RAY_ADDRESS; ")
    lines = table.stdout.splitlines()
    assert lines[0].startswith(f"job {waiting.job}   2 ranks on 2 nodes")
    typed = "ask role=Trainer what\nquit\n"
    shell = rankdbg("shell", *reach, input=typed, env=environment, timeout=PATIENCE)
    assert shell.returncode == 0, shell.stderr
    assert "'waits'" in shell.stdout

    def saved() -> str | None:
        place = tempfile.mkdtemp(dir=tmp_path)
        saved = rankdbg("save", *reach, f"{place}/saved", env=environment, timeout=PATIENCE)
        assert saved.returncode == 0, saved.stderr
        text = rankdbg("ps", "-t", f"snapshot:{place}/saved", "role=Trainer").stdout
        return text if are_running(text, 3) else None

    assert wait_for(saved).startswith(f"snapshot of {cluster.target} at ")


def are_running(table: str, row: int) -> bool:
    """Both trainers, in one row: neither is mute because the machine is busy."""
    lines = table.splitlines()
    return len(lines) > row and lines[row].split()[:3] == ["0-1", "running", "wait"]


# --- stopping -----------------------------------------------------------------------------


def test_breakpoints(cluster: RayCluster, session: Session, job: Job) -> None:
    """breakpoint() in actors, a coroutine, a task and then in the driver lands in rankdbg: the
    roster shows the user's line, and the driver's terminal each stop, by actor and job."""
    process = start(cluster, job, "stops")
    look = Look(cluster, session, job.name)
    ranks = look.until(lambda ranks: sum(map(is_stopped, ranks)) == 4)
    assert look.outputs(by_role(ranks, "Trainer"), "p loss") == ["0\n", "10\n"]
    assert look.outputs(by_role(ranks, "load"), "p shard") == ["7\n"]
    assert look.outputs(by_role(ranks, "Rollout"), "p tokens") == ["[1, 2, 3]\n"]
    stopped = [rank for rank in ranks.values() if is_stopped(rank)]
    assert {Path(rank.where.file).name for rank in stopped if rank.where} == {PROGRAM.name}
    assert is_at(ranks["Rollout", 0], "Rollout.generate")
    look.session.command([rank for rank in ranks.values() if is_stopped(rank)], "continue", 1)
    ranks = look.until(
        lambda ranks: [rank.role for rank in ranks if is_stopped(rank)] == ["driver"]
    )
    assert look.outputs(by_role(ranks, "driver"), "p results") == ["[0, 10, 7, [1, 2, 3]]\n"]
    look.session.command(by_role(ranks, "driver"), "continue", 1)
    output, complaints = process.communicate(timeout=PATIENCE)
    assert output.splitlines()[-1] == "[0, 10, 7, [1, 2, 3]]"
    for who in ("Trainer trainer-0 rank 0", "Trainer trainer-1 rank 1", "Rollout", "load"):
        assert complaints.count(f"rankdbg: {who} of job {job.name} has stopped (breakpoint)") == 1


@pytest.mark.extra
def test_post_mortem(cluster: RayCluster, session: Session, job: Job, tmp_path: Path) -> None:
    """What tasks and methods raise is saved, and they are held in the frame that raised it;
    what Ray does with it afterwards is the same."""
    saved = tmp_path / "errors"
    process = start(cluster, job, "fails", "--break-on-error", "--save-on-error", str(saved))
    look = Look(cluster, session, job.name)
    ranks = look.until(lambda ranks: sum(map(is_stopped, ranks)) == 4)
    assert ranks["Trainer", 1].detail == "post-mortem: ValueError: loss is 10"
    assert by_role(ranks, "load")[0].detail == "post-mortem: ZeroDivisionError: division by zero"
    assert look.outputs(by_role(ranks, "Trainer"), "p loss") == ["0\n", "10\n"]
    assert look.outputs(by_role(ranks, "Rollout"), "p len(tokens)") == ["3\n"]
    (where,) = look.outputs(by_role(ranks, "load"), "w")
    assert "ray" not in where.replace("ray_job.py", "")  # the frames are the user's alone
    look.session.command([rank for rank in ranks.values() if is_stopped(rank)], "continue", 1)
    output, _ = process.communicate(timeout=PATIENCE)
    errors = ["ValueError", "ValueError", "ZeroDivisionError", "IndexError"]
    assert output.splitlines()[-1] == str(errors)
    shown = rankdbg("list", "--json", "-t", f"snapshot:{saved}").stdout
    assert all(name in shown for name in errors), shown


@pytest.mark.extra
def test_without_rankdbg(cluster: RayCluster, session: Session, tmp_path: Path) -> None:
    """A job that nobody started under rankdbg has Ray's name; it is looked at from outside, a
    worker in Ray's own debugger is said to be there, and one actor has brought the agent."""
    words = [*cluster.enter(), sys.executable, PROGRAM, cluster.address, "without_rankdbg"]
    environment = {**os.environ, "RANKDBG_DIR": str(tmp_path)}
    with started(words, env=environment, cwd=cluster.scratch):
        seen: dict[tuple[str, int | None], Rank] = {}

        def found() -> bool:
            with contextlib.suppress(NodeFailed):  # the machine is busy
                jobs = session.roster().jobs()
                ranks = [rank for name in jobs if name[:4] == "ray-" for rank in jobs[name]]
                seen.clear()
                seen.update({(rank.role, rank.number): rank for rank in ranks})
            all_ranks = {("driver", 0), ("Trainer", 0), ("Trainer", 1), ("Trainer", 2)}
            return (
                set(seen) == all_ranks
                and seen["Trainer", 0].state == "no agent"
                and is_at(seen["Trainer", 0], "wait")
                and is_stopped(seen["Trainer", 1])
                and "debugger" in seen["Trainer", 1].detail
                and f"debugpy at {OTHER}:" in seen["Trainer", 1].detail
                and seen["Trainer", 2].agent
                and is_at(seen["driver", 0], "without_rankdbg")
            )

        wait_for(found, lambda: seen)


def test_actors_keep_their_numbers(cluster: RayCluster, session: Session, tmp_path: Path) -> None:
    """One that dies stays, as gone and with Ray's reason; the others are not numbered anew."""
    program = PROGRAMS / "ray_numbers.py"
    now = tmp_path / "now"
    words = [*cluster.enter(), sys.executable, program, cluster.address, now]
    seen: list[Rank] = []

    def workers(*states: str) -> bool:
        with contextlib.suppress(NodeFailed):  # the machine is busy
            jobs = session.roster(where=False).jobs().values()
            found = [rank for ranks in jobs for rank in ranks if rank.role == "Worker"]
            seen[:] = sorted(found, key=lambda rank: rank.number or 0)
        # Until Ray's tables have an actor, it is numbered among the others of its node.
        known = all("actor" in rank.names for rank in seen)
        return known and [rank.state for rank in seen] == [*states]

    with started(words, env={**os.environ, "RANKDBG_DIR": str(tmp_path)}, cwd=cluster.scratch):
        wait_for(lambda: workers(*["no agent"] * 3), lambda: seen)
        before = [(rank.number, rank.host, rank.pid) for rank in seen]
        assert [number for number, _, _ in before] == [0, 1, 2]
        now.touch()
        wait_for(
            # Its node sees that the process is gone before Ray's tables have the reason.
            lambda: (
                workers("gone", "no agent", "no agent")
                and "process no longer exists" not in seen[0].detail
            ),
            lambda: (before, seen, session.silent_nodes),
        )
        assert [(rank.number, rank.host, rank.pid) for rank in seen] == before


@contextlib.contextmanager
def started(words: list[Any], **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen([*map(str, words)], start_new_session=True, **quiet, **settings)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# --- what breaks, and what is left --------------------------------------------------------


def actors_of_rankdbg(cluster: RayCluster) -> list[int]:
    return cluster.pids(lambda command: command.startswith("ray::RankdbgNode"))


def test_killed_client_leaves_nothing(cluster: RayCluster, waiting: Look) -> None:
    """Actors, node processes and the driver of a client that is killed are gone in seconds."""
    before = {*actors_of_rankdbg(cluster), *node_processes(cluster)}
    words = [sys.executable, "-c", CLIENT, cluster.target, cluster.python]
    with started(words) as client:
        new = wait_for(
            lambda: (
                (found := {*actors_of_rankdbg(cluster), *node_processes(cluster)} - before)
                and len(found) >= 3  # an actor on the other node, a node process on each
                and found
            )
        )
        client.kill()
        client.wait()
        gone = lambda: not any(Path(f"/proc/{pid}").exists() for pid in new)  # noqa: E731
        wait_for(gone)


CLIENT = """
import sys, time
from rankdbg.clusters import Options
from rankdbg.session import Session
session = Session(sys.argv[1], options=Options(python=sys.argv[2]))
session.roster()
time.sleep(1000)
"""


def node_processes(cluster: RayCluster) -> list[int]:
    return cluster.pids(lambda command: command.rstrip().endswith("rankdbg.node"))


def test_broken_channel_is_opened_again(cluster: RayCluster, waiting: Look) -> None:
    """An actor of rankdbg that is killed: its node is silent with Ray's words, and a session
    that stays (a shell) has another."""
    session = Session(cluster.target, ANSWER_SECONDS, Options(python=str(cluster.python)))
    with session:
        before = set(actors_of_rankdbg(cluster))
        assert len(session.roster(where=False).silent_nodes) == 0
        session.reopens = True
        for pid in set(actors_of_rankdbg(cluster)) - before:
            os.kill(pid, signal.SIGKILL)

        def roster() -> Roster | None:
            try:
                roster = session.roster(where=False)
            except NodeFailed:  # both are silent
                return None
            return None if roster.silent_nodes else roster

        ranks = wait_for(roster).jobs()[waiting.job]
        assert {rank.host for rank in ranks} == {HEAD, OTHER}


def test_python_with_ray(cluster: RayCluster, tmp_path: Path) -> None:
    """Where rankdbg's Python has no Ray and none is on PATH, the message says what to do."""
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]")
    source = PROGRAMS.parents[1] / "src"
    environment = {"PATH": "/usr/bin", "PYTHONPATH": f"{tmp_path}:{source}", "RANKDBG": "0"}
    result = rankdbg("ps", "-t", cluster.target, env=environment)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "error: Ray is not installed: rankdbg's Python has no Ray, and `ray` is not on PATH",
        "  hint: give the Python that has Ray: --python PATH",
    ]


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("ray:", "ray: names no cluster"),
        ("ray", "ray: names no cluster"),
        ("ray:head", "invalid Ray address 'head'"),
        ("ray:ray://head:10001", "Ray Client addresses are not supported (ray://head:10001)"),
    ],
)
def test_bad_targets(target: str, what: str) -> None:
    """One sentence and the next step."""
    result = rankdbg("ps", "-t", target)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[0] == f"error: {what}"
    assert result.stderr.splitlines()[1].startswith("  hint: ")


def test_no_cluster_there(cluster: RayCluster) -> None:
    """The reason, and no traceback."""
    result = rankdbg("ps", "-t", f"ray:{HEAD}:6398", "--python", cluster.python)
    assert result.returncode == 2
    where = f"{HEAD}:6398"
    assert result.stderr == (
        f"error: cannot reach the Ray cluster {where}: nothing answers there "
        "(Connection refused)\n"
        "  without its head node (GCS) Ray cannot reach any node, but jobs may still be running\n"
        "  hint: to look without Ray: rankdbg ps -t ssh:HOST,HOST   "
        "(or on the node: rankdbg ps -t local)\n"
    )


@pytest.mark.slow
def test_an_editor_at_actors_of_both_nodes(cluster: RayCluster, waiting: Look) -> None:
    """It reaches them through the actors that rankdbg has on each node."""
    pytest.importorskip("debugpy", reason="needs debugpy")
    words = ("-t", cluster.target, "--python", cluster.python, "--job", waiting.job)
    with DapServer(os.environ, *words, "--timeout", 20, "role=Trainer") as server:
        editor = Editor(server)
        editor.break_at(PROGRAM, LOOP)
        for rank in editor.attach_all(2).values():
            thread = rank.event("stopped")["threadId"]
            assert frames(rank, thread)[0] == ("wait", LOOP)
        editor.leave()


@pytest.mark.slow
def test_killed_node(cluster: RayCluster, waiting: Look) -> None:
    """The others answer at once; it is named with Ray's reason, also by who comes later."""
    trainers = by_role(waiting.until(lambda ranks: len(ranks) == 5), "Trainer")
    cluster.kill_node(OTHER)
    here, there = wait_for(
        lambda: (
            (answers := waiting.session.evaluate(trainers, "loss", frame="step"))
            and not isinstance(answers[1], Answer)
            and answers
        )
    )
    assert here.value.text == "0"
    assert there.reason.startswith(f"{OTHER}: ")  # that a connection is broken is noticed first
    words = ("-t", cluster.target, "--python", cluster.python, "--job", waiting.job)
    later = rankdbg("ps", *words, timeout=PATIENCE)
    (line,) = [line for line in later.stdout.splitlines() if line.startswith("no response: node ")]
    assert OTHER in line and " has left the Ray cluster: " in line
