"""The thread that looks at the job, while a tab is open that wants it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone

from rankdbg.errors import RankdbgError
from rankdbg.frontends.html.document import PageDocument
from rankdbg.frontends.html.job_document import document_later, document_of
from rankdbg.frontends.html.page_files import without_hidden_text
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.web.board import LIVE, LOST, SAVED, Board
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.investigations.watch.live_looks import LiveLook

COMMAND = "rankdbg web"
Look = Callable[[], LiveLook]


def start(board: Board, look: Look, target: str, saved: str = "") -> None:
    """`saved`: when the job was saved, which is then looked at once only."""
    looking = _LookThread(board, look, target, saved)
    threading.Thread(target=looking.run, name="rankdbg web looks", daemon=True).start()


class _LookThread:
    def __init__(self, board: Board, look: Look, target: str, saved: str) -> None:
        self._board = board
        self._look = look
        self._target = target
        self._saved = saved

    def run(self) -> None:
        last: float | None = None
        while self._board.wait_until_due(last):
            if self._look_once() and self._saved:
                return
            last = time.monotonic()

    def _look_once(self) -> bool:
        """Whether it has succeeded."""
        try:
            look = self._look()
        except RankdbgError as error:
            self._board.show(status=LOST, problem=f"{capital(error.what)}.")
            return False
        except Exception as error:  # the page says so, and the next look may succeed
            kind = type(error).__name__
            self._board.show(status=LOST, problem=f"Internal error in rankdbg: {kind}: {error}.")
            return False
        self._board.show(
            status=SAVED if self._saved else LIVE,
            problem="",
            document=self._document(look),
            found=look.found,
            seen=time.monotonic(),
        )
        return True

    def _document(self, look: LiveLook) -> PageDocument:
        moment = self._saved or datetime.now(timezone.utc).isoformat(timespec="seconds")
        before = self._board.shown.document
        if before is not None and not look.is_new:
            later = document_later(before, look.found, moment)
            return {**later, "nodes": without_hidden_text(later["nodes"])}
        origin = PageOrigin(COMMAND, self._target, moment)
        return without_hidden_text(document_of(look.found, origin))
