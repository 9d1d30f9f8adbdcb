"""`rankdbg dap --single RANK`: the only session of the editor is that of the rank.

For editors that do not support child sessions (Zed ends its session at a `startDebugging`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from rankdbg.errors import RankdbgError
from rankdbg.frontends.dap.child import ChildSession
from rankdbg.frontends.dap.console import Console
from rankdbg.frontends.dap.hub import Hub
from rankdbg.frontends.dap.protocol import Connection, Message


class Single:
    def __init__(self, hub: Hub, client: Connection) -> None:
        self._hub = hub
        self._client = client
        self._console = Console(hub)

    def converse(
        self, initialize: Message, attach: Message, messages: Iterator[tuple[Message, bytes]]
    ) -> None:
        """Until the editor disconnects or the rank ends."""
        try:
            self._hub.begin(self)
        except RankdbgError as error:
            self._client.refuse(attach, error.in_one_line())
            return
        try:
            child = self._hub.only_child()
            threading.Thread(target=self._hub.prepare, daemon=True).start()
            child.converse(self._client, initialize, attach, messages)
        except RankdbgError as error:
            self._client.refuse(attach, error.in_one_line())
        finally:
            self._hub.end(self)
            self._hub.release()

    # --- for the hub ----------------------------------------------------------------------------

    def offer(self, child: ChildSession) -> None:
        """The editor has the session already."""

    def print(self, text: str) -> None:
        self._client.print(text)

    def execute(self, client: Connection, request: Message, line: str) -> None:
        self._console.answer(client, request, line)
