"""One local DAP server for the parent session and the sessions of the ranks.

An attached editor can execute code in the ranks. So a connection is closed at once unless the
peer is this user (`peers`), and nothing is done for it before an attach with the token, or with
the key of a rank's session, which only an attached editor gets. On a Unix socket the user check
is enough: other users cannot reach it.
"""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Iterator
from typing import Any

from rankdbg.frontends.dap import requests, running_server
from rankdbg.frontends.dap.capabilities import CAPABILITIES
from rankdbg.frontends.dap.child import OURS
from rankdbg.frontends.dap.hub import Hub
from rankdbg.frontends.dap.parent import Parent
from rankdbg.frontends.dap.protocol import Connection, Garbage, Message
from rankdbg.frontends.dap.single import Single
from rankdbg.frontends.refusals import Refusals
from rankdbg.process import peers

# Seconds until a connection must attach, and the number of connections that may be waiting, in
# addition to one for each rank.
ATTACH_SECONDS = 60.0
MOST_UNATTACHED = 32

Messages = Iterator[tuple[Message, bytes]]


class Server:
    def __init__(self, hub: Hub, listening: socket.socket) -> None:
        self._hub = hub
        self._listening = listening
        self._by_port = listening.family != socket.AF_UNIX
        self.port: int | None = listening.getsockname()[1] if self._by_port else None
        self._refusals = Refusals()
        self._unattached = threading.Semaphore(MOST_UNATTACHED + hub.settings.most)

    def serve(self) -> None:
        """Until the process ends."""
        while True:
            connected, _ = self._listening.accept()
            if self._lets_in(connected):
                threading.Thread(target=self._converse, args=(connected,), daemon=True).start()
            else:
                connected.close()

    def close(self) -> None:
        self._listening.close()

    def _lets_in(self, connected: socket.socket) -> bool:
        """Check the user of the peer before a byte is read, and the number of connections."""
        if why := peers.refusal(connected):
            hint = "; use rankdbg dap --socket PATH" if why.kind == "unknown" else ""
            self._refusals.say(why.kind, why.text + hint)
            return False
        if not self._unattached.acquire(blocking=False):
            self._refusals.say("too many", "a connection: too many connections have not attached")
            return False
        return True

    def _converse(self, connected: socket.socket) -> None:
        try:
            client = Connection(connected)
        except OSError:  # it has been reset
            self._unattached.release()
            connected.close()
            return
        messages = client.messages()
        try:
            if attached := self._wait_for_attach(client, messages):
                self._begin(client, *attached, messages)
        except Garbage as error:
            self._refusals.say("garbage", f"a connection: {error}")
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            # Arguments of a wrong type.
            self._refusals.say(
                "arguments", f"an invalid message of an editor, and ended its session: {error!r}"
            )
        finally:
            client.close()
            client.closed()

    def _wait_for_attach(
        self, client: Connection, messages: Messages
    ) -> tuple[Message, Message] | None:
        """The initialize and the attach request; None if they do not arrive in time."""
        too_late = threading.Timer(ATTACH_SECONDS, client.close)
        too_late.daemon = True
        too_late.start()
        try:
            return self._greet(client, messages)
        finally:
            too_late.cancel()
            self._unattached.release()

    def _greet(self, client: Connection, messages: Messages) -> tuple[Message, Message] | None:
        """The attach request names the session; initialize is answered before that."""
        initialize: Message = {}
        for message, _ in messages:
            command = message.get("command")
            if message["type"] != "request":
                raise Garbage("invalid DAP message: expected a request first")
            if command == "initialize":
                initialize = message
                client.respond(message, CAPABILITIES)
            elif command == "attach" and initialize:
                return (initialize, message) if self._may_attach(client, message) else None
            elif command == "disconnect":
                client.respond(message)
                return None
            elif command == running_server.REQUEST and self._is_trusted(
                message.get("arguments") or {}
            ):
                return initialize, message
            elif command == "launch":
                client.refuse(message, 'rankdbg attaches to a running job: use "request": "attach"')
            else:
                client.refuse(message, f"expected attach before {command}")
        return None

    def _may_attach(self, client: Connection, attach: Message) -> bool:
        arguments = attach.get("arguments")
        if not arguments:
            client.refuse(attach, "attach has no arguments; run rankdbg vscode to write them")
            return False
        if not self._is_trusted(_ours(attach)):
            self._refusals.say("token", "an editor without the token printed above")
            why = "the configuration has no token for rankdbg dap, or a wrong one: "
            client.refuse(
                attach, why + "run rankdbg vscode again, or copy the token that rankdbg dap prints"
            )
            return False
        client.trust()
        if wrong := requests.fault(attach):
            client.refuse(attach, wrong)
            return False
        foreign = {"processId", "listen", "subProcessId"} & arguments.keys()
        if foreign:
            names = ", ".join(sorted(foreign))
            client.refuse(
                attach, f"remove {names} from the configuration: rankdbg dap selects the ranks"
            )
        return not foreign

    def _is_trusted(self, ours: dict[str, Any]) -> bool:
        given, token = (
            str(text or "").encode(errors="surrogatepass")
            for text in (ours.get("token"), self._hub.settings.token)
        )
        return (
            not self._by_port
            or (bool(token) and hmac.compare_digest(given, token))
            or self._hub.child(str(ours.get("rank") or "")) is not None
        )

    def _begin(
        self, client: Connection, initialize: Message, attach: Message, messages: Messages
    ) -> None:
        if attach["command"] == running_server.REQUEST:
            client.respond(attach, running_server.about(self._hub.settings.purpose))
            for _ in messages:  # until the client disconnects or this process ends
                pass
            return
        key = _ours(attach).get("rank")
        if key is None and self._hub.settings.single:
            Single(self._hub, client).converse(initialize, attach, messages)
            return
        if key is None:
            Parent(self._hub, client, initialize, self.port).converse(attach, messages)
            return
        child = self._hub.session_for(str(key))
        if child is None:
            client.refuse(attach, "the session of this rank has ended: attach to rankdbg dap again")
            return
        child.converse(client, initialize, attach, messages)


def _ours(attach: Message) -> dict[str, Any]:
    """The rankdbg section of a configuration."""
    ours = (attach.get("arguments") or {}).get(OURS)
    return ours if isinstance(ours, dict) else {}
