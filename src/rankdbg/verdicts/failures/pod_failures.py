"""Containers that failed, as Kubernetes knows them -> failures like those of log lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from signal import Signals

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.places import LogFile
from rankdbg.text.amounts import counted
from rankdbg.types import ContainerFailure

_SIGNALLED = 128  # an exit code above it is a signal's number more
_KILLED = _SIGNALLED + 9
# Kubernetes' words -> the mode of a rule in rules/launchers.toml or rules/memory.toml.
_MODES = {
    "OOMKilled": "k8s_oomkilled",
    "Evicted": "k8s_evicted",
    "Unschedulable": "k8s_pod_not_scheduled",
    "FailedScheduling": "k8s_pod_not_scheduled",
    "ImagePullBackOff": "k8s_image_pull_failed",
    "ErrImagePull": "k8s_image_pull_failed",
    "StartError": "k8s_container_not_started",
    "ContainerCannotRun": "k8s_container_not_started",
}


def mode_of(failure: ContainerFailure) -> str:
    if failure.reason in _MODES:
        return _MODES[failure.reason]
    if failure.exit_code is None:
        return "k8s_container_not_started"
    return "k8s_container_killed" if failure.exit_code == _KILLED else "k8s_container_failed"


def pod_scans(
    failures: Iterable[ContainerFailure],
    logs: Sequence[FileScan],
    ranks_of: Mapping[str, Sequence[int]],
) -> list[FileScan]:
    """Each as a file of one line, and the events of its pod as another.

    What a container logged came before its end. Where that has no clock, the end gets none
    either, and stands behind it.
    """
    unclocked = {scan.file.node for scan in logs if scan.file and _has_failure_without_clock(scan)}
    ended = max((scan.modified for scan in logs), default=0.0)
    made: list[FileScan] = []
    for failure in failures:
        stamp = "" if failure.node in unclocked else failure.when
        ranks = tuple(ranks_of.get(failure.node, ()))
        texts = {
            f"container {failure.container} of pod {failure.pod}": [describe(failure)],
            f"events of pod {failure.pod}": failure.events,
        }
        for path, lines in texts.items():
            mode = f"failure:{mode_of(failure)}"
            hits = [Hit(mode, 0, place, text, text, stamp) for place, text in enumerate(lines)]
            if hits:
                file = LogFile(failure.node, path, "status", ranks=ranks)
                made.append(FileScan(path, tuple(hits), modified=ended + 1.0, file=file))
    return made


def _has_failure_without_clock(scan: FileScan) -> bool:
    return any(not hit.stamp and not hit.pattern.startswith("phase:") for hit in scan.hits)


def describe(failure: ContainerFailure) -> str:
    """OOMKilled, exit code 137, memory limit 64Mi, 3 restarts, node-1"""
    parts = [failure.reason]
    if failure.exit_code is not None:
        parts.append(f"exit code {failure.exit_code}{_signal(failure.exit_code)}")
    if failure.memory_limit and failure.exit_code is not None:
        parts.append(f"memory limit {failure.memory_limit}")
    if failure.restarts:
        restarts = counted(failure.restarts, "restart")
        parts.append(f"{restarts} (runs now)" if failure.running else restarts)
    parts += [failure.machine] if failure.machine else []
    described = ", ".join(parts)
    message = failure.message.removeprefix(f"{failure.reason}: ")
    return f"{described}: {message}" if message and message != failure.reason else described


def _signal(code: int) -> str:
    try:
        return f" ({Signals(code - _SIGNALLED).name})" if code != _KILLED else ""
    except ValueError:
        return ""
