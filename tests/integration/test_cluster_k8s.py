"""A job in two pods, reached through kubectl: real processes in namespaces of their own,
behind a kubectl that is as strict as the real one and fails in the same ways."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, rankdbg
from kubernetes_cluster import Kubernetes
from rankdbg.clusters import Options, kubernetes
from rankdbg.clusters.kubernetes import kubectl
from rankdbg.clusters.transport import carrier, sending
from rankdbg.errors import RankdbgError
from rankdbg.session import Session
from rankdbg.types import Rank
from waiting import ANSWER_SECONDS, PATIENCE, wait_for

BEHAVE, STOPS, BREAKS = (PROGRAMS / name for name in ("behave.py", "stops.py", "breaks.py"))
BEHAVIOURS = ("waits", "waits", "waits_elsewhere", "waits")
TARGET = "k8s:train/app=llama"
WITHOUT = Path(sys.base_prefix) / "bin" / "python3"


def ranks(first: int, count: int, program: Path, *words: str, **settings: Any) -> dict[str, Any]:
    """A container with these ranks, each with an agent."""
    each = [
        f"RANK={rank} LOCAL_RANK={rank - first} {sys.executable} {program} {' '.join(words)} &"
        for rank in range(first, first + count)
    ]
    environment = {"RANKDBG": "1", "WORLD_SIZE": str(first + count)}
    return {
        "command": ["/bin/sh", "-c", f"{' '.join(each)} wait"],
        "environment": {**environment, **settings.pop("environment", {})},
        **settings,
    }


IDLE = {"command": ["sleep", "1000"], "environment": {}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    pods = Kubernetes(tmp_path_factory.mktemp("kubernetes"))
    try:
        for number in range(2):
            container = ranks(2 * number, 2, BEHAVE, *BEHAVIOURS)
            labels = {"app": "llama", "batch.kubernetes.io/job-name": "llama-7b"}
            pods.start(f"worker-{number}", {"main": container}, labels)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("PATH", "FAKE_KUBERNETES"):
                patch.setenv(name, pods.environment()[name])
            wait_for_ranks(TARGET, *BEHAVIOURS)
        yield pods
    finally:
        pods.end()


@pytest.fixture
def cluster(running: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """Two pods of two ranks that are all where they should be; as it was, afterwards."""
    environment = running.environment()
    for name in ("PATH", "FAKE_KUBERNETES"):
        monkeypatch.setenv(name, environment[name])
    yield running
    running.behave()
    for path in running.scratch.glob("pods/train/*.json"):
        if not path.stem.startswith("worker-"):
            running.delete(path.stem)


def wait_for_ranks(target: str, *functions: str, **options: Any) -> list[Rank]:
    """Until these are where they should be."""
    with Session(target, ANSWER_SECONDS, options=Options(**options)) as session:
        session.reopens = True

        def arrived() -> list[Rank]:
            found = sorted(session.roster().processes, key=lambda rank: rank.number or 0)
            seen = [rank.where.function for rank in found if rank.where]
            return found if seen == list(functions) else []

        found: list[Rank] = wait_for(arrived)
        return found


def answer(verb: str, *words: object, target: str = TARGET) -> Any:
    result = rankdbg(verb, "--json", "-t", target, *words)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def refusal(target: str = TARGET, **options: Any) -> str:
    """What is said instead of an answer: a sentence, and what to do next."""
    reach = Options(**options)
    with (
        pytest.raises(RankdbgError) as refused,
        Session(target, ANSWER_SECONDS, options=reach) as session,
    ):
        session.job()
    assert refused.value.hint
    return str(refused.value)


# --- every verb ---------------------------------------------------------------------------


def test_one_roster(cluster: Kubernetes) -> None:
    """The ranks of both pods are one job, which has its name from the pods' labels."""
    found = answer("ps")
    assert [job["job"] for job in found["jobs"]] == ["llama-7b"]
    places = {rank["rank"]: rank["host"] for rank in found["ranks"]}
    assert places == {0: "worker-0", 1: "worker-0", 2: "worker-1", 3: "worker-1"}


