"""The official MCP client, connected to `rankdbg mcp` over stdio; every answer is validated."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import jsonschema
from mcp import Client, StdioServerParameters

from jobs import command
from waiting import PATIENCE


class Answer(NamedTuple):
    text: str
    document: Any
    is_error: bool

    @property
    def characters(self) -> int:
        """Of a client that shows the text to its model."""
        return len(self.text)


class Agent:
    """Asks, as a model does through its client. `asked`: the calls so far, with their answers."""

    def __init__(self, client: Client, tools: Mapping[str, Any]) -> None:
        self.client = client
        self.tools = tools
        self.asked: list[tuple[str, Answer]] = []

    async def ask(self, tool: str, /, **arguments: Any) -> Answer:
        """An answer that fits the schema of its tool."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        answer = Answer(content.text, result.structured_content, bool(result.is_error))
        if not answer.is_error:
            jsonschema.validate(answer.document, self.tools[tool].output_schema)
        self.asked.append((tool, answer))
        return answer


@asynccontextmanager
async def connected(
    environment: Mapping[str, str], *options: object, mode: str = "auto"
) -> AsyncIterator[Agent]:
    """`mode`: "legacy" begins with the handshake that older clients have."""
    python, *words = command("mcp", *options)
    server = StdioServerParameters(command=python, args=words, env=dict(environment))
    async with Client(server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        yield Agent(client, tools)


def run(
    work: Callable[[Agent], Awaitable[Any]],
    environment: Mapping[str, str],
    *options: object,
    mode: str = "auto",
) -> Any:
    """What `work` returns, with an agent that is connected."""

    async def connect() -> Any:
        async with connected(environment, *options, mode=mode) as agent:
            return await work(agent)

    return asyncio.run(asyncio.wait_for(connect(), PATIENCE))


class BackgroundAgent:
    """Connected for as long as several tests need it: a server takes a second to start."""

    def __init__(
        self, environment: Mapping[str, str], *options: object, mode: str = "auto"
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._connected: Future[Agent] = Future()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, args=(environment, options, mode))
        self._thread.start()
        self._agent = self._connected.result(PATIENCE)

    def _serve(
        self, environment: Mapping[str, str], options: tuple[object, ...], mode: str
    ) -> None:
        async def serve() -> None:
            try:
                async with connected(environment, *options, mode=mode) as agent:
                    self._connected.set_result(agent)
                    await self._end.wait()
            except BaseException as error:
                if not self._connected.done():
                    self._connected.set_exception(error)

        self._loop.run_until_complete(serve())
        self._loop.close()

    def run(self, work: Callable[[Agent], Coroutine[Any, Any, Any]]) -> Any:
        self._agent.asked.clear()
        return asyncio.run_coroutine_threadsafe(work(self._agent), self._loop).result(PATIENCE)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)


def main() -> None:
    """A client of its own, to be killed: prints `asked` when a long question is under way."""

    async def ask(agent: Agent) -> None:
        async def report(*_: object) -> None:
            print("asked", flush=True)

        await agent.client.call_tool("profile", {"seconds": 60}, progress_callback=report)

    run(ask, os.environ, *json.loads(sys.argv[1]))


if __name__ == "__main__":
    main()
