"""The same as in test_cluster_k8s, against a real Kubernetes, where the kit for it is here: what a
fake kubectl can only claim. One file, so that one worker starts one cluster."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, rankdbg
from rankdbg.clusters.kubernetes import kubectl as kubectl_module
from rankdbg.errors import RankdbgError
from rankdbg.session import Session
from rankdbg.types import Rank
from real_kubernetes import RealKubernetes, container, pod, running_kubernetes
from waiting import ANSWER_SECONDS, wait_for

BEHAVE = PROGRAMS / "behave.py"
PTRACE = {"capabilities": {"add": ["SYS_PTRACE"]}}
SEALED = {"readOnlyRootFilesystem": True, **PTRACE}
SLEEPS = "import time; print('step 1 loss 2.5', flush=True); time.sleep(3600)"
EATS = "import time; print('step 1', flush=True); x = bytearray(300_000_000); time.sleep(3600)"
SMALL = {"limits": {"memory": "64Mi"}}
BARE = "/usr/bin/python3"  # without rankdbg and py-spy


def rank(number: int, world: int, **more: Any) -> dict[str, Any]:
    """A container with one rank, which has an agent."""
    env = {"RANK": str(number), "WORLD_SIZE": str(world), "RANKDBG": "1"}
    return container([sys.executable, BEHAVE, "waits"], env=env, securityContext=PTRACE, **more)


def plain(program: str, number: int = 0, world: int = 1, **more: Any) -> dict[str, Any]:
    """One without."""
    env = {"RANK": str(number), "WORLD_SIZE": str(world)}
    return container([BARE, "-c", program], env=env, **more)


@pytest.fixture(scope="module")
def kube() -> Iterator[RealKubernetes]:
    with running_kubernetes() as cluster:
        ends = container(["sh", "-c", "exit 137"])
        cluster.apply(
            pod("llama-0", rank(0, 2), labels={"app": "llama"}),
            pod("llama-1", rank(1, 2), labels={"app": "llama"}),
            pod("fat-0", plain(EATS, 0, 3, resources=SMALL), labels={"app": "fat"}),
            pod("fat-1", plain(SLEEPS, 1, 3), labels={"app": "fat"}),
            pod("fat-2", ends, labels={"app": "fat"}, restartPolicy="Never"),
            pod("sealed-0", plain(SLEEPS, securityContext=SEALED)),
            pod("nowhere-0", plain(SLEEPS), nodeSelector={"no": "such"}),
            pod("shellless-0", rank(0, 1), places=["/usr/lib", "/etc"]),
        )
        running = ("llama-0", "llama-1", "fat-1", "sealed-0", "shellless-0")
        cluster.wait_until_running(*running)
        yield cluster


@pytest.fixture
def train(kube: RealKubernetes, monkeypatch: pytest.MonkeyPatch) -> RealKubernetes:
    """With the cluster's kubectl, as its admin."""
    for name in ("PATH", "KUBECONFIG"):
        monkeypatch.setenv(name, kube.environment()[name])
    return kube


def answer(verb: str, target: str, *words: object, status: int = 0) -> Any:
    result = rankdbg(verb, "--json", "-t", target, "--timeout", 20, *words)
    assert result.returncode == status, result.stderr
    return json.loads(result.stdout)


def numbers(target: str) -> list[int]:
    return sorted(found["rank"] for found in answer("ps", target)["ranks"])


def refused(verb: str, target: str, **environment: str) -> str:
    """The message of a command that fails with status 2."""
    result = rankdbg(verb, "-t", target, env={**os.environ, **environment})
    assert result.returncode == 2, result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr


def as_user(cluster: RealKubernetes, user: str) -> dict[str, str]:
    return {"KUBECONFIG": cluster.environment(user)["KUBECONFIG"]}


# --- which pods -------------------------------------------------------------------------------


def test_pods_by_label_and_by_name(train: RealKubernetes) -> None:
    """A label, several names, and a name that is not there."""
    assert numbers("k8s:train/app=llama") == [0, 1]
    assert numbers("k8s:train/llama-1,llama-0") == [0, 1]
    said = refused("ps", "k8s:train/llama-0,nosuch")
    assert "pod 'nosuch' does not exist in the namespace 'train'" in said


