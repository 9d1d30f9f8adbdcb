"""The Debug Adapter Protocol, as an editor, or anything else on this machine, speaks it to rankdbg dap."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

from fuzzing import Target, documented, short_form
from mutations import changed_document, damaged, some_bytes
from rankdbg.frontends.dap.hub import Hub
from rankdbg.frontends.dap.protocol import Garbage, MessageFrames, encode, framed
from rankdbg.frontends.dap.server import Server
from rankdbg.frontends.dap.settings import AttachSettings
from rankdbg.session import Session
from recorded_snapshot import SNAPSHOT
from waiting import PATIENCE, wait_for

TOKEN = "a-token"
INITIALIZE = {
    "seq": 1, "type": "request", "command": "initialize",
    "arguments": {"clientID": "vscode", "adapterID": "debugpy", "supportsStartDebuggingRequest": True},
}  # fmt: skip
ATTACH = {
    "seq": 2, "type": "request", "command": "attach",
    "arguments": {"name": "job", "rankdbg": {"token": TOKEN}, "pathMappings": [{"localRoot": "/a"}]},
}  # fmt: skip
ARGUMENTS: dict[str, dict[str, Any]] = {
    "setBreakpoints": {
        "source": {"path": "/job/x.py"},
        "breakpoints": [{"line": 3, "condition": "a"}],
    },
    "setFunctionBreakpoints": {"breakpoints": [{"name": "f"}]},
    "setExceptionBreakpoints": {"filters": ["uncaught"]},
    "configurationDone": {},
    "threads": {},
    "completions": {"text": "stacks al", "column": 10},
    "evaluate": {"expression": "help", "context": "repl"},
    "continue": {"threadId": 1},
    "variables": {"variablesReference": 7, "start": 0, "count": 3},
    "disconnect": {"terminateDebuggee": False},
}
# Of the console: those that need no answer of a rank.
LINES = (
    "help",
    "sessions",
    "lockstep on",
    "add 0-1",
    "drop tp=0",
    "only stopped",
    "continue all",
    "x",
)


def messages(random: Random) -> bytes:
    """An attach that is valid, mostly, and requests after it."""
    sent: list[Any] = [INITIALIZE, ATTACH]
    if random.random() < 0.3:
        sent = [changed_document(random, [INITIALIZE], 2), changed_document(random, [ATTACH], 2)]
    for number in range(random.randint(0, 6)):
        command = random.choice([*ARGUMENTS])
        arguments = dict(ARGUMENTS[command])
        if command == "evaluate":
            arguments["expression"] = random.choice(LINES)
        request = {"seq": number + 3, "type": "request", "command": command, "arguments": arguments}
        sent.append(changed_document(random, [request], 2))
    data = b"".join(framed(json.dumps(each).encode()) for each in sent)
    return damaged(random, data) if random.random() < 0.2 else data


def frames(random: Random) -> bytes:
    return some_bytes(random) if random.random() < 0.1 else damaged(random, messages(random))


def check_frames(data: bytes) -> None:
    """In portions too; what is a message is said again as the same."""
    for portion in (len(data) or 1, 7):
        reader = MessageFrames()
        with documented(Garbage):
            for start in range(0, len(data), portion):
                for message, body in reader.feed(data[start : start + portion]):
                    assert json.loads(body) == message or "nan" in repr(message)
                    encode(message)


def check_server(data: bytes) -> None:
    """No refusal for a reason of which the table of requests does not know, and no thread that fails."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    err = io.StringIO()
    with (
        ours,
        socket.socket() as listening,
        threads_that_fail() as failed,
        Session(TARGET) as session,
    ):
        listening.bind(("127.0.0.1", 0))
        server = Server(Hub(session, AttachSettings(token=TOKEN)), listening)
        server._unattached.acquire()
        ours.settimeout(PATIENCE)
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        with contextlib.redirect_stderr(err):
            server._converse(theirs)
    assert not failed, failed
    assert "an invalid message of an editor" not in err.getvalue(), err.getvalue()


TARGET = f"snapshot:{SNAPSHOT}"


@contextlib.contextmanager
def threads_that_fail() -> Iterator[list[BaseException]]:
    """What threads that begin meanwhile have raised, when all of them have ended."""
    before, hook = {*threading.enumerate()}, threading.excepthook
    failed: list[BaseException] = []

    def keep(raised: Any) -> None:
        failed.append(raised.exc_value)

    threading.excepthook = keep
    try:
        yield failed
    finally:
        wait_for(
            lambda: not [t for t in threading.enumerate() if t not in before and not _stays(t)]
        )
        threading.excepthook = hook


def _stays(thread: threading.Thread) -> bool:
    return thread.name == "rankdbg carrier"  # for all connections of the process


TARGETS = [
    Target("dap-frames", frames, check_frames, 300),
    Target("dap", messages, check_server, 40),
]
test_dap_frames, test_dap = map(short_form, TARGETS)
