"""A program in a pod, connected by a web socket through `kubectl proxy`; or, if the API server
does not open one, by a separate `kubectl exec`, whose error message is then shown.

Same interface as launched.Launched. Kubernetes puts a byte before the payload of a frame: 0
stdin, 1 stdout, 2 stderr, 3 the end of the program, as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable

from rankdbg.clusters.kubernetes.web_sockets import CLOSE, PING, PONG, WebSocketFrames, frame
from rankdbg.clusters.transport import carrier
from rankdbg.clusters.transport.launched import Launched
from rankdbg.errors import RankdbgError

_STDIN, _STDOUT, _STDERR, _END = b"\0", b"\1", b"\2", b"\3"
_PORTION = 1 << 18
_OPENED = b"HTTP/1.1 101 "
_LONGEST_HEAD = 1 << 16


class PodStream:
    """Starts to transfer data when listen() is called."""

    def __init__(
        self, connection: socket.socket, request: bytes, otherwise: Callable[[], Launched]
    ) -> None:
        self._connection = connection
        self._otherwise = otherwise
        self._launched: Launched | None = None  # if the web socket was refused
        self._unsent: list[bytes] | None = []  # until it is known which of the two is used
        self._head = b""
        self._frames = WebSocketFrames()
        self._status = 0  # as kubectl exec returns if its connection is cut
        self._hung_up = False
        self._over = threading.Event()
        self._lock = threading.Lock()
        descriptor = os.dup(connection.fileno())
        self._outgoing = carrier.shared().write(descriptor, self._shut)
        self._outgoing.send(request)

    def listen(self, hear: carrier.Feed, hear_complaint: carrier.Feed) -> None:
        self._hear, self._hear_complaint = hear, hear_complaint
        carrier.shared().read(os.dup(self._connection.fileno()), self._take)

    def send(self, data: bytes) -> None:
        with self._lock:
            if self._unsent is not None:
                self._unsent.append(data)
                return
        self._pass_on(data)

    def hang_up(self) -> None:
        """The end of the connection is the end of the program's stdin."""
        with self._lock:
            self._hung_up = True
            launched = self._launched
        if launched is None:
            self._outgoing.end()
        else:
            launched.hang_up()

    def wait_or_kill(self, deadline: float) -> None:
        if self._launched is not None:
            self._launched.wait_or_kill(deadline)
        else:
            self._over.wait(max(0.0, deadline - time.monotonic()))

    def reap(self, seconds: float, then: Callable[[int | None], None]) -> None:
        """Call `then` with the exit status, in a new thread: finding out why the program has
        ended may take a while."""
        if self._launched is not None:
            self._launched.reap(seconds, then)
        else:
            threading.Thread(target=then, args=(self._status,), daemon=True).start()

    def _pass_on(self, data: bytes) -> None:
        if self._launched is not None:
            self._launched.send(data)
            return
        for start in range(0, len(data), _PORTION):
            self._outgoing.send(frame(_STDIN + data[start : start + _PORTION]))

    # --- in the carrier's thread ----------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        ended = not data
        if self._unsent is not None:
            data = self._take_head(data)
        if self._launched is not None:
            return
        for kind, payload in self._frames.feed(data):
            if kind == PING:
                self._outgoing.send(frame(payload, PONG))
            elif kind == CLOSE:
                self._outgoing.end()
            else:
                self._take_payload(payload)
        if ended:
            self._end()

    def _take_head(self, data: bytes) -> bytes:
        """Read the response to the request; returns the program's output that follows it."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if end and head.startswith(_OPENED):
            self._send_rest()
            return rest
        if end or not data or len(self._head) > _LONGEST_HEAD:
            self._give_up()
        return b""

    def _give_up(self) -> None:
        """Fall back to kubectl exec, which tries other ways and reports why it fails."""
        with self._lock:
            if not self._hung_up:
                try:
                    self._launched = self._otherwise()
                except RankdbgError as error:
                    self._complain(error.what)
        self._outgoing.end()
        if self._launched is not None:
            self._launched.listen(self._hear, self._hear_complaint)
        self._send_rest()

    def _send_rest(self) -> None:
        """Send what was queued. Under the lock, to keep the order."""
        with self._lock:
            unsent, self._unsent = self._unsent or [], None
            for data in unsent:
                self._pass_on(data)

    def _take_payload(self, payload: bytes) -> None:
        channel, data = payload[:1], payload[1:]
        if not data:  # Kubernetes begins with empty frames; here they would mean the end
            return
        if channel == _STDOUT:
            self._hear(data)
        elif channel == _STDERR:
            self._hear_complaint(data)
        elif channel == _END:
            self._take_end(data)

    def _take_end(self, data: bytes) -> None:
        """Set the exit status and the message as kubectl exec would."""
        try:
            end = json.loads(data)
            if end.get("status") == "Success":
                return
            causes = (end.get("details") or {}).get("causes") or ()
            codes = [c["message"] for c in causes if c.get("reason") == "ExitCode"]
            self._status = int(codes[0]) if codes else 1
            if codes:
                self._complain(f"command terminated with exit code {self._status}")
            else:
                self._complain(f"error: {end.get('message')}")
        except (ValueError, KeyError, TypeError, AttributeError):
            self._status = 1
            self._complain(f"error: {data.decode(errors='replace')}")

    def _complain(self, text: str) -> None:
        self._hear_complaint(f"{text}\n".encode())

    def _end(self) -> None:
        self._over.set()
        self._outgoing.end()
        self._hear_complaint(b"")
        self._hear(b"")

    def _shut(self, descriptor: int) -> None:
        """Everything was written: shut the connection down."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()
        os.close(descriptor)