def test_pods_in_the_namespace_of_the_context(train: RealKubernetes, tmp_path: Path) -> None:
    """Without a namespace it is the one that kubectl would take."""
    config = tmp_path / "config"
    config.write_text(Path(os.environ["KUBECONFIG"]).read_text())
    environment = {"KUBECONFIG": str(config)}
    assert "in the context's namespace matches app=llama" in refused(
        "ps", "k8s:app=llama", **environment
    )
    words = ("config", "set-context", "--current", "--namespace=train")
    train.ctl("--kubeconfig", str(config), *words, namespace="")
    result = rankdbg("ps", "-t", "k8s:app=llama", env={**os.environ, **environment})
    assert result.returncode == 0 and "2 ranks on 2 nodes" in result.stdout, result.stderr


def test_pods_by_their_owner(train: RealKubernetes) -> None:
    """Those of a Job and of a Deployment, and of no other."""
    spec = pod("made", rank(0, 1))["spec"]
    about = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "made"}}
    train.apply({**about, "spec": {"template": {"spec": {**spec, "restartPolicy": "Never"}}}})
    labels = {"app": "made-too"}
    template = {"metadata": {"labels": labels}, "spec": pod("served", rank(7, 8))["spec"]}
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "served"}}
    train.apply({**about, "spec": {"selector": {"matchLabels": labels}, "template": template}})
    try:
        for selector in ("job-name=made", "app=made-too"):
            wait_for(lambda selector=selector: train.list("pods", "-l", selector))
            train.wait_until_running(
                train.list("pods", "-l", selector)[0]["metadata"]["name"],
            )
        wait_for(lambda: numbers("k8s:train/job/made") == [0])
        wait_for(lambda: numbers("k8s:train/deployment/served") == [7])
        said = refused("ps", "k8s:train/statefulset/served")
        assert "no pod in the namespace 'train' belongs to the StatefulSet 'served'" in said
    finally:
        train.ctl("delete", "job/made", "deployment/served", "--wait=false")


# What the operators do, as they do it: labels and owners of the pods that they make.
OPERATED = {
    "pytorchjob": ("kubeflow.org", "v1", "PyTorchJob", "training.kubeflow.org/job-name"),
    "raycluster": ("ray.io", "v1", "RayCluster", "ray.io/cluster"),
    "jobset": ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobset.sigs.k8s.io/jobset-name"),
}


def definition(kind: str) -> dict[str, Any]:
    """A CustomResourceDefinition that takes whatever is in it."""
    group, version, name, _ = OPERATED[kind]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"{kind}s", "singular": kind, "kind": name},
            "versions": [{**served, "schema": {"openAPIV3Schema": anything}}],
        },
    }


def controller_reference(cluster: RealKubernetes, kind: str, name: str) -> dict[str, Any]:
    about = cluster.get(kind, name)
    keys = {key: about[key] for key in ("apiVersion", "kind")}
    uid = about["metadata"]["uid"]
    return {**keys, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*OPERATED])
def test_pods_of_operators(train: RealKubernetes, kind: str) -> None:
    """Those of the object that is named, not those of another one; the job has its name."""
    group, version, name, label = OPERATED[kind]
    train.ctl("apply", "-f", "-", input=json.dumps(definition(kind)), namespace="")
    train.ctl("wait", "--for=condition=Established", f"crd/{kind}s.{group}", namespace="")
    made = []
    try:
        for number, owner in enumerate(("mine", "other")):
            about = {"apiVersion": f"{group}/{version}", "kind": name}
            train.apply({**about, "metadata": {"name": owner}, "spec": {"free": "text"}})
            document = pod(f"{kind}-{owner}-0", rank(number, 2), labels={label: owner})
            document["metadata"]["ownerReferences"] = [_owner_of_pods(train, kind, owner)]
            train.apply(document)
            made.append(f"{kind}-{owner}-0")
        train.wait_until_running(*made)
        wait_for(lambda: numbers(f"k8s:train/{kind}/mine") == [0])
        (found,) = answer("ps", f"k8s:train/{kind}/other")["ranks"]
        assert (found["rank"], found["job"]) == (1, "other")
        said = refused("ps", f"k8s:train/{kind}/nosuch")
        assert f"no pod in the namespace 'train' belongs to the {name} 'nosuch'" in said
    finally:
        # With the objects go the pods that they own: the garbage collector's part is real too.
        train.ctl("delete", f"{kind}s.{group}", "--all", "--wait=false")
        train.ctl("delete", "jobs", "--all", "--wait=false")
        train.ctl("delete", "crd", f"{kind}s.{group}", "--wait=false", namespace="")