def test_a_named_job_in_a_pod(cluster: Kubernetes) -> None:
    """It has the name that torchrun gave it, inside the job of the pod."""
    named = {"TORCHELASTIC_RUN_ID": "abc"}
    container = ranks(0, 1, BEHAVE, "waits", environment=named)
    cluster.start("named-0", {"main": container}, {"app": "named"})

    def jobs() -> list[tuple[str, str]]:
        found = answer("ps", target="k8s:train/named-0")
        return [(job["job"], job["inside"]) for job in found["jobs"]]

    wait_for(lambda: jobs() == [("torchrun-abc", "named-0")], jobs)
    shown = rankdbg("ps", "-t", "k8s:train/named-0").stdout
    assert shown.startswith("job torchrun-abc (in named-0)   1 rank on 1 node"), shown


def test_a_single_pod(cluster: Kubernetes) -> None:
    """By its name, with oc and a context."""
    words = ("--kubectl", "oc", "--context", "tests")
    found = answer("ps", *words, target="k8s:train/worker-1")["ranks"]
    assert sorted(rank["rank"] for rank in found) == [2, 3]
    calls = [line for line in cluster.calls() if line.startswith("oc ")]
    assert calls == [
        "oc --context tests -n train get pod worker-1 -o json",
        "oc --context tests -n train exec -i worker-1 -c main -- sh -c",
    ]


def test_stacks_and_values(cluster: Kubernetes) -> None:
    """Equal stacks and values of both pods are one group."""
    assert [group["ranks"] for group in answer("stacks")["groups"]] == ["2", "0-1,3"]
    assert [group["ranks"] for group in answer("ask", "all", "loss")["groups"]] == ["0,3", "1", "2"]


def test_a_snapshot(cluster: Kubernetes, tmp_path: Path) -> None:
    """What was saved of the pods can be asked again without them."""
    assert rankdbg("save", "-t", TARGET, tmp_path / "saved").returncode == 0
    seen = answer("stacks", target=f"snapshot:{tmp_path}/saved")
    assert [group["ranks"] for group in seen["groups"]] == ["2", "0-1,3"]


def test_stops(cluster: Kubernetes) -> None:
    """Ranks in pods stand at breakpoints, take commands from all clients, and go on."""
    for number in range(2):
        labels = {"app": "stops", "job-name": "stops"}
        cluster.start(f"stop-{number}", {"main": ranks(number, 1, STOPS, "twice")}, labels)
    target = "k8s:train/app=stops"
    wait_for_ranks(target, "twice", "twice")
    result = rankdbg("shell", "-t", target, input="list\ncast all p n\nquit\n")
    assert "0-1" in result.stdout and "twice" in result.stdout
    (group,) = answer("cast", "all", "p n + 40", target=target)["groups"]
    assert (group["ranks"], group["output"]) == ("0-1", "40\n")
    assert rankdbg("continue", "-t", target).returncode == 0

    def second_round() -> bool:
        groups = answer("cast", "all", "p n", target=target)["groups"]
        return [(group["ranks"], group["output"]) for group in groups] == [("0-1", "1\n")]

    wait_for(second_round)


def test_breaks(cluster: Kubernetes) -> None:
    """A running rank in a pod stops at a line."""
    cluster.start("loop-0", {"main": ranks(0, 1, BREAKS, "loops")})
    target = "k8s:train/loop-0"
    with Session(target, ANSWER_SECONDS) as session:
        wait_for(lambda: session.roster().processes)
    line = BREAKS.read_text().splitlines().index("    y = x * 2  # in double") + 1
    result = rankdbg("break", "-t", target, f"breaks.py:{line}")
    assert result.returncode == 0, result.stderr
    (stop,) = wait_for(lambda: answer("list", target=target)["stops"])
    assert stop["where"]["function"] == "double"


# --- getting there ------------------------------------------------------------------------


