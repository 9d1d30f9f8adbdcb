"""The processor time of reaching pods, where no real Kubernetes can run.

Pods are namespaces on this machine, and kubectl is tests/fakes/kubectl, a Python program: what that
costs says nothing about a real one, and is left out. Counted is what is spent in the pods by what
`kubectl exec` starts there, and beside it what the rankdbg command itself takes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measuring import BIN, milliseconds, table
from _worlds import HERE, PROGRAMS

from kubernetes_cluster import Kubernetes
from waiting import wait_for

# Before what exec starts in a pod: notes the processor time of that, without its own.
_NOTES = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "a") as notes:
    notes.write(f"{used.ru_utime + used.ru_stime}\\n")
sys.exit(done.returncode)
"""
SLEEPS = "import time\ndef waits():\n    time.sleep(36000)\nwaits()"
PATIENCE = 120.0
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AGENTS, WITHOUT, BARE = "agents", "without", "bare"
KINDS = {
    AGENTS: "rankdbg in the pods, ranks with agents",
    WITHOUT: "no rankdbg in the pods, py-spy there",
    BARE: "neither: both are sent",
}
VERBS = ("ps", "stacks --samples 1")


class Pods:
    """Pods of one kind, and the processor time that is spent in them."""

    def __init__(self, scratch: Path, kind: str, count: int, python: str) -> None:
        self.kind, self.count = kind, count
        # Pods have a /tmp of their own, and share the rest of this machine.
        self._shared = Path(tempfile.mkdtemp(prefix=".bench-", dir=HERE.parent))
        shutil.copy(BIN / "py-spy", self._shared)
        self._notes = self._shared / "notes"
        self._notes.touch()
        self._cluster = Kubernetes(scratch)
        for number in range(count):
            container = self._container(number, python)
            self._cluster.start(f"pod-{number}", {"main": container}, {"app": "bench"})

    def _container(self, number: int, python: str) -> dict[str, Any]:
        first = {AGENTS: f"{BIN}:", WITHOUT: f"{self._shared}:", BARE: ""}[self.kind]
        first += "" if self.kind == AGENTS else f"{Path(python).parent}:"
        variables = {"RANK": str(number), "WORLD_SIZE": str(self.count), "PATH": first + PATHS}
        behave = [sys.executable, PROGRAMS / "behave.py", "waits"]
        return {
            "command": behave if self.kind == AGENTS else [python, "-c", SLEEPS],
            "environment": variables | ({"RANKDBG": "1"} if self.kind == AGENTS else {}),
            "prefix": [sys.executable, "-I", "-S", "-c", _NOTES, self._notes.as_posix()],
        }

    def end(self) -> None:
        self._cluster.end()
        shutil.rmtree(self._shared)

    def ours(self, verb: str) -> tuple[float, float]:
        words = [str(BIN / "rankdbg"), *verb.split(), "-t", "k8s:train/app=bench"]
        return self._run([*words, "--timeout", "60"])

    def by_hand(self) -> tuple[float, float]:
        names = " ".join(f"pod-{number}" for number in range(self.count))
        enter = "kubectl -n train exec"
        each = f"{enter} POD -- py-spy dump --pid 1"
        if self.kind == BARE:
            there = "cat >/tmp/py-spy; chmod 700 /tmp/py-spy; /tmp/py-spy dump --pid 1"
            each = f"sh -c 'cat {BIN / 'py-spy'} | {enter} -i POD -- sh -c \"{there}\"'"
        return self._run(["sh", "-c", f"printf '%s\\n' {names} | xargs -P 0 -I POD {each}"])

    def _run(self, words: list[str]) -> tuple[float, float]:
        """The processor time in a pod, on average, and that of the command without its children."""
        before = len(self._noted())
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                words,
                env=self._cluster.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            own = _own_time(process)
            output.seek(0)
            said = output.read().decode(errors="replace")
        if process.returncode or "waits" not in said:
            sys.exit(f"{' '.join(words)}: {said[-1000:]}")
        # What exec has started ends a little after the command.
        wait_for(lambda: len(self._noted()) == before + self.count, "the pods' times", PATIENCE)
        return sum(self._noted()[before:]) / self.count, own

    def _noted(self) -> list[float]:
        return [float(line) for line in self._notes.read_text().split()]


def _own_time(process: subprocess.Popen[bytes]) -> float:
    """Waits for the end of a process; its processor time without that of its children."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
    process.wait()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(count: int, rounds: int, python: str) -> None:
    for kind, title in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as scratch:
            pods = Pods(Path(scratch) / "kubernetes", kind, count, python)
            try:
                rows = [[f"{count} pods, {title}", "a pod", "by hand", "ratio", "rankdbg itself"]]
                rows += [_row(pods, verb, rounds) for verb in VERBS]
            finally:
                pods.end()
        table(rows)


def _row(pods: Pods, verb: str, rounds: int) -> list[str]:
    works: list[Callable[[], tuple[float, float]]] = [lambda: pods.ours(verb), pods.by_hand]
    for work in works:
        work()  # what is read for the first time comes from the disk
    taken = [[work() for work in works] for _ in range(rounds)]
    ours, hand = (statistics.median(each[n][0] for each in taken) for n in (0, 1))
    ratio = statistics.median(own[0] / other[0] for own, other in taken)
    itself = statistics.median(own[1] for own, _ in taken)
    return [verb, milliseconds(ours), milliseconds(hand), f"{ratio:.1f}", milliseconds(itself)]
