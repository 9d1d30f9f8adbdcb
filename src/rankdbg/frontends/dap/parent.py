"""The parent session: opens the sessions of the ranks, and has a console."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.frontends.dap import requests
from rankdbg.frontends.dap.child import OURS, ChildSession
from rankdbg.frontends.dap.console import Console
from rankdbg.frontends.dap.hub import Hub
from rankdbg.frontends.dap.protocol import Connection, Message

# Keys of the parent configuration that do not apply to the session of a rank.
_ITS_OWN = ("name", "request", "preLaunchTask", "postDebugTask", "connect", "port", "host", OURS)


class Parent:
    def __init__(self, hub: Hub, client: Connection, initialize: Message, port: int | None) -> None:
        """`port`: for the sessions of the ranks; None if the editor uses a Unix socket, which it
        knows."""
        self._hub = hub
        self._client = client
        self._port = port
        told = initialize.get("arguments") or {}
        self._asks_to_start = bool(told.get("supportsStartDebuggingRequest"))
        # nvim-dap writes what is printed next right behind a result.
        self._end_of_result = "\n" if told.get("clientID") == "neovim" else ""
        self._console = Console(hub)
        self._attach: Message = {}
        self._is_attached = False
        self._answers: dict[str, Callable[[Message], None]] = {
            "setBreakpoints": self._set_breakpoints,
            "setFunctionBreakpoints": self._set_breakpoints,
            "setExceptionBreakpoints": self._set_breakpoints,
            "configurationDone": self._configured,
            "threads": lambda request: client.respond(request, {"threads": []}),
            "evaluate": self._evaluate,
            "completions": self._complete,
        }

    def converse(self, attach: Message, messages: Iterator[tuple[Message, bytes]]) -> None:
        """Until the editor disconnects."""
        try:
            self._hub.begin(self)
        except RankdbgError as error:
            self._client.refuse(attach, error.in_one_line())
            return
        self._attach = attach
        self._client.event("initialized")
        try:
            for message, _ in messages:
                if message["type"] == "request" and not self._answer(message):
                    return
        finally:
            self._hub.end(self)
            self._hub.release()

    def _answer(self, request: Message) -> bool:
        """False if the editor disconnects."""
        command = str(request.get("command"))
        if command in ("disconnect", "terminate"):
            self._hub.end(self)  # first: the editor may attach again as soon as it has the response
            self._client.respond(request)
            self._client.event("terminated")
            return False
        answer = self._answers.get(command)
        if answer is None:
            self._client.refuse(
                request, f"{command} works in the session of a rank, not in the parent session"
            )
            return True
        if wrong := requests.fault(request):
            self._client.refuse(request, wrong)
        else:
            answer(request)
        return True

    def _set_breakpoints(self, request: Message) -> None:
        """The editor sets them in the session of each rank; here they are only acknowledged."""
        wanted = (request.get("arguments") or {}).get("breakpoints") or []
        pending = {"verified": False, "message": "set in the sessions of the ranks"}
        self._client.respond(request, {"breakpoints": [pending for _ in wanted]})

    def _configured(self, request: Message) -> None:
        self._client.respond(request)
        if self._is_attached:
            return
        self._is_attached = True
        self._client.respond(self._attach)
        threading.Thread(target=self._open_all, daemon=True).start()

    def _open_all(self) -> None:
        self.print("rankdbg: each rank has its own session. Type help to list the commands;")
        self.print("in the console of a rank, type rankdbg help")
        self._hub.open_all()

    # --- for the hub ----------------------------------------------------------------------------

    def offer(self, child: ChildSession) -> None:
        given: dict[str, Any] = self._attach.get("arguments") or {}
        inherited = {name: item for name, item in given.items() if name not in _ITS_OWN}
        configuration = {
            "type": "debugpy",
            **{name: item for name, item in inherited.items() if not name.startswith("__")},
            "name": child.name,
            "request": "attach",
            OURS: {"rank": child.key},
        }
        if self._port is not None:
            configuration["connect"] = {"host": "127.0.0.1", "port": self._port}
        if self._asks_to_start:
            arguments = {"request": "attach", "configuration": configuration}
            request = {"type": "request", "command": "startDebugging", "arguments": arguments}
            self._client.send(request)
        else:
            self._client.event("debugpyAttach", **configuration)

    def print(self, text: str) -> None:
        self._client.print(text)

    # --- the console ----------------------------------------------------------------------------

    def _evaluate(self, request: Message) -> None:
        arguments = request.get("arguments") or {}
        if arguments.get("context", "repl") != "repl":
            # Watches and hovers are evaluated automatically: they must not run commands.
            self._client.refuse(request, "values are shown in the sessions of the ranks")
            return
        self.execute(self._client, request, str(arguments.get("expression") or ""))

    def execute(self, client: Connection, request: Message, line: str) -> None:
        self._console.answer(client, request, line, self._end_of_result)

    def _complete(self, request: Message) -> None:
        arguments = request.get("arguments") or {}
        typed = str(arguments.get("text") or "")[: max(0, int(arguments.get("column") or 1) - 1)]
        word = typed.rpartition(" ")[2]
        targets = [
            {"label": candidate, "start": len(typed) - len(word), "length": len(word)}
            for candidate in self._console.complete(typed)
            if candidate.startswith(word)
        ]
        self._client.respond(request, {"targets": targets})