def test_rankdbg_is_sent_where_it_is_not_installed(cluster: Kubernetes) -> None:
    """A pod without rankdbg, whose ranks have no agent: looked at from outside, and nothing
    is left behind."""
    rank = ranks(0, 1, BEHAVE, "waits", environment={"RANKDBG": "0"})
    rank["command"][2] = rank["command"][2].replace(sys.executable, str(WITHOUT))
    rank["environment"]["PATH"] = f"{WITHOUT.parent}:/usr/bin:/bin"
    cluster.start("bare-0", {"main": rank})
    wait_for_ranks("k8s:train/bare-0", "waits")
    found = answer("stacks", target="k8s:train/bare-0")
    assert list(found["sources"].values()) == ["py-spy"]
    assert "waits" in json.dumps(found["groups"])
    wait_for(lambda: not cluster.processes("bare-0", "main", "rankdbg.node"))
    assert not list((cluster.root("bare-0", "main") / "tmp").glob("rankdbg*"))


@pytest.mark.parametrize("how", ["deaf", "noisy"])
def test_what_kubectl_loses_and_adds(cluster: Kubernetes, how: str) -> None:
    """Output that is lost at the start, and words on stderr, do no harm."""
    cluster.behave(exec=how)
    with Session(TARGET, ANSWER_SECONDS) as session:
        assert len(session.roster().processes) == 4


def test_a_client_that_is_killed(cluster: Kubernetes) -> None:
    """kill -9 of the client: the node processes in the pods end."""
    words = [sys.executable, "-m", "rankdbg", "ask", "all", "__import__('time').sleep(60)"]
    client = subprocess.Popen([*words, "-t", TARGET, "--timeout", "60"])
    for pod in ("worker-0", "worker-1"):
        wait_for(lambda pod=pod: cluster.processes(pod, "main", "rankdbg.node"))
    os.kill(client.pid, signal.SIGKILL)
    assert client.wait() == -signal.SIGKILL  # and had not ended before
    for pod in ("worker-0", "worker-1"):
        wait_for(lambda pod=pod: not cluster.processes(pod, "main", "rankdbg.node"))


