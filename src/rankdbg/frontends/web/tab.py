"""One tab's connection: first the whole document, then what has changed in it.

A tab holds at most one unsent message: while its browser does not read, the next message becomes
newer, not longer.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from rankdbg.frontends.html.document import PageDocument
from rankdbg.frontends.web.board import Board
from rankdbg.frontends.web.patches import changes
from rankdbg.frontends.web.tab_questions import TabQuestions
from rankdbg.investigations.job_view import JobView

SLOWEST = 3600.0
FASTEST = 1.0
INVALID, TOO_MANY = 1008, 1013  # codes of RFC 6455


class InvalidMessage(Exception):
    pass


class Tab:
    def __init__(self, socket: WebSocket, board: Board, pace: float, job: JobView) -> None:
        self._socket = socket
        self._board = board
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._sent: PageDocument | None = None
        self._questions = TabQuestions(job, self._loop, self._news.set)

    async def run(self) -> None:
        """Until it closes."""
        self._set_pace(self._pace)
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._board.leave(self)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        if any(isinstance(result, InvalidMessage) for result in results):
            with suppress(RuntimeError, WebSocketDisconnect):
                await self._socket.close(INVALID, "invalid message")

    def _wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._news.set)

    def _set_pace(self, seconds: float) -> None:
        self._board.set_pace(self, seconds, self._wake)
        self._news.set()

    # --- messages to it ------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._socket.send_text(self._message())

    def _message(self) -> str:
        shown = self._board.shown
        message: dict[str, Any] = {"live": shown.as_json()}
        if shown.document is not self._sent:
            if self._sent is None:
                message["document"] = shown.document
            else:
                message["changes"] = changes(self._sent, shown.document)
            self._sent = shown.document
        message |= self._questions.take_answers(shown.found)
        return json.dumps(message, allow_nan=False, separators=(",", ":"))

    # --- messages from it ----------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            text = await self._socket.receive_text()
            try:
                message = json.loads(text)
            except (ValueError, RecursionError):
                raise InvalidMessage from None
            self._take(message)

    def _take(self, message: Any) -> None:
        match message:
            case {"pace": int() | float() as seconds} if seconds == seconds:
                self._set_pace(min(max(seconds, FASTEST), SLOWEST) if seconds > 0 else 0.0)
            case {"ask": str() as expression}:
                self._questions.ask(expression)
            case {"logs": {"ranks": str() as ranks, "grep": str() as grep}}:
                self._questions.read_logs(ranks, grep)
            case _:
                raise InvalidMessage