def _owner_of_pods(cluster: RealKubernetes, kind: str, name: str) -> dict[str, Any]:
    """The object itself; pods of a JobSet belong to one of its Jobs, which Kubernetes' own
    controller of Jobs leaves alone while it is suspended."""
    reference = controller_reference(cluster, kind, name)
    if kind != "jobset":
        return reference
    spec = pod("unused", rank(0, 1), restartPolicy="Never")["spec"]
    about = {"name": f"{name}-workers-0", "ownerReferences": [reference]}
    template = {"template": {"spec": spec}, "suspend": True}
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": template})
    return controller_reference(cluster, "job", f"{name}-workers-0")


@pytest.mark.slow
def test_pods_of_a_statefulset(train: RealKubernetes) -> None:
    """Made by Kubernetes' own controller, one after the other, with numbers in their names."""
    labels = {"app": "stateful"}
    template = {"metadata": {"labels": labels}, "spec": pod("any", rank(3, 4))["spec"]}
    about = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "workers"}}
    spec = {"selector": {"matchLabels": labels}, "replicas": 2, "serviceName": "workers"}
    train.apply({**about, "spec": {**spec, "template": template}})
    try:
        wait_for(lambda: len(train.list("pods", "-l", "app=stateful")) == 2)
        train.wait_until_running("workers-0", "workers-1")
        for target in ("statefulset/workers", "sts/workers"):
            wait_for(lambda target=target: _nodes(f"k8s:train/{target}") == WORKERS)
    finally:
        train.ctl("delete", "statefulset/workers", "--wait=false")


WORKERS = ["workers-0", "workers-1"]


def _nodes(target: str) -> list[str]:
    return sorted(found["host"] for found in answer("ps", target)["ranks"])


# --- looking ----------------------------------------------------------------------------------


def logged_kubectl(folder: Path, refuses: str = "nothing") -> tuple[Path, Path]:
    """A kubectl that notes what it was called for and lacks one verb; and its notes."""
    program, notes = folder / "kubectl", folder / "calls"
    words = (
        f'for w; do case $w in exec|get|proxy|logs) echo $w >> "{notes}"; v=$w; break;; esac; done'
    )
    program.write_text(f'#!/bin/sh\n{words}\n[ "$v" = {refuses} ] && exit 1\nexec kubectl "$@"\n')
    program.chmod(0o755)
    return program, notes


def test_one_kubectl_carries_all_pods(train: RealKubernetes, tmp_path: Path) -> None:
    """One that asks which pods there are, one through which all are entered."""
    program, notes = logged_kubectl(tmp_path)
    (tmp_path / "calls").touch()
    answered = answer("ps", "k8s:train/app=llama", "--kubectl", program)
    assert sorted(found["rank"] for found in answered["ranks"]) == [0, 1]
    assert sorted(notes.read_text().split()) == ["get", "proxy"]


def test_a_kubectl_without_proxy(train: RealKubernetes, tmp_path: Path) -> None:
    """Each pod has an exec of its own, and all is as ever."""
    program, notes = logged_kubectl(tmp_path, refuses="proxy")
    answered = answer("ps", "k8s:train/app=llama", "--kubectl", program)
    assert sorted(found["rank"] for found in answered["ranks"]) == [0, 1]
    assert sorted(notes.read_text().split()) == ["exec", "exec", "get", "proxy"]


