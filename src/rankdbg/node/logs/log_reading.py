"""The question `logs`: `read` (the last messages of some files) and `new` (what has come since)."""

from __future__ import annotations

import json
import selectors
import subprocess
import threading
import time
from typing import Any

from rankdbg import wire
from rankdbg.logs.entries import LogQuery, Reading
from rankdbg.logs.expressions import can_be_interrupted
from rankdbg.logs.following import read_new
from rankdbg.logs.positions import Position
from rankdbg.logs.reading import read
from rankdbg.node.logs.log_scan import end_worker, start_worker, tell
from rankdbg.process.masking import mask_text

_SHARE_OF_TIME = 0.9  # of the time that there is; the rest is for the answer


def answer(message: wire.Message, deadline: float) -> Any:
    """Where messages have to match an expression of the user's, from a process beside this one."""
    if message["wanted"]["grep"] and not can_be_interrupted():
        return _beside.answer(message, deadline)
    return answer_here(message, deadline)


def answer_here(message: wire.Message, deadline: float) -> Any:
    wanted = LogQuery.from_json(message["wanted"])
    if message["do"] == "new":
        positions = {file: Position(*position) for file, *position in message["positions"]}
        return masked(read_new(wanted, positions)).as_json()
    return masked(read(wanted, deadline)).as_json()


def masked(reading: Reading) -> Reading:
    """Nothing that looks like a secret leaves the machine."""
    reading.entries = [e._replace(text=mask_text(e.text)) for e in reading.entries]
    return reading


class _Beside:
    """One process, kept, since following asks twice a second. It ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None

    def answer(self, message: wire.Message, deadline: float) -> Any:
        seconds = _SHARE_OF_TIME * max(0.0, deadline - time.monotonic())
        if not self._lock.acquire(timeout=seconds):
            return Reading(late=True).as_json()
        try:
            line = self._ask(message, time.monotonic() + seconds)
        finally:
            self._lock.release()
        return json.loads(line) if line else Reading(late=True).as_json()

    def _ask(self, message: wire.Message, until: float) -> bytes:
        if self._worker is None:
            self._worker = start_worker()
        worker = self._worker
        assert worker.stdout is not None
        seconds = max(0.0, until - time.monotonic())
        tell(worker, {"question": message, "seconds": _SHARE_OF_TIME * seconds})
        with selectors.DefaultSelector() as selector:
            selector.register(worker.stdout, selectors.EVENT_READ)
            line = worker.stdout.readline() if selector.select(seconds) else b""
        if not line:
            self._worker = None
            end_worker(worker)
        return line


_beside = _Beside()
