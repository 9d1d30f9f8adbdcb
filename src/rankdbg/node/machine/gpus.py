"""The GPUs of this node from NVML, queried in a child process that may hang.

    {"gpus": [{"index": 0, "uuid": …, "utilization": 100, "power": 118.2, …}], "driver": "580.…",
     "why": "", "pids": ""}

`why` says what is missing: there is no driver, or it does not respond. `pids` says why no
processes are listed: NVML may use pids of another PID namespace.
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

from rankdbg.node import programs
from rankdbg.node.machine import descriptors, nvml, processes

# 8 GPUs answer within 0.1 s while a job holds the driver.
SECONDS = 2.0
# The inode that the kernel gives to the first PID namespace.
FIRST_NAMESPACE = 0xEFFFFFFC
UNKNOWN_PIDS = "NVML reports pids of the host, which cannot be mapped inside this container"


class Gpus:
    """Keeps a child that hangs in the driver: a second one would hang as well."""

    def __init__(self) -> None:
        self._hanging: subprocess.Popen[bytes] | None = None

    def look(self, deadline: float, program: str = programs.path_of(nvml)) -> dict[str, Any]:
        if self._hanging is not None and self._hanging.poll() is None:
            why = f"NVML still does not respond to process {self._hanging.pid}"
            return {"gpus": [], "driver": "", "why": why, "pids": ""}
        seconds = min(SECONDS, max(0.1, deadline - time.monotonic()))
        # Without site: no packages of the environment, no agent, and fast.
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
            self._hanging = child  # in the kernel; it ends when the driver returns


def _late(output: bytes, seconds: float) -> str:
    """Distinguishes an overloaded machine from a driver that hangs."""
    if not output:
        return f"the NVML process could not start within {seconds:g} s"
    return f"NVML did not respond within {seconds:g} s"


def _ending(status: int) -> str:
    """Why the output of a child is incomplete; empty if it is complete."""
    if status < 0:
        return f"NVML crashed the process that called it (signal {-status})"
    return f"the NVML process failed (exit status {status})" if status else ""


def _understand(output: bytes, why: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"gpus": [], "driver": "", "why": why}
    asking = None
    for line in output.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # truncated
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
    """In a container some drivers report pids of the host, others those of the container's
    namespace, and sometimes thread ids. So in a container all pids must be local processes that
    have a GPU open; if one is not, the others match by chance."""
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
    """Each process once, even if several of its threads are listed."""
    return [{"pid": pid, "memory": memory} for pid, memory in dict(entries).items()]


def in_first_namespace() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino == FIRST_NAMESPACE
    except OSError:
        return False


def _process_of(task: int) -> int | None:
    """The process of a thread (or the process itself); None if it does not exist."""
    group = processes.status_field(task, "Tgid")
    return int(group) if group else None


def opened(pid: int) -> set[str] | None:
    """The GPU device files that a process has open; None if that cannot be read."""
    try:
        files = {target for _, target in descriptors.targets(pid)}
    except OSError:
        return None
    return {file for file in files if re.fullmatch(r"/dev/(nvidia\d+|dxg)", file)}
