"""A raw client of the Debug Adapter Protocol, for tests: says what it is told to, and keeps
everything that comes back."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from waiting import PATIENCE


class DapClient:
    """On a connected socket. Responses are waited for by number, events by name; each event is
    found once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._seq = 0
        self._news = threading.Condition()
        self.messages: list[dict[str, Any]] = []
        self._taken: set[int] = set()
        self.closed = False
        self._adapter: subprocess.Popen[bytes] | None = None
        threading.Thread(target=self._read, daemon=True).start()

    @classmethod
    def connect(cls, address: int | str) -> DapClient:
        """To a port, or to a Unix socket by an adapter that an editor would start."""
        if isinstance(address, str):
            ours, theirs = socket.socketpair()
            words = [sys.executable, "-m", "rankdbg", "dap", "--connect", address]
            with theirs:
                adapter = subprocess.Popen(words, stdin=theirs, stdout=theirs)
            client = cls(ours)
            client._adapter = adapter
            return client
        connection = socket.create_connection(("127.0.0.1", address), PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(None)  # a session may be silent for as long as it likes
        return cls(connection)

    def send(self, message: dict[str, Any]) -> int:
        self._seq += 1
        body = json.dumps({"seq": self._seq, **message}).encode()
        self._connection.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return self._seq

    def request(self, command: str, /, **arguments: Any) -> int:
        return self.send({"type": "request", "command": command, "arguments": arguments})

    def ask(self, command: str, /, **arguments: Any) -> dict[str, Any]:
        """The body of the response, which must be a success."""
        response = self.response(self.request(command, **arguments))
        assert response["success"], response
        return response.get("body") or {}

    def refused(self, command: str, /, **arguments: Any) -> str:
        """What the response says, which must be a failure."""
        response = self.response(self.request(command, **arguments))
        assert not response["success"], response
        return str(response.get("message"))

    def response(self, seq: int) -> dict[str, Any]:
        return self.wait(lambda m: m["type"] == "response" and m["request_seq"] == seq)

    def event(self, name: str, wanted: Callable[[Any], bool] = lambda body: True) -> Any:
        """The body of the next event of that name that is as wanted."""
        found = self.wait(
            lambda m: m["type"] == "event" and m["event"] == name and wanted(m.get("body") or {})
        )
        return found.get("body") or {}

    def reverse_request(self, command: str) -> dict[str, Any]:
        return self.wait(lambda m: m["type"] == "request" and m["command"] == command)

    def wait(
        self, wanted: Callable[[dict[str, Any]], bool], seconds: float = PATIENCE
    ) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                for index, message in enumerate(self.messages):
                    if index not in self._taken and wanted(message):
                        self._taken.add(index)
                        return message
                left = deadline - time.monotonic()
                if self.closed or left <= 0:
                    raise AssertionError(f"never came; there was: {self.messages[-20:]}")
                self._news.wait(left)

    def seen(self, name: str) -> list[Any]:
        """The bodies of all events of that name so far."""
        with self._news:
            return [m.get("body") or {} for m in self.messages if m.get("event") == name]

    def console(self) -> str:
        """All that was written to the debug console so far."""
        return "".join(body.get("output", "") for body in self.seen("output"))

    def wait_closed(self) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.closed), "never hung up"

    def close(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()
        if self._adapter is not None:
            self._adapter.wait(PATIENCE)

    def _read(self) -> None:
        try:
            stream = self._connection.makefile("rb")
            while header := stream.readline():
                length = int(header.partition(b":")[2])
                while stream.readline().strip():
                    pass
                self._keep(json.loads(stream.read(length)))
        except (OSError, ValueError):
            pass
        with self._news:
            self.closed = True
            self._news.notify_all()

    def _keep(self, message: dict[str, Any]) -> None:
        with self._news:
            self.messages.append(message)
            self._news.notify_all()
