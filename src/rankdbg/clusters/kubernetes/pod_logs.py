"""The output of containers, fetched with `kubectl logs` into local files.

Also of containers that have ended, and of the one before a restart: the kubelet keeps it for a
while.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone

from rankdbg.clusters.kubernetes.kubectl import Kubectl, last_line
from rankdbg.clusters.kubernetes.kubectl_errors import forbidden_logs
from rankdbg.logs.places import LogFile

FETCH_SECONDS = 60.0
AT_ONCE = 8
_COMPLAINT = re.compile(
    r"unable to retrieve container logs for \S+"
    r"|failed to try resolving symlinks in path .*|rpc error: code = \w+ desc = .*"
)
_LONGEST_COMPLAINT = 4096


@dataclass(frozen=True)
class ContainerLog:
    node: str  # its name in the session
    pod: str
    container: str
    ident: str  # changes at each restart
    restarts: int
    job: str
    ended: bool


class PodLogs:
    """Keeps the files in a directory; later fetches append only new output."""

    def __init__(self, kubectl: Kubectl, folder: str) -> None:
        self._kubectl = kubectl
        self._folder = folder
        self._fetched: dict[str, str] = {}  # file -> when it was fetched last

    def fetch(self, wanted: Iterable[ContainerLog]) -> list[LogFile]:
        calls = [(each, previous) for each in wanted for previous in _previous_first(each)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda call: self._fetch(*call), calls))

    def _fetch(self, wanted: ContainerLog, previous: bool) -> LogFile:
        words = ["logs", wanted.pod, "-c", wanted.container, *(["--previous"] * previous)]
        number = wanted.restarts - previous
        place = os.path.join(self._folder, f"{wanted.pod}.{wanted.container}.{number}.log")
        error = ""
        if not (previous and place in self._fetched):
            since = self._fetched.get(place)
            # Whole seconds: some lines may be fetched twice, which does no harm.
            moment = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            error = self._append(place, [*words, *([f"--since-time={since}"] * bool(since))])
            if not error:
                self._fetched[place] = moment
        return LogFile(
            node=wanted.node,
            path=self._kubectl.shown(*words),
            kind="pod",
            size=os.path.getsize(place) if os.path.exists(place) else 0,
            job=wanted.job,
            read_at=place,
            error=error,
            ended=wanted.ended or previous,
        )

    def _append(self, place: str, words: list[str]) -> str:
        """Why it could not be fetched; empty on success."""
        with open(place, "ab") as file:
            before = file.tell()
            try:
                done = subprocess.run(
                    self._kubectl.command(*words),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.PIPE,
                    timeout=FETCH_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return f"not fetched within {FETCH_SECONDS:g} s"
            except OSError as error:
                return error.strerror or str(error)
        if done.returncode:
            said = last_line(done.stderr) or f"{self._kubectl.name} failed"
            return forbidden_logs(said, self._kubectl.shown)
        return _take_complaint(place, before)


def _take_complaint(place: str, before: int) -> str:
    """The kubelet prints an error as output, with status 0, if it has none. Removes and returns
    that error, or returns an empty string."""
    if os.path.getsize(place) - before > _LONGEST_COMPLAINT:
        return ""
    with open(place, "r+b") as file:
        file.seek(before)
        text = file.read().decode(errors="replace").strip()
        if not _COMPLAINT.fullmatch(text):
            return ""
        file.truncate(before)
    return text


def _previous_first(wanted: ContainerLog) -> list[bool]:
    """The container before the last restart first."""
    return [True, False] if wanted.restarts else [False]
