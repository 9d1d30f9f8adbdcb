"""The `rankdbg dap` that already listens on a port: an editor whose window is reloaded starts its
task again, while the first server is still running.

The new process sends its token only to a process of the same user, which the kernel reports once
the other side has sent something.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

from rankdbg.frontends.dap.protocol import Connection, Garbage, Message
from rankdbg.process import peers

# The request of a new server to the running one.
REQUEST = "rankdbgServer"
ANSWER_SECONDS = 5.0


def about(purpose: str) -> dict[str, Any]:
    """The answer of the running server."""
    return {"purpose": purpose, "pid": os.getpid()}


class RunningServer:
    """`purpose`: its options, as text."""

    def __init__(self, client: Connection, messages: Iterator[Any], told: Message) -> None:
        self._client = client
        self._messages = messages
        self.purpose = str(told.get("purpose"))
        self.pid = told.get("pid")

    def wait_until_it_ends(self) -> None:
        try:
            for _ in self._messages:
                pass
        except Garbage:
            pass
        self.close()

    def close(self) -> None:
        self._client.close()


def find(port: int, token: str) -> RunningServer | None:
    """None if something else, or a process of another user, listens there."""
    try:
        connected = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
    except OSError:
        return None
    client = Connection(connected)
    messages = client.messages()
    connected.settimeout(ANSWER_SECONDS)
    try:
        client.send(_request(1, "initialize", {"adapterID": "rankdbg"}))
        if _answer(messages) is None or peers.refusal(connected):
            client.close()
            return None
        client.send(_request(2, REQUEST, {"token": token}))
        told = _answer(messages)
    except (Garbage, OSError):
        told = None
    if told is None:
        client.close()
        return None
    connected.settimeout(None)
    return RunningServer(client, messages, told)


def _request(seq: int, command: str, arguments: dict[str, Any]) -> Message:
    return {"seq": seq, "type": "request", "command": command, "arguments": arguments}


def _answer(messages: Iterator[tuple[Message, bytes]]) -> dict[str, Any] | None:
    """The body of the next response, if that is a success."""
    for message, _ in messages:
        if message["type"] == "response":
            body = message.get("body")
            return body if message.get("success") and isinstance(body, dict) else None
    return None
