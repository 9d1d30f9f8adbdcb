"""Bytes in both directions over a channel of messages: an editor's protocol, a forwarded port.

A stream is a question that stays open. Its answer means that the stream has ended; until then
both sides send more messages with its number:

    -> {"id": 7, "ask": "stream", "port": 5678}
    <- {"id": 7, "opened": {}}
    -> {"id": 7, "data": "<base64>"}             <- {"id": 7, "data": "<base64>"}
    <- {"id": 7, "took": 262144}                 -> {"id": 7, "took": 262144}
    -> {"id": 7, "eof": true}                    <- {"id": 7, "eof": true, "why": "killed by SIGKILL"}
    -> {"id": 7, "end": true}                    <- {"id": 7, "answer": {"why": ""}}

No side sends more than WINDOW bytes that the other has not read: a slow reader blocks only its
own writer.
"""

from __future__ import annotations

import queue
import socket
import threading
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Message = dict[str, "Any"]

WINDOW = 1 << 20
# Bytes read at once: lines stay short, so that other messages are not delayed.
PORTION = 1 << 16


class Stream:
    """One end of a stream. Messages of the other side arrive in `inbox`; `say` sends one.

    receive() must be called all the time: it also handles how much the other side has read.
    """

    def __init__(
        self,
        inbox: queue.SimpleQueue[Message],
        say: Callable[[Message], None],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._inbox = inbox
        self._say = say
        self._over = over  # called once, when it has ended
        self._on_its_way = 0
        self._untold = 0  # bytes that were read and not yet acknowledged
        self._moved = threading.Condition()
        self._finished = self._all_came = False
        self.ended = False
        self.why = ""  # ended by the other side

    def send(self, data: bytes) -> bool:
        """Waits while too much is unread; False if the stream has ended."""
        for start in range(0, len(data), PORTION):
            portion = data[start : start + PORTION]
            with self._moved:
                self._moved.wait_for(lambda: self.ended or self._on_its_way < WINDOW)
                if self.ended:
                    return False
                self._on_its_way += len(portion)
            self._say({"data": b2a_base64(portion, newline=False).decode("ascii")})
        return True

    def finish(self, why: str = "") -> None:
        """Nothing more is sent."""
        self._finished = True
        if not self.ended:
            self._say({"eof": True, "why": why} if why else {"eof": True})
        if self._all_came:
            self.close()

    def receive(self) -> bytes:
        """The next data; empty at the end."""
        if self._untold >= WINDOW // 4:
            self._say({"took": self._untold})
            self._untold = 0
        while not self.ended:
            message = self._inbox.get()
            if "took" in message:
                if type(message["took"]) is not int:
                    self.close("what was taken is not a number of bytes")
                    break
                with self._moved:
                    self._on_its_way -= message["took"]
                    self._moved.notify_all()
            elif "data" in message:
                try:
                    data = a2b_base64(message["data"])
                except (Error, ValueError, TypeError):
                    self.close("the data is not base64")
                    break
                if data:
                    self._untold += len(data)
                    return data
            elif "eof" in message:
                self._all_came = True
                self.why = str(message.get("why", ""))
                if self._finished:
                    self.close()
                return b""
            else:
                self.close(_reason(message))
        return b""

    def close(self, why: str = "") -> None:
        """End it on this side."""
        with self._moved:
            if self.ended:
                return
            self.why, self.ended = why or self.why, True
            self._moved.notify_all()
        self._inbox.put({})  # wakes up receive()
        self._over()


def _reason(message: Message) -> str:
    for kind, key in (("answer", "why"), ("error", "what")):
        if isinstance(message.get(kind), dict):
            return str(message[kind].get(key) or "")
    return ""


def pump(
    connection: socket.socket, stream: Stream, why_it_ends: Callable[[], str] = lambda: ""
) -> None:
    """Copy data in both directions until both have ended, or one is gone. Then the connection is
    closed. `why_it_ends` is called as soon as the connection ends."""

    def outwards() -> None:
        try:
            while (data := connection.recv(PORTION)) and stream.send(data):
                pass
            stream.finish("" if stream.ended else why_it_ends())
        except OSError:
            stream.close("" if stream.ended else why_it_ends())

    writing = threading.Thread(target=outwards, name="rankdbg stream", daemon=True)
    writing.start()
    try:
        while data := stream.receive():
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while not stream.ended:
            stream.receive()
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        stream.close()
    finally:
        connection.close()
