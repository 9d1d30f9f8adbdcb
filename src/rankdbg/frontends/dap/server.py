"""One DAP server on this machine's loopback: the parent's session and the ranks', on one port."""

from __future__ import annotations

import errno
import hmac
import socket
import sys
import threading
from collections.abc import Iterator

from rankdbg.errors import BadInput
from rankdbg.frontends.dap import peers
from rankdbg.frontends.dap.capabilities import CAPABILITIES
from rankdbg.frontends.dap.child import OURS
from rankdbg.frontends.dap.hub import Hub
from rankdbg.frontends.dap.parent import Parent
from rankdbg.frontends.dap.protocol import Connection, Garbage, Message


class Server:
    def __init__(self, hub: Hub, port: int) -> None:
        self._hub = hub
        try:
            self._listening = socket.create_server(("127.0.0.1", port), backlog=64)
        except (OSError, OverflowError) as error:
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "it is taken" if taken else str(error)
            raise BadInput(
                f"cannot listen on port {port}: {why}", hint="--port 0 takes any"
            ) from None
        self.port: int = self._listening.getsockname()[1]

    def serve(self) -> None:
        """Until the process ends."""
        while True:
            connected, _ = self._listening.accept()
            threading.Thread(target=self._admit, args=(connected,), daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _admit(self, connected: socket.socket) -> None:
        uid = peers.uid_of_peer(connected)
        if uid is not None and not peers.is_welcome(uid):
            _say(f"refused a connection of another user (uid {uid})")
            connected.close()
            return
        client = Connection(connected)
        try:
            self._converse(client, known=uid is not None)
        except Garbage as error:
            _say(f"refused a connection: {error}")
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            # Arguments of another kind than DAP has there.
            _say(f"a session ended: its editor sent what cannot be understood ({error!r})")
        finally:
            client.close()
            client.closed()

    def _converse(self, client: Connection, known: bool) -> None:
        """Which session it is stands in its attach; before that, it is told what can be done."""
        messages = client.messages()
        initialize: Message = {}
        for message, _ in messages:
            command = message.get("command")
            if message["type"] != "request":
                raise Garbage("an editor begins with a request")
            if command == "initialize":
                initialize = message
                client.respond(message, CAPABILITIES)
            elif command == "attach" and initialize:
                if self._may_attach(client, message, known):
                    self._begin(client, initialize, message, messages)
                return
            elif command == "disconnect":
                client.respond(message)
                return
            elif command == "launch":
                client.refuse(message, 'rankdbg joins a job that runs: use "request": "attach"')
            else:
                client.refuse(message, f"{command} before attach")

    def _may_attach(self, client: Connection, attach: Message, known: bool) -> bool:
        arguments = attach.get("arguments")
        if not arguments:
            client.refuse(attach, "attach has no arguments; rankdbg vscode writes them")
            return False
        foreign = {"processId", "listen", "subProcessId"} & arguments.keys()
        if foreign:
            names = ", ".join(sorted(foreign))
            client.refuse(attach, f"{names}: rankdbg dap has its own ranks; take that out")
            return False
        ours = arguments.get(OURS)
        given = str(ours.get("token") if isinstance(ours, dict) else "")
        child = str(ours.get("rank") if isinstance(ours, dict) else "")
        token = self._hub.settings.token
        if (
            known
            or hmac.compare_digest(given.encode(), token.encode())
            or self._hub.child(child) is not None
        ):
            return True
        _say(f'an editor needs this in its configuration: "{OURS}": {{"token": "{token}"}}')
        client.refuse(attach, "rankdbg cannot tell whose editor this is; its terminal says how")
        return False

    def _begin(
        self,
        client: Connection,
        initialize: Message,
        attach: Message,
        messages: Iterator[tuple[Message, bytes]],
    ) -> None:
        ours = (attach.get("arguments") or {}).get(OURS)
        key = ours.get("rank") if isinstance(ours, dict) else None
        if key is None:
            Parent(self._hub, client, initialize, self.port).converse(attach, messages)
            return
        child = self._hub.child(str(key))
        if child is None:
            client.refuse(attach, "this rank's session is over: attach to rankdbg dap again")
            return
        child.converse(client, initialize, attach, messages)


def _say(text: str) -> None:
    sys.stderr.write(f"rankdbg: {text}\n")
    sys.stderr.flush()
