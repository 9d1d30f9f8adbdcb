"""A local port forwarded to the loopback interface of a node."""

from __future__ import annotations

import selectors
import socket
import sys
import threading
from collections.abc import Sequence

from rankdbg.errors import BadInput, RankdbgError
from rankdbg.frontends.refusals import Refusals
from rankdbg.process import peers
from rankdbg.session import Session
from rankdbg.wire.streams import pump

# The node tries for a few seconds to reach its port.
OPEN_SECONDS = 10.0


class Forwarding:
    def __init__(self, session: Session, node: str, there: int, here: int) -> None:
        self.node, self.there = node, there
        self._session = session
        self._refusals = Refusals()
        try:
            self._listening = socket.create_server(("127.0.0.1", here), backlog=64)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            hint = f"another port here: {there}:{(here + 10000) % 65536}"
            raise BadInput(f"cannot listen on port {here}: {why}", hint=hint) from None
        self.port: int = self._listening.getsockname()[1]

    @staticmethod
    def serve(forwardings: Sequence[Forwarding]) -> None:
        """Until the process ends."""
        with selectors.DefaultSelector() as selector:
            for each in forwardings:
                selector.register(each._listening, selectors.EVENT_READ, each)
            while True:
                for key, _ in selector.select():
                    key.data.accept()

    def accept(self) -> None:
        connected, _ = self._listening.accept()
        # Before anything is read: a port has no password, so check the user of the peer.
        if why := peers.refusal(connected):
            self._refusals.say(why.kind, f"{why.text} to port {self.port}")
            connected.close()
            return
        threading.Thread(target=self._carry, args=(connected,), daemon=True).start()

    def _carry(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            where = {"port": self.there}
            stream, _ = self._session.open_stream(self.node, where, OPEN_SECONDS)
        except RankdbgError as error:
            _say(f"{self.node}:{self.there}: {error.in_one_line()}")
            connected.close()
            return
        pump(connected, stream)


def _say(text: str) -> None:
    sys.stderr.write(f"rankdbg: {text}\n")
    sys.stderr.flush()
