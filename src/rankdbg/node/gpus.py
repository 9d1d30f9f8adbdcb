"""The GPUs of this node, as NVML sees them, asked in a child that can be left behind.

    {"gpus": [{"index": 0, "uuid": …, "utilization": 100, "power": 118.2, …}], "driver": "580.…",
     "why": "", "pids": ""}

`why` says what is missing: there is no driver, or it does not answer. `pids` says why no
processes are named: NVML may call them by numbers of another PID namespace than ours.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

from rankdbg.node import nvml, processes

# 8 GPUs answer within 0.1 s while a job holds the driver.
SECONDS = 2.0
# The inode that the kernel gives to the first PID namespace.
FIRST_NAMESPACE = 0xEFFFFFFC
UNKNOWN_PIDS = "NVML names processes by pids of the host, which cannot be told from in here"


class Gpus:
    """Keeps the child that hangs with a wedged driver: a second one would only hang as well."""

    def __init__(self) -> None:
        self._hanging: subprocess.Popen[bytes] | None = None

    def look(self, deadline: float, program: str = str(nvml.__file__)) -> dict[str, Any]:
        if self._hanging is not None and self._hanging.poll() is None:
            why = f"NVML still does not answer process {self._hanging.pid}"
            return {"gpus": [], "driver": "", "why": why, "pids": ""}
        seconds = min(SECONDS, max(0.1, deadline - time.monotonic()))
        # Without site: nothing of the node's environment, no agent, and quick.
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            output, late = child.communicate(timeout=seconds)[0], ""
        except subprocess.TimeoutExpired as expired:
            output, late = expired.output or b"", _late(expired.output or b"", seconds)
            self._leave(child)
        return _with_our_pids(_understand(output, late or _ending(child.returncode)))

    def _leave(self, child: subprocess.Popen[bytes]) -> None:
        child.kill()
        try:
            child.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            self._hanging = child  # in the kernel; it ends when the driver lets go of it


def _late(output: bytes, seconds: float) -> str:
    """A machine on which nothing gets its turn must not be taken for a wedged driver."""
    if not output:
        return f"what asks NVML could not even start within {seconds:g} s"
    return f"NVML did not answer within {seconds:g} s"


def _ending(status: int) -> str:
    """Why a child that should have said everything has not; `` if it has."""
    if status < 0:
        return f"NVML ended the process that asked it (signal {-status})"
    return f"what asks NVML has failed (exit status {status})" if status else ""


def _understand(output: bytes, why: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"gpus": [], "driver": "", "why": why}
    asking = None
    for line in output.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # cut off in the middle
        if "gpu" in said:
            answer["gpus"].append(said["gpu"])
            asking = None
        elif "asking" in said:
            asking = said["asking"]
        elif "driver" in said:
            answer["driver"] = said["driver"]
        elif "why" in said:
            answer["why"] = said["why"]
    if why and asking is not None:
        answer["why"] = f"{why} about GPU {asking}"
    return answer


def _with_our_pids(answer: dict[str, Any]) -> dict[str, Any]:
    """Some drivers name processes by the host's pids also in a container, others by
    those of our namespace, and at times by a thread's. So in a container all of them must prove
    to be processes here that have a GPU open: one that is not makes the others chance hits."""
    named = [entry for gpu in answer["gpus"] for entry in gpu.get("processes") or ()]
    ours = {entry["pid"]: _process_of(entry["pid"]) for entry in named}
    trusted = in_first_namespace() or all(pid and opened(pid) for pid in ours.values())
    for gpu in answer["gpus"]:
        gpu["processes"] = (
            _merged((ours[e["pid"]] or e["pid"], e["memory"]) for e in gpu.get("processes") or ())
            if trusted
            else []
        )
    return {**answer, "pids": "" if trusted else UNKNOWN_PIDS}


def _merged(entries: Iterable[tuple[int, int | None]]) -> list[dict[str, int | None]]:
    """Each process once, though several of its threads may have been named."""
    return [{"pid": pid, "memory": memory} for pid, memory in dict(entries).items()]


def in_first_namespace() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino == FIRST_NAMESPACE
    except OSError:
        return False


def _process_of(task: int) -> int | None:
    """The process of a thread (or the process itself); None if there is none here."""
    group = processes.status_field(task, "Tgid")
    return int(group) if group else None


def opened(pid: int) -> set[str] | None:
    """The GPUs that a process has open, as files; None if that cannot be seen."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    files = {_link(f"/proc/{pid}/fd/{number}") for number in numbers}
    return {file for file in files if re.fullmatch(r"/dev/(nvidia\d+|dxg)", file)}


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # closed a moment ago
        return ""
