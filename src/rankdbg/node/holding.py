"""Keeps the timeouts of a job held for as long as this node process lives.

It ends when its client does, however that comes about; so the client's life is what the
ranks' leases hang on, and a client that is only suspended keeps them.
"""

from __future__ import annotations

import os
import threading
import time

from rankdbg import wire
from rankdbg.node import discovery, inquiry

RENEW_SECONDS = 2.0
# A thousand ranks are asked less often: this part of a core at most goes into it.
SHARE = 0.05
# How many renewals may fail before a lease runs out.
SPARE = 3
ASK_SECONDS = 5.0


class Holding:
    def __init__(self) -> None:
        self._holder = os.urandom(8).hex()
        self._jobs: set[str] = set()
        self._interval = RENEW_SECONDS
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._keeper: threading.Thread | None = None

    def question(self, end: bool = False, renewal: bool = False) -> wire.Message:
        lease = 0.0 if end else SPARE * self._interval
        return {"ask": "hold", "holder": self._holder, "lease": lease, "renewal": renewal}

    def keep(self, job: str) -> None:
        """From now on, also in ranks of the job that start later."""
        with self._lock:
            self._jobs.add(job)
            if self._keeper is None:
                self._ended.clear()
                self._keeper = threading.Thread(target=self._renew, daemon=True)
                self._keeper.start()

    def end(self) -> None:
        """Every group has its own timeout again when this returns."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
            if keeper is not None:
                self._ended.set()
                keeper.join(ASK_SECONDS)
                self._ask(self.question(end=True))
            self._jobs.clear()

    def _renew(self) -> None:
        while not self._ended.wait(self._interval):
            begun = time.thread_time()  # a rank that lets us wait costs nothing
            self._ask(self.question(renewal=True))
            wanted = max(RENEW_SECONDS, (time.thread_time() - begun) / SHARE)
            self._interval = min(wanted, 2 * self._interval)  # well within the lease

    def _ask(self, question: wire.Message) -> None:
        asked = {
            process.key: process
            for process in discovery.find_processes().processes
            if process.alive and process.socket and process.job in self._jobs
        }
        deadline = time.monotonic() + ASK_SECONDS
        inquiry.ask(asked, dict.fromkeys(asked, question), deadline, patience=None)
