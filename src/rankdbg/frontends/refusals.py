"""Reports refused connections on the terminal, at a limited rate."""

from __future__ import annotations

import sys
import threading
import time

QUIET_SECONDS = 60.0


class Refusals:
    """One line a minute for each kind of refusal; the next line has the number of omitted ones.

    Kinds are constants in the code, never text from a peer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said_at: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def say(self, kind: str, text: str) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._said_at.get(kind, -QUIET_SECONDS) < QUIET_SECONDS:
                self._left_out[kind] = self._left_out.get(kind, 0) + 1
                return
            self._said_at[kind] = now
            left_out = self._left_out.pop(kind, 0)
        more = f" ({left_out} more like this in the last minutes)" if left_out else ""
        sys.stderr.write(f"rankdbg: refused {text}{more}\n")
        sys.stderr.flush()