def test_the_proxy_ends_with_its_client(train: RealKubernetes, tmp_path: Path) -> None:
    """Also with one that is killed; its socket is removed."""
    code = (
        "from rankdbg.session import Session; s = Session('k8s:train/llama-0', timeout=20); "
        "s.job(); print('here', flush=True); input()"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None and client.stdout.readline() == "here\n"
    (folder,) = tmp_path.glob("rankdbg-kubectl-*")
    assert folder.stat().st_mode & 0o077 == 0
    assert _with_words(f"--unix-socket={folder}/api")
    client.kill()
    client.communicate()
    wait_for(lambda: not folder.exists() and not _with_words(f"--unix-socket={folder}/api"))


def _with_words(word: str) -> list[str]:
    """The processes that have this word in their command lines."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [place.parent.name] if word.encode() in place.read_bytes() else []
    return found


def test_py_spy_is_sent_when_it_is_needed(train: RealKubernetes) -> None:
    """Not for ranks whose agents answer, but to look from outside."""
    place = "ls -d /tmp/rankdbg-node-*/bin/py-spy 2>/dev/null | wc -l"
    with Session("k8s:train/llama-0", timeout=ANSWER_SECONDS) as session:
        ranks = session.job()
        assert train.ctl("exec", "llama-0", "--", "sh", "-c", place).strip() == "0"
        (seen,), _ = session.stacks(ranks, outside=True)
        assert seen.source == "py-spy"
        assert "waits" in [frame.function for stack in seen.main() for frame in stack.frames]
        assert train.ctl("exec", "llama-0", "--", "sh", "-c", place).strip() == "1"


def test_pystack_is_sent_too(train: RealKubernetes) -> None:
    """To a Python of the client's version: frames of C where nothing is installed."""
    found = answer("stacks", "k8s:train/fat-1", "--native")
    version = train.ctl(
        "exec", "fat-1", "--", BARE, "-c", "import sys; print(sys.version_info[:2])"
    )
    ours = version.strip() == str(sys.version_info[:2])
    assert list(found["sources"].values()) == ["pystack" if ours else "gdb"]


def test_a_read_only_root_without_tmp(train: RealKubernetes) -> None:
    """/dev/shm is written to, where no program may run: py-spy runs from memory."""
    found = answer("stacks", "k8s:train/sealed-0")
    assert list(found["sources"].values()) == ["py-spy"]
    left = train.ctl("exec", "sealed-0", "--", "sh", "-c", "ls /dev/shm")
    assert "py-spy" not in left


def test_a_hint_is_a_command_that_works_there(train: RealKubernetes) -> None:
    """A stopped rank goes on when the user types what `ps` and `why` say."""
    inside = "import os, signal; os.kill(int(open('/tmp/pid').read()), signal.SIGSTOP)"
    sleeps = f"import os; open('/tmp/pid', 'w').write(str(os.getpid())); {SLEEPS}"
    command = ["sh", "-c", f'{BARE} -c "{sleeps}" & wait']
    train.apply(pod("halted-0", container(command, env={"RANK": "0", "WORLD_SIZE": "1"})))
    train.wait_until_running("halted-0")
    wait_for(lambda: numbers("k8s:train/halted-0") == [0])
    train.ctl("exec", "halted-0", "--", BARE, "-c", inside)
    (found,) = answer("ps", "k8s:train/halted-0")["ranks"]
    command = f"kubectl -n train exec halted-0 -c main -- kill -CONT {found['pid']}"
    assert found["state"] == "stopped" and command in found["detail"]
    assert answer("why", "k8s:train/halted-0")["next"] == command
    train.ctl(*command.split()[3:])
    (found,) = answer("ps", "k8s:train/halted-0")["ranks"]
    assert found["state"] != "stopped"
    train.delete("halted-0")


# --- doctor -----------------------------------------------------------------------------------


def test_doctor_on_containers_that_were_killed(train: RealKubernetes) -> None:
    """OOMKilled with its limit, restarts and node; 137 beside ranks that run; exit status 1."""
    train.wait_for("fat-0", lambda status: status["containerStatuses"][0]["restartCount"] > 0)
    train.wait_for("fat-2", lambda status: status["phase"] == "Failed")

    def told() -> Any:  # a moment after a restart the container runs, and has not failed yet
        result = rankdbg("doctor", "--json", "-t", "k8s:train/app=fat", "--timeout", 20)
        failures = {each["mode"]: each for each in json.loads(result.stdout)["failures"]}
        return failures if result.returncode == 1 and "k8s_oomkilled" in failures else None

    failures = wait_for(told)
    line = failures["k8s_oomkilled"]["lines"][0]
    assert line.startswith("container main of pod fat-0: OOMKilled, exit code 137, ")
    assert "memory limit 64Mi" in line and "restart" in line and "node-1" in line
    killed = failures["k8s_container_killed"]["lines"][0]
    assert killed == "container main of pod fat-2: Error, exit code 137, node-1"


def test_doctor_on_a_pod_without_a_node(train: RealKubernetes) -> None:
    """That it cannot be scheduled is a failure, though it has written nothing."""
    (failure,) = answer("doctor", "k8s:train/nowhere-0", status=1)["failures"]
    assert failure["mode"] == "k8s_pod_not_scheduled"
    assert "didn't match Pod's node affinity" in failure["lines"][0]


def test_doctor_on_healthy_pods(train: RealKubernetes) -> None:
    """No failure, status 0, and no complaint about an empty /dev/shm of 64 MiB."""
    result = rankdbg("doctor", "-t", "k8s:train/app=llama", "--timeout", 20)
    assert result.returncode == 0, result.stdout
    assert "none that a rule knows" in result.stdout and "/dev/shm" not in result.stdout


# --- permissions and configuration --------------------------------------------------------------


def test_exec_that_is_forbidden(train: RealKubernetes) -> None:
    """The sentence names the verb that is missing."""
    said = refused("ps", "k8s:train/app=llama", **as_user(train, "viewer"))
    assert "exec into container main of pod llama-0 is forbidden" in said
    assert "your role lacks create on pods/exec" in said
    assert "kubectl -n train auth can-i create pods/exec" in said


def test_logs_and_events_that_are_forbidden(train: RealKubernetes) -> None:
    """What could not be read is said, by logs and by doctor."""
    said = refused("logs", "k8s:train/fat-1", **as_user(train, "debugger"))
    assert 'cannot get resource "pods/log"' in said
    environment = {**os.environ, **as_user(train, "debugger")}
    result = rankdbg("doctor", "-t", "k8s:train/app=fat", env=environment)
    assert "your role lacks list on events" in " ".join(result.stdout.split())
    assert 'cannot get resource "pods/log"' in result.stderr


def test_no_kubeconfig(train: RealKubernetes, tmp_path: Path) -> None:
    """Is said, and not that localhost:8080 refuses."""
    said = refused("ps", "k8s:train/app=llama", KUBECONFIG=str(tmp_path / "nosuch"))
    assert "kubectl has no cluster configured" in said and "nosuch" in said
    assert "8080" not in said


def test_an_image_without_a_shell(train: RealKubernetes) -> None:
    """Is said, with the way in from beside."""
    said = refused("ps", "k8s:train/shellless-0")
    assert "container main of pod shellless-0 has no shell (sh)" in said
    assert "kubectl -n train debug shellless-0" in said and "--target=main" in said


# --- what breaks while a session is open --------------------------------------------------------


def reasons(session: Session) -> dict[int | None, str]:
    """Of all ranks: why each is silent, `` for an answer."""
    answers = session.evaluate(session.job(), "1 + 1")
    return {each.rank.number: getattr(each, "reason", "") for each in answers}


def restart(cluster: RealKubernetes, name: str) -> None:
    """Its rank gets a signal that ends it, as if its program had failed."""
    before = cluster.get("pod", name)["status"]["containerStatuses"][0]["containerID"]
    cluster.ctl("exec", name, "--", BARE, "-c", f"import os; os.kill(1, {int(signal.SIGINT)})")

    def ended(status: Any) -> bool:
        (now,) = status["containerStatuses"]
        return "running" not in now["state"] or now["containerID"] != before

    cluster.wait_for(name, ended)


def test_a_rank_of_a_container_that_restarts(train: RealKubernetes) -> None:
    """It is accounted for with what has happened, until its successor answers."""
    with Session("k8s:train/app=llama", timeout=ANSWER_SECONDS) as session:
        session.reopens = True
        assert reasons(session) == {0: "", 1: ""}
        before: list[Rank] = session.job()
        restart(train, "llama-1")
        told = reasons(session)
        assert told.keys() == {0, 1} and told[0] == ""
        assert told[1] == "" or "container main of pod llama-1" in told[1]
        wait_for(lambda: reasons(session) == {0: "", 1: ""})
        (old,) = (each.process for each in before if each.number == 1)
        (new,) = (each.process for each in session.job() if each.number == 1)
        assert old != new


def test_a_frozen_api_server(train: RealKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an open session as for a single command: what to look at; and all is well afterwards."""
    hint = "is the API server reachable? kubectl get --raw /readyz"
    monkeypatch.setattr(kubectl_module, "GET_SECONDS", 2.0)
    with Session("k8s:train/app=llama", timeout=ANSWER_SECONDS) as session:
        session.reopens = True
        session.job()
        session.timeout = 1.0
        with train.freeze("apiserver"):
            with pytest.raises(RankdbgError) as open_one:
                session.job()
            with pytest.raises(RankdbgError) as new_one, Session("k8s:train/llama-0") as other:
                other.job()
        assert hint in str(open_one.value) and hint in str(new_one.value)
        session.timeout = 20.0
        wait_for(lambda: numbers("k8s:train/app=llama") == [0, 1])


def test_z_a_kubelet_that_is_down(train: RealKubernetes) -> None:
    """One short sentence. (The last test: nobody starts it again.)"""
    train.kill("kubelet")
    said = refused("ps", "k8s:train/app=llama")
    assert said.startswith("error: the kubelet of node-1 does not respond: dial tcp ")
    assert len(said) < 200
