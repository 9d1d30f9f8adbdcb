"""`ps` and `stacks` of many pods of a real Kubernetes, beside the same by hand.

By hand is what one would type: kubectl lists the pods, and xargs runs `kubectl exec POD -- py-spy
dump --pid 1` in all of them at once. Same pods, same run, in turns.

with agents       the pods have py-spy, and their ranks an agent
without           the pods have py-spy, and no rankdbg: it is sent there each time
without py-spy    nor py-spy: it is sent too, by hand through the stdin of kubectl exec

Kubernetes runs on this machine too, so each program that is started in a pod costs time here.
With --load, as many processes compute all the time.

Needs the kit that starts a Kubernetes (tests/support/real_kubernetes.py), and root. Where the kit
cannot run, the tests' fake kubectl reaches pods that are namespaces, and only the processor time in
these is compared (_fake_pods.py): the time from start to end would be that of the fake.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _fake_pods
from _measuring import BIN, begin, seconds, table
from _worlds import PROGRAMS

from real_kubernetes import (
    KIT,
    KIT_MACHINE,
    NAMESPACE,
    RealKubernetes,
    container,
    pod,
    running_kubernetes,
)
from waiting import wait_for

BARE = "/usr/bin/python3"  # has no rankdbg
SLEEPS = "import time\ndef waits():\n    time.sleep(36000)\nwaits()"
PTRACE = {"capabilities": {"add": ["SYS_PTRACE"]}}
PATIENCE = 300.0
PY_SPY = BIN / "py-spy"
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AGENTS, BARES = "agents", "bare"
MOST_FAKE = 8  # its kubectls are Pythons, and take the processors
KINDS = {AGENTS: "with agents", "without": "without", BARES: "without py-spy"}


def rank(kind: str, number: int, world: int, tools: Path) -> dict[str, Any]:
    env = {"RANK": str(number), "WORLD_SIZE": str(world)}
    env |= {"RANKDBG": "1"} if kind == AGENTS else {}
    env |= {} if kind == BARES else {"PATH": f"{tools}:{PATHS}"}
    behave = (sys.executable, PROGRAMS / "behave.py", "waits")
    mounts = [{"name": "tools", "mountPath": str(tools), "readOnly": True}]
    return container(
        behave if kind == AGENTS else (BARE, "-c", SLEEPS),
        env=env,
        securityContext=PTRACE,
        mounts=mounts,
    )


def start_pods(cluster: RealKubernetes, kind: str, count: int, tools: Path) -> None:
    volumes = [{"name": "tools", "hostPath": {"path": str(tools)}}]
    cluster.apply(
        *(
            pod(f"{kind}-{n}", rank(kind, n, count, tools), labels={"app": kind}, volumes=volumes)
            for n in range(count)
        )
    )

    def are_running() -> bool:
        found = cluster.list("pods", "-l", f"app={kind}")
        return [each["status"]["phase"] for each in found] == ["Running"] * count

    wait_for(are_running, f"{count} pods that run", PATIENCE)


def by_hand(environment: dict[str, str], kind: str) -> Callable[[], object]:
    listed = f"kubectl -n {NAMESPACE} get pods -l app={kind} -o name"
    enter = f"kubectl -n {NAMESPACE} exec"
    each = f"{enter} POD -- py-spy dump --pid 1"
    if kind == BARES:
        there = "cat >/tmp/py-spy; chmod 700 /tmp/py-spy; /tmp/py-spy dump --pid 1"
        each = f"sh -c '{enter} -i POD -- sh -c \"{there}\" <{PY_SPY}'"
    line = f"{listed} | xargs -P 0 -I POD {each}"
    return lambda: run(["sh", "-c", line], environment, "waits")


def ours(environment: dict[str, str], kind: str, verb: str) -> Callable[[], object]:
    words = [
        str(BIN / "rankdbg"),
        *verb.split(),
        "-t",
        f"k8s:{NAMESPACE}/app={kind}",
        "--timeout",
        "60",
    ]
    return lambda: run(words, environment, "waits")


def run(words: list[str], environment: dict[str, str], expected: str) -> None:
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode or expected not in done.stdout:
        sys.exit(f"{' '.join(words)}: {done.stdout[-500:]}{done.stderr[-500:]}")


@contextlib.contextmanager
def load(count: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(environment: dict[str, str], kind: str, rounds: int, count: int, busy: int) -> None:
    title = f"{count} pods {KINDS[kind]}, {busy} busy processes: best, median"
    rows = [[title, "rankdbg", "by hand", "ours / by hand"]]
    hand = by_hand(environment, kind)
    with load(busy):
        for verb in ("ps", "stacks --samples 1"):
            own = ours(environment, kind, verb)
            pairs = [(seconds(own), seconds(hand)) for _ in range(rounds)]
            rows.append([verb, *figures(pairs)])
    table(rows)


def figures(pairs: list[tuple[float, float]]) -> list[str]:
    shown = [
        f"{min(each):.2f} s, {statistics.median(each):.2f} s" for each in zip(*pairs, strict=True)
    ]
    return [*shown, f"{statistics.median(one / other for one, other in pairs):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pods", metavar="PODS", nargs="?", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--python", default=BARE, help="of pods without rankdbg (fake kubectl only)"
    )
    parser.add_argument("--load", type=int, nargs="*", default=[0, 2 * (os.cpu_count() or 1)])
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: needs root")
        return
    if not Path(KIT).exists() or platform.machine() != KIT_MACHINE:
        begin(f"FAKE kubectl: processor time in each pod, {options.rounds} rounds")
        print(f"Python in pods without rankdbg: {options.python}. kubectl itself is not counted.")
        _fake_pods.measure(min(options.pods, MOST_FAKE), options.rounds, options.python)
        return
    begin(f"pods of a real Kubernetes, {options.rounds} rounds")
    with running_kubernetes() as cluster, tools_of(cluster) as tools:
        for kind in KINDS:
            start_pods(cluster, kind, options.pods, tools)
            for busy in options.load:
                measure(cluster.environment(), kind, options.rounds, options.pods, busy)
            cluster.ctl("delete", "pod", "--all", "--grace-period=0", "--force")


@contextlib.contextmanager
def tools_of(cluster: RealKubernetes) -> Iterator[Path]:
    """A directory that pods can mount, with py-spy alone."""
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-", dir=cluster.folder) as tools:
        Path(tools).chmod(0o755)
        shutil.copy(PY_SPY, tools)
        yield Path(tools)


if __name__ == "__main__":
    main()
