"""Messages of the Debug Adapter Protocol: framing and validation."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

from rankdbg.text.escapes import visible

Message = dict[str, Any]

# Larger than what any editor or debugpy sends; the header is a line or two.
LONGEST_BODY = 64 << 20
# Before an editor is trusted it sends only initialize and attach.
LONGEST_GREETING = 1 << 20
LONGEST_HEADER = 4096
# An editor that reads nothing for this long counts as disconnected.
SEND_SECONDS = 10
# Our own message numbers start here, to differ from those of the editor and debugpy.
FIRST_OWN_SEQ = 1 << 30


class Garbage(Exception):
    """A message is not valid DAP."""


class MessageFrames:
    """Bytes in any portions -> messages, each with the bytes that it came in."""

    def __init__(self, longest: int = LONGEST_BODY) -> None:
        self.longest = longest
        self._data = bytearray()
        self._length = -1  # of the body that comes next

    def feed(self, data: bytes) -> Iterator[tuple[Message, bytes]]:
        self._data += data
        while True:
            if self._length < 0 and not self._read_header():
                return
            if len(self._data) < self._length:
                return
            body = bytes(self._data[: self._length])
            del self._data[: self._length]
            self._length = -1
            yield _parsed(body), body

    def _read_header(self) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            begins = bytes(self._data[:16])
            if len(self._data) > LONGEST_HEADER or not b"content-length: ".startswith(
                begins.lower()
            ):
                raise Garbage("invalid DAP message: expected Content-Length")
            return False
        fields = [line.partition(b":") for line in bytes(self._data[:end]).split(b"\r\n")]
        lengths = [v.strip() for name, _, v in fields if name.strip().lower() == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 9:
            raise Garbage("invalid DAP message: expected one Content-Length")
        self._length = int(lengths[0])
        if self._length > self.longest:
            raise Garbage(f"DAP message too large: {self._length} bytes")
        del self._data[: end + 4]
        return True


def _parsed(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbage("invalid DAP message: the body is not JSON") from None
    if not isinstance(message, dict) or message.get("type") not in ("request", "response", "event"):
        raise Garbage("invalid DAP message: not a request, response or event")
    named = type(message.get("seq")) is int and isinstance(message.get("command"), str)
    if message["type"] == "request" and not named:
        raise Garbage("invalid DAP request: no seq or no command")
    return message


def _has_valid_arguments(request: Message) -> bool:
    arguments = request.get("arguments")
    return arguments is None or isinstance(arguments, dict)


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def encode(message: Message) -> bytes:
    return framed(json.dumps(message).encode())


class Connection:
    """A connection to an editor. Any thread may send."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.settimeout(None)
        if connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limit = struct.pack("ll", SEND_SECONDS, 0)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._lock = threading.Lock()
        self._seq = FIRST_OWN_SEQ
        self._frames = MessageFrames(LONGEST_GREETING)

    def trust(self) -> None:
        """The editor has the token: allow messages of full size."""
        self._frames.longest = LONGEST_BODY

    def messages(self) -> Iterator[tuple[Message, bytes]]:
        """Messages until the connection closes; their arguments, if they have any, are objects.
        Raises Garbage."""
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            for message, body in self._frames.feed(data):
                if message["type"] == "request" and not _has_valid_arguments(message):
                    self.refuse(
                        message, f"invalid arguments for {message['command']}: expected an object"
                    )
                else:
                    yield message, body

    def send_body(self, body: bytes) -> None:
        try:
            with self._lock:
                self._socket.sendall(framed(body))
        except OSError:
            self.close()

    def send(self, message: Message) -> int:
        """Returns the number of the message."""
        with self._lock:
            self._seq += 1
            seq = self._seq
        self.send_body(json.dumps({"seq": seq, **message}).encode())
        return seq

    def event(self, name: str, /, **body: Any) -> None:
        self.send({"type": "event", "event": name, "body": body})

    def print(self, text: str, category: str = "console") -> None:
        self.event("output", category=category, output=f"{visible(text.rstrip())}\n")

    def respond(self, request: Message, body: Any = None) -> None:
        self.send(response(request, body))

    def refuse(self, request: Message, why: str) -> None:
        """Respond with an error, which the editor shows."""
        why = visible(why)
        said = {"error": {"id": 1, "format": why.replace("{", "{{"), "showUser": True}}
        self.send({**response(request, said), "success": False, "message": why})

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def closed(self) -> None:
        """Close the descriptor, after the reader has ended."""
        self._socket.close()


def response(request: Message, body: Any = None) -> Message:
    return {
        "type": "response",
        "request_seq": request.get("seq"),
        "command": request.get("command"),
        "success": True,
        "body": body if body is not None else {},
    }
