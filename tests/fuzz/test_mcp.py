"""The Model Context Protocol: lines of a client, and the arguments that a model has made up."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzzing import Target, check_visible, short_form
from mutations import changed_document, changed_json, damaged, some_bytes
from rankdbg.frontends.mcp.calls import Calls, Running, ServerSettings
from rankdbg.frontends.mcp.sharing import SharedConnections
from rankdbg.frontends.mcp.tools import TOOLS, Tool
from rankdbg.investigations.connection import connect
from recorded_snapshot import SNAPSHOT
from waiting import PATIENCE

TARGET = f"snapshot:{SNAPSHOT}"
# What they record takes seconds, and a snapshot has nothing to record.
LONG = ("profile", "snapshot")
TEXTS = (
    "all",
    "0-1",
    "tp=0",
    "x",
    "ref",
    "tp=9; role=*",
    "1:",
    "step \\d+",
    "len(x)",
    "a.b[0]",
    "2m",
)


# --- tools --------------------------------------------------------------------------------


def calls(random: Random) -> bytes:
    tool = random.choice([each for each in TOOLS if each.name not in LONG])
    given = {
        each.name: _valid(random, tool, each.name)
        for each in tool.parameters
        if random.random() < 0.3 or each.required
    }
    call = {"name": tool.name, "arguments": given}
    return json.dumps(changed_document(random, [call], 2)).encode()


def _valid(random: Random, tool: Tool, name: str) -> Any:
    parameter = next(each for each in tool.parameters if each.name == name)
    if name == "target":
        return TARGET
    if parameter.choices:
        return random.choice(parameter.choices)
    if parameter.kind == "string":
        return random.choice(TEXTS)
    if parameter.kind == "boolean":
        return random.random() < 0.5
    return random.choice([parameter.least, parameter.most, 1, 3])


@cache
def server() -> Calls:
    """One for all inputs, as one is for all calls of a client; without the tools that change a job."""
    folder = Path(tempfile.mkdtemp(prefix="rankdbg-fuzz-"))
    atexit.register(folder.rmdir)
    settings = ServerSettings(folder, (TARGET,), allowed=frozenset({"ask"}))
    return Calls(settings, SharedConnections(lambda targets, progress: connect(targets)))


def check_call(data: bytes) -> None:
    try:
        call = json.loads(data)
    except (ValueError, RecursionError):
        return
    arguments = call.get("arguments") if isinstance(call, dict) else None
    # Of the call itself the package of the protocol has made sure.
    if not isinstance(arguments, dict) or not isinstance(call.get("name"), str):
        return
    if call["name"] in LONG:
        return
    reply = server().answer(call["name"], arguments, Running())
    check_visible(reply.text)
    if reply.document is not None:
        check_visible("".join(_texts(json.loads(json.dumps(reply.document, allow_nan=False)))))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.items() for each in item for text in _texts(each)]
    return [text for each in value for text in _texts(each)] if isinstance(value, list) else []


# --- lines --------------------------------------------------------------------------------

REQUESTS: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 7, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "collectives", "arguments": {}}},
    {"jsonrpc": "2.0", "id": 9, "method": "resources/read", "params": {"uri": "rankdbg://snapshot/x"}},
    {"jsonrpc": "2.0", "id": 10, "method": "prompts/get", "params": {"name": "hang", "arguments": {}}},
    {"jsonrpc": "2.0", "id": 11, "method": "completion/complete", "params": {}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}},
    {"jsonrpc": "2.0", "id": 12, "result": {}},
    {"jsonrpc": "2.0", "id": 13, "error": {"code": -32601, "message": "no"}},
]  # fmt: skip
INITIALIZE = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}  # fmt: skip


def lines(random: Random) -> bytes:
    made = [changed_json(random, REQUESTS, 2) for _ in range(random.randint(1, 4))]
    if random.random() < 0.2:
        made.append(damaged(random, some_bytes(random)))
    return b"\n".join(made)


class Process:
    """`rankdbg mcp`, which is asked whether it is still there."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        words = ["-m", "rankdbg", "mcp", "-t", TARGET, "--saved", self._folder.name]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, *words], stdin=pipe, stdout=pipe, stderr=pipe
        )
        atexit.register(self.end)
        self.errors = b""
        threading.Thread(target=self._read_errors, daemon=True).start()
        self._rest = b""
        self._pings = 0
        self._say(json.dumps(INITIALIZE).encode())
        self._say(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors += line

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def tell(self, data: bytes) -> None:
        """Says these lines, and waits for the answer to a ping after them."""
        self._pings += 1
        ident = f"ping-{self._pings}"
        self._say(data)
        self._say(json.dumps({"jsonrpc": "2.0", "id": ident, "method": "ping"}).encode())
        while ident not in (line := self._line()):
            assert "internal error in rankdbg" not in line, line

    def _line(self) -> str:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            assert select.select([descriptor], [], [], PATIENCE)[0], "no answer"
            part = os.read(descriptor, 1 << 16)
            assert part, f"the server has ended: {self.errors[-2000:]!r}"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


@cache
def process() -> Process:
    return Process()


def check_lines(data: bytes) -> None:
    process().tell(data)
    assert b"Traceback" not in process().errors, process().errors.decode()


TARGETS = [
    Target("mcp", calls, check_call, 100),
    Target("mcp-lines", lines, check_lines, 40),
]
test_mcp, test_mcp_lines = map(short_form, TARGETS)
