"""What containers have written to their output, fetched with `kubectl logs` into files here.

That of a container that has ended too, and of the one before a restart: nothing can be started
there any more, but the kubelet keeps it for a while.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone

from rankdbg.clusters.kubectl import Kubectl, last_words
from rankdbg.logs.places import LogFile

FETCH_SECONDS = 60.0
AT_ONCE = 8


@dataclass(frozen=True)
class Wanted:
    node: str  # as the session calls it
    pod: str
    container: str
    ident: str  # another one after each restart
    restarts: int
    job: str
    ended: bool


class PodLogs:
    """Keeps the files in a directory; a second time only what is new is fetched."""

    def __init__(self, kubectl: Kubectl, folder: str) -> None:
        self._kubectl = kubectl
        self._folder = folder
        self._fetched: dict[str, str] = {}  # file -> when it was fetched last

    def fetch(self, wanted: Iterable[Wanted]) -> list[LogFile]:
        calls = [(each, previous) for each in wanted for previous in _turns(each)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda call: self._fetch(*call), calls))

    def _fetch(self, wanted: Wanted, previous: bool) -> LogFile:
        words = ["logs", wanted.pod, "-c", wanted.container, *(["--previous"] * previous)]
        number = wanted.restarts - previous
        place = os.path.join(self._folder, f"{wanted.pod}.{wanted.container}.{number}.log")
        error = ""
        if not (previous and place in self._fetched):
            since = self._fetched.get(place)
            # It cuts off parts of seconds: what came twice is one failure all the same.
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
        """Why it could not be fetched, or ``."""
        with open(place, "ab") as file:
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
        return last_words(done.stderr) or "kubectl failed" if done.returncode else ""


def _turns(wanted: Wanted) -> list[bool]:
    """The one before the last restart first."""
    return [True, False] if wanted.restarts else [False]