def test_a_kubectl_that_is_killed(cluster: Kubernetes) -> None:
    """kill -9 of kubectl: what it has started in the pod ends, and the pod can be entered
    again."""
    with Session("k8s:train/worker-0", ANSWER_SECONDS) as session:
        session.reopens = True
        session.roster()
        (first,) = cluster.processes("worker-0", "main", "rankdbg.node")
        os.kill(kubectl_of(session, "worker-0"), signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{first}").exists())
        wait_for(lambda: answers_again(session, 2))
        assert cluster.processes("worker-0", "main", "rankdbg.node") != [first]


# --- pods come and go ---------------------------------------------------------------------


def answers_again(session: Session, count: int) -> bool:
    try:
        found = session.roster().processes
    except RankdbgError:
        return False
    return len(found) == count and all(rank.agent for rank in found)


def kubectl_of(session: Session, node: str) -> int:
    channel: Any = session._channels[node]
    return channel._opened._process.pid  # type: ignore[no-any-return]


def reasons(session: Session, found: Any) -> set[str]:
    """Why ranks are silent, after a question to those."""
    return {getattr(each, "reason", "") for each in session.evaluate(found, "1 + 1")}


def first_reasons(session: Session, found: Any) -> set[str]:
    """The same, where no way that has broken is opened again before it is asked through."""
    session.reopens = False
    try:
        return reasons(session, found)
    finally:
        session.reopens = True


@pytest.fixture
def pair(cluster: Kubernetes) -> Iterator[tuple[Kubernetes, Session]]:
    """A session with a pod that will fare badly, and one that will not."""
    cluster.start("frail-0", {"main": ranks(0, 1, BEHAVE, "waits")}, {"app": "pair"})
    cluster.start("hale-0", {"main": ranks(1, 1, BEHAVE, "waits", "waits")}, {"app": "pair"})
    with Session("k8s:train/app=pair", timeout=ANSWER_SECONDS) as session:
        session.reopens = True
        wait_for(lambda: answers_again(session, 2))
        yield cluster, session


def test_a_restart(pair: tuple[Kubernetes, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that is restarted is said so, with how it ended, and is entered again."""
    monkeypatch.setattr(kubernetes, "NEWS_SECONDS", 30.0)  # the new one may take long to start
    cluster, session = pair
    before = session.roster().processes
    cluster.restart("frail-0", "main", "OOMKilled")
    why = first_reasons(session, before)
    assert why == {
        "",
        "container main of pod frail-0 was restarted: OOMKilled, exit code 137 "
        "(kubectl exec: command terminated with exit code 137)",
    }
    wait_for(lambda: answers_again(session, 2))
    assert {rank.process for rank in session.roster().processes} != {r.process for r in before}


def test_a_deletion(pair: tuple[Kubernetes, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that is deleted is said so, and its rank is accounted for as gone."""
    monkeypatch.setattr(kubernetes, "NEWS_SECONDS", 30.0)
    cluster, session = pair
    before = session.roster().processes
    cluster.delete("frail-0")
    why = first_reasons(session, before)
    deleted = "pod frail-0 was deleted (kubectl exec: command terminated with exit code 137)"
    assert why == {"", deleted}
    found = {rank.host: (rank.state, rank.detail) for rank in session.roster().processes}
    assert found["hale-0"] == ("running", "") and found["frail-0"] == ("gone", deleted)
    assert reasons(session, session.roster().processes) == {"", deleted}


def test_a_deletion_among_roles(cluster: Kubernetes) -> None:
    """The rank of a deleted pod is accounted for, also if another role has its number."""
    for name in ("trainer", "rollout"):
        role = {"RANKDBG_ROLE": name}
        container = ranks(0, 1, BEHAVE, "waits", environment=role)
        cluster.start(f"{name}-0", {"main": container}, {"app": "roles"})
    with Session("k8s:train/app=roles", timeout=ANSWER_SECONDS) as session:
        wait_for(lambda: answers_again(session, 2))
        cluster.delete("rollout-0")

        def states() -> dict[str, str]:
            return {rank.role: rank.state for rank in session.roster().processes}

        wait_for(lambda: states() == {"trainer": "running", "rollout": "gone"}, states)


def test_a_kill(pair: tuple[Kubernetes, Session]) -> None:
    """137 with a container that runs on: our own process was killed."""
    cluster, session = pair
    before = session.roster().processes
    (node,) = cluster.processes("frail-0", "main", "rankdbg.node")
    os.kill(node, signal.SIGKILL)
    (why,) = reasons(session, before) - {""}
    assert (
        "was killed (command terminated with exit code 137); the container is still running" in why
    )
    wait_for(lambda: answers_again(session, 2))


def test_an_exec_that_ends_without_a_word(pair: tuple[Kubernetes, Session]) -> None:
    """Status 0 and no complaint is a broken way, not an end: it is opened again."""
    cluster, session = pair
    before = session.roster().processes
    cluster.behave(exec="ends")
    (why,) = {reason.replace("hale-0", "frail-0") for reason in reasons(session, before)}
    assert "kubectl exec into container main of pod frail-0 exited without output" in why
    cluster.behave()
    wait_for(lambda: answers_again(session, 2))


def test_the_api_server_goes_away(pair: tuple[Kubernetes, Session]) -> None:
    """What kubectl said of both attempts; and when it is back, so are the ranks."""
    cluster, session = pair
    before = session.roster().processes
    cluster.behave(api="down")
    (why,) = first_reasons(session, before)
    assert "websocket: close 1006" in why and "127.0.0.1:6443 was refused" in why
    cluster.behave()
    wait_for(lambda: answers_again(session, 2))


@pytest.mark.extra
def test_a_node_that_does_not_answer(pair: tuple[Kubernetes, Session]) -> None:
    """Within the deadline the other pod has answered, and this one is silent; kubectl, which
    is stuck, is not left behind."""
    _, session = pair
    before = session.roster().processes
    usual, session.timeout = session.timeout, 5.0
    stuck = kubectl_of(session, "frail-0")
    os.kill(stuck, signal.SIGSTOP)
    begun = time.monotonic()
    assert reasons(session, before) == {"", "frail-0 did not respond in time"}
    assert time.monotonic() - begun < PATIENCE
    session.timeout = usual
    wait_for(lambda: answers_again(session, 2))
    wait_for(lambda: not Path(f"/proc/{stuck}").exists() or state(stuck) == "Z")


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"


def test_pods_that_cannot_be_entered(cluster: Kubernetes) -> None:
    """Those that run answer; each of the others is named with what is the matter."""
    labels = {"app": "llama"}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    ended = {"exitCode": 1, "reason": "Error"}
    crashing = {"name": "main", "state": {"waiting": waiting}, "lastState": {"terminated": ended}}
    creating = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    over = {"name": "main", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    cluster.write("x-crashing", ["main"], "Running", [crashing], labels)
    cluster.write("x-creating", ["main"], "Pending", [creating], labels)
    cluster.write("x-over", ["main"], "Succeeded", [over], labels)
    cluster.write("x-waiting", ["main"], "Pending", [], labels, conditions=[unscheduled])
    cluster.start("x-leaving", {"main": IDLE}, labels)
    cluster.change("x-leaving", lambda pod: pod["metadata"].update(deletionTimestamp="now"))
    with Session(TARGET, ANSWER_SECONDS) as session:
        roster = session.roster()
    assert len(roster.processes) == 4
    said = {name: text.partition("; hint: ")[0] for name, text in roster.silent_nodes.items()}
    assert said == {
        "x-crashing": "container main of pod x-crashing does not run (the pod is Running): "
        "CrashLoopBackOff: back-off 40s restarting failed container; "
        "it ended earlier: Error, exit code 1",
        "x-creating": "container main of pod x-creating does not run (the pod is Pending): "
        "ContainerCreating",
        "x-over": "pod x-over has ended: Succeeded: Completed, exit code 0",
        "x-waiting": "container main of pod x-waiting does not run (the pod is Pending): "
        "not scheduled: 0/3 nodes are available",
        "x-leaving": "pod x-leaving is being deleted",
    }


def test_a_pod_that_is_being_deleted_can_be_named(cluster: Kubernetes) -> None:
    """It may hang in its end, and that is what one wants to see."""
    cluster.start("leaving", {"main": ranks(0, 1, BEHAVE, "waits")})
    cluster.change("leaving", lambda pod: pod["metadata"].update(deletionTimestamp="now"))
    (rank,) = wait_for_ranks("k8s:train/leaving", "waits")
    assert (rank.host, rank.number) == ("leaving", 0)


# --- containers ---------------------------------------------------------------------------


def test_containers(cluster: Kubernetes) -> None:
    """Without -c the first is entered, and the others are named if no rank is there; several
    are several nodes."""
    cluster.start("two-0", {"side": IDLE, "main": ranks(0, 1, BEHAVE, "waits")})
    target = "k8s:train/two-0"
    assert "no ranks in container side; others: main (-c main)" in refusal(target=target)
    (rank,) = wait_for_ranks(target, "waits", container="main")
    assert rank.host == "two-0"
    (rank,) = wait_for_ranks(target, "waits", container="main,side")
    assert rank.host == "two-0/main"
    said = refusal(target, container="nosuch")
    assert "pod two-0 has no container nosuch (it has: side, main)" in said
    note = {"kubectl.kubernetes.io/default-container": "main"}
    cluster.change("two-0", lambda pod: pod["metadata"].update(annotations=note))
    (rank,) = wait_for_ranks(target, "waits")
    assert rank.host == "two-0"


def test_an_image_without_a_shell(cluster: Kubernetes) -> None:
    """That is said, and the way in from a container beside it."""
    cluster.start("scratch-0", {"main": {**IDLE, "lacks": ["sh"]}})
    said = refusal(target="k8s:train/scratch-0")
    assert "container main of pod scratch-0 has no shell (sh)" in said
    assert "kubectl -n train debug scratch-0 -it --image=python:3.12 --target=main" in said


def test_an_image_without_python(cluster: Kubernetes) -> None:
    """That is said."""
    image = (
        "mkdir /tmp/bin; for c in sh grep sort readlink; do ln -s $(command -v $c) /tmp/bin; done"
    )
    command = ["/bin/sh", "-c", f"{image}; exec /bin/sleep 1000"]
    prefix = ["/usr/bin/env", "PATH=/tmp/bin"]
    settings = {"command": command, "environment": {}, "prefix": prefix}
    cluster.start("static-0", {"main": settings})
    assert "no Python 3.10 or later (there is: none)" in refusal(target="k8s:train/static-0")


def test_a_container_without_ptrace(cluster: Kubernetes) -> None:
    """Stacks from outside are refused, with the line of the pod spec that allows them."""
    prefix = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    cluster.start("shut-0", {"main": ranks(0, 1, BEHAVE, "waits", prefix=prefix)})
    wait_for_ranks("k8s:train/shut-0", "waits")
    result = rankdbg("stacks", "--outside", "-t", "k8s:train/shut-0")
    said = result.stdout + result.stderr
    assert "the container lacks SYS_PTRACE" in said
    assert 'securityContext: {capabilities: {add: ["SYS_PTRACE"]}}' in said


# --- what cannot be used ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "sentence", "next_step"),
    [
        (
            {"api": "down"},
            "The connection to the server 127.0.0.1:6443 was refused",
            "try it without rankdbg: kubectl -n train get pods",
        ),
        ({"api": "unauthorized"}, "You must be logged in to the server", "renew the credentials"),
        ({"api": "forbidden"}, "pods is forbidden", "your role lacks list on pods; rankdbg needs"),
        (
            {"context": "none"},
            "kubectl has no current context: ~/.kube/config does not name one",
            "add --context NAME; kubectl config get-contexts lists them",
        ),
        (
            {"kubelet": "down"},
            "the kubelet of machine-1 does not respond: dial tcp 127.0.0.1:10250: connect: "
            "connection refused\n",
            "kubectl -n train get node machine-1",
        ),
        (
            {"exec": "forbidden"},
            "exec into container main of pod worker-0 is forbidden: ",
            "your role lacks create on pods/exec; rankdbg needs get and list on pods, ",
        ),
    ],
)
def test_a_cluster_that_refuses(
    cluster: Kubernetes, behaviour: dict[str, str], sentence: str, next_step: str
) -> None:
    """kubectl's own words, and the next step."""
    cluster.behave(**behaviour)
    said = refusal()
    assert sentence in said
    assert f"hint: {next_step}" in said


def test_a_frozen_api_server(cluster: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl would wait for a minute; we do not."""
    monkeypatch.setattr(kubectl, "GET_SECONDS", 1.0)
    cluster.behave(api="frozen")
    assert "get pods -l app=llama -o json got no response within 1 s" in refusal()


def test_an_api_server_that_freezes_in_an_open_session(
    pair: tuple[Kubernetes, Session],
) -> None:
    """The hint of a single command; the ranks answer once the API server does."""
    cluster, session = pair
    usual, session.timeout = session.timeout, 1.0
    cluster.behave(api="frozen")
    with pytest.raises(RankdbgError) as refused:
        session.roster()
    assert refused.value.hint == "is the API server reachable? kubectl get --raw /readyz"
    cluster.behave()
    session.timeout = usual
    wait_for(lambda: answers_again(session, 2))


def test_no_kubeconfig(
    cluster: Kubernetes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Is said, and not that localhost:8080 refuses."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nosuch"))
    said = refusal()
    assert f"no cluster configured: KUBECONFIG={tmp_path}/nosuch has none" in said
    assert "export KUBECONFIG=FILE" in said and "8080" not in said


@pytest.mark.parametrize("verb", ["logs", "doctor"])
def test_logs_that_are_forbidden(cluster: Kubernetes, verb: str) -> None:
    """The missing permission and how to check it, once for all pods."""
    cluster.behave(logs="forbidden")
    result = rankdbg(verb, "-t", TARGET)
    (line,) = (line for line in result.stderr.splitlines() if "cannot read" in line)
    for pod in ("worker-0", "worker-1"):
        assert f"kubectl -n train logs {pod} -c main" in line
    assert "your role lacks get on pods/log" in line
    assert line.endswith("check with kubectl -n train auth can-i get pods/log")


def test_a_connection_that_is_lost(cluster: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes through, and nobody says that it has ended: the node process ends, since
    it hears nothing."""
    monkeypatch.setitem(sending.REMOTE, "silence", 3)
    monkeypatch.setattr(carrier, "ROUND_SECONDS", 0.5)  # until then it hears something
    cluster.start("lost-0", {"main": ranks(0, 1, BEHAVE, "waits")})
    with Session("k8s:train/lost-0", ANSWER_SECONDS) as session:
        wait_for(lambda: session.roster().processes)
        assert cluster.processes("lost-0", "main", "rankdbg.node")
        cluster.behave(api="frozen")
        wait_for(lambda: not cluster.processes("lost-0", "main", "rankdbg.node"))


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("k8s:nosuch/app=llama", "namespace 'nosuch' does not exist"),
        ("k8s:nosuch/worker-0", "namespace 'nosuch' does not exist"),
        ("k8s:train/app=nosuch", "no pod in the namespace 'train' matches app=nosuch"),
        ("k8s:train/nosuch", "pod 'nosuch' does not exist in the namespace 'train'"),
        ("k8s:train/worker-0,nosuch", "pod 'nosuch' does not exist in the namespace 'train'"),
        ("k8s:app=llama", "no pod in the context's namespace matches app=llama"),
        ("k8s:train/job/nosuch", "no pod in the namespace 'train' belongs to the Job 'nosuch'"),
        ("k8s:train/cron/x", "invalid 'cron/x' in k8s:train/cron/x: expected KIND/NAME"),
        ("k8s:", "k8s: names no pods"),
        ("k8s:train", "k8s:train names no pods"),
        ("k8s:Train/worker-0", "invalid namespace 'Train' in k8s:Train/worker-0"),
        ("k8s:train/Worker_0", "invalid 'Worker_0' in k8s:train/Worker_0: expected a pod or"),
        ("k8s:train/--token=x", "invalid '--token=x' in k8s:train/--token=x: expected a pod or"),
        ("k8s:train/app=a b", "unable to parse requirement"),
    ],
)
def test_targets_that_name_nothing(cluster: Kubernetes, target: str, sentence: str) -> None:
    """One clear sentence and the next step."""
    assert sentence in refusal(target)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (Options(context="nosuch"), 'context "nosuch" does not exist'),
        (Options(kubectl="nosuch"), "invalid --kubectl 'nosuch': no such command"),
        (Options(kubectl="'"), "invalid --kubectl"),
    ],
)
def test_options_that_cannot_be_used(cluster: Kubernetes, options: Options, sentence: str) -> None:
    """One clear sentence."""
    with (
        pytest.raises(RankdbgError, match=sentence),
        Session(TARGET, ANSWER_SECONDS, options=options) as session,
    ):
        session.roster()


def test_on_the_command_line(cluster: Kubernetes) -> None:
    """A refusal is an error message and exit status 2."""
    result = rankdbg("ps", "-t", "k8s:train/nosuch")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: pod 'nosuch' does not exist in the namespace 'train'\n"
        "  hint: kubectl -n train get pods\n"
    )


def test_neither_kubectl_nor_oc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Is said, with how to name one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RankdbgError, match="k8s: targets need kubectl or oc"):
        Session(TARGET)


def test_this_kubectl_is_strict(cluster: Kubernetes) -> None:
    """An option that the real one does not know is refused as the real one refuses it."""
    result = cluster.run("kubectl", "exec", "--nosuch", "worker-0", "--", "true")
    assert result.returncode == 1
    assert result.stderr == "error: unknown flag: --nosuch\nSee 'kubectl exec --help' for usage.\n"
    inside = cluster.run("kubectl", "-n", "train", "exec", "worker-0", "--", "sh", "-c", "exit 3")
    assert (inside.returncode, inside.stderr) == (3, "command terminated with exit code 3\n")
