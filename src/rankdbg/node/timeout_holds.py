"""Holds the timeouts of a job until this node process ends.

It exits when its client ends for any reason; so the leases of the ranks end with the client,
and a client that is only suspended keeps them.
"""

from __future__ import annotations

import os
import threading
import time

from rankdbg.node import inquiry
from rankdbg.node.roster.scans import Scans
from rankdbg.wire.questions import HoldLease

RENEW_SECONDS = 2.0
# A thousand ranks are renewed less often: at most this share of a CPU is used.
SHARE = 0.05
# The number of renewals that may fail before a lease expires.
SPARE = 3
ASK_SECONDS = 5.0


class TimeoutHold:
    def __init__(self, scans: Scans) -> None:
        self._scans = scans
        self._holder = os.urandom(8).hex()
        self._jobs: set[str] = set()
        self._interval = RENEW_SECONDS
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._keeper: threading.Thread | None = None

    def question(self, end: bool = False, renewal: bool = False) -> HoldLease:
        lease = 0.0 if end else SPARE * self._interval
        return HoldLease(holder=self._holder, lease=lease, renewal=renewal)

    def keep(self, job: str) -> None:
        """Hold from now on, also in ranks of the job that start later."""
        with self._lock:
            self._jobs.add(job)
            if self._keeper is None:
                self._ended.clear()
                self._keeper = threading.Thread(target=self._renew, daemon=True)
                self._keeper.start()

    def end(self) -> None:
        """All groups have their own timeouts again when this returns."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
            if keeper is not None:
                self._ended.set()
                keeper.join(ASK_SECONDS)
                self._ask(self.question(end=True))
            self._jobs.clear()

    def _renew(self) -> None:
        while not self._ended.wait(self._interval):
            begun = time.thread_time()  # waiting for a slow rank costs nothing
            self._ask(self.question(renewal=True))
            wanted = max(RENEW_SECONDS, (time.thread_time() - begun) / SHARE)
            self._interval = min(wanted, 2 * self._interval)  # well within the lease

    def _ask(self, question: HoldLease) -> None:
        asked = {
            process.key: process
            for process in self._scans.update().processes
            if process.alive and process.socket and process.job in self._jobs
        }
        deadline = time.monotonic() + ASK_SECONDS
        inquiry.ask(asked, dict.fromkeys(asked, question.message()), deadline, seconds=None)
