"""What all tabs show, and what each of them wants: one look at the job serves every tab."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rankdbg.frontends.html.document import PageDocument
from rankdbg.investigations.hangs.job_verdicts import JobVerdict

FIRST, LIVE, SAVED, LOST = "first", "live", "saved", "lost"


@dataclass(frozen=True)
class Shown:
    """`document`: of the last look that succeeded; `found`: what it was made of."""

    status: str = FIRST
    document: PageDocument | None = None
    found: JobVerdict | None = None
    problem: str = ""  # why the last look failed
    seen: float = 0.0  # when the document was known to be true, by time.monotonic()

    def as_json(self) -> dict[str, Any]:
        """All but the document. Ages, not times: the browser may have another clock."""
        now = time.monotonic()
        return {
            "status": self.status,
            "problem": self.problem,
            "age": round(now - self.seen, 1) if self.document is not None else None,
        }


class Board:
    """Shared by the thread that looks and the one that serves."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shown = Shown()
        self._paces: dict[object, tuple[float, Callable[[], None]]] = {}
        self._is_over = False

    # --- for the thread that looks ----------------------------------------------------------

    def wait_until_due(self, last: float | None) -> bool:
        """Until some tab wants a look that is newer than `last`. False: it is over."""
        with self._changed:
            while not self._is_over:
                wait = self._seconds_left(last)
                if wait is not None and wait <= 0:
                    return True
                self._changed.wait(wait)
            return False

    def _seconds_left(self, last: float | None) -> float | None:
        """None: no tab wants a look."""
        if last is None:  # a tab that is paused has something to show, too
            return 0.0 if self._paces else None
        wanted = [pace for pace, _ in self._paces.values() if pace > 0]
        return last + min(wanted) - time.monotonic() if wanted else None

    @property
    def shown(self) -> Shown:
        return self._shown

    def show(self, **changed: Any) -> None:
        with self._changed:
            self._shown = replace(self._shown, **changed)
            wakes = [wake for _, wake in self._paces.values()]
        for wake in wakes:
            wake()

    # --- for the tabs ------------------------------------------------------------------------

    def set_pace(self, tab: object, seconds: float, wake: Callable[[], None]) -> None:
        """A look each so many seconds; 0: none. `wake` is called in the thread that looks."""
        with self._changed:
            self._paces[tab] = (seconds, wake)
            self._changed.notify_all()

    def leave(self, tab: object) -> None:
        with self._changed:
            self._paces.pop(tab, None)

    @property
    def tabs(self) -> int:
        return len(self._paces)

    def end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
