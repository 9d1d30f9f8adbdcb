"""A tab of the live page of `rankdbg web`, as the server sees it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from rankdbg.frontends.web.board import Board
from rankdbg.frontends.web.tab import Tab
from rankdbg.investigations.connection import connect


class Socket:
    """The connection of a browser that sends these messages and goes away."""

    def __init__(self, messages: list[str]) -> None:
        self._messages = messages

    async def receive_text(self) -> str:
        if not self._messages:
            raise EOFError
        return self._messages.pop(0)

    async def send_text(self, text: str) -> None:
        json.loads(text)


def refusals_of(messages: list[str], target: str) -> list[str]:
    """The errors for which the connection is closed; EOFError if all messages were taken."""
    socket: Any = Socket(messages)

    async def talk() -> list[str]:
        failed: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failed.append(str(context)))
        with connect(target) as job:
            tab = Tab(socket, Board(), 0.0, job.of(None))
            (ended,) = await asyncio.gather(tab._read(), return_exceptions=True)
            questions = tab._questions
            while questions._asked:  # in threads, which tell this loop
                await asyncio.sleep(0.001)
            problems = [answer["problem"] for answer in questions._answers.values()]
            failed += [problem for problem in problems if "internal error" in problem]
        return [*failed, type(ended).__name__]

    return asyncio.run(talk())
