"""One rank's session: between an editor's connection and the debugger in the rank.

What the two say to each other passes unchanged, but for what would end the rank. On the way it
is seen whether the rank is stopped; and others can ask its debugger too, under numbers that
the editor does not use.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from rankdbg.errors import RankdbgError
from rankdbg.frontends.dap import protocol
from rankdbg.frontends.dap.protocol import Connection, Message
from rankdbg.streams import Stream
from rankdbg.types import Rank

MOVES = ("continue", "next", "stepIn", "stepOut")
# Keys of a configuration that are ours: debugpy would not know them. Lines of a rank's console
# that begin so are too, and no Python.
OURS = "rankdbg"


class Surroundings(Protocol):
    """What a child tells, and whom it asks."""

    def enter(self, rank: Rank) -> Stream: ...

    def arguments(self, child: Child, given: dict[str, Any]) -> dict[str, Any]:
        """Those of an editor's attach, with what we know better: where files are."""

    def may_stay(self) -> bool:
        """Whether stopped ranks stay so when their editor leaves."""

    def execute(self, client: Connection, request: Message, line: str) -> None:
        """A line for the parent's console, typed in a rank's."""

    def moves(self, child: Child, command: str) -> None: ...

    def stopped(self, child: Child, event: dict[str, Any]) -> None: ...

    def over(self, child: Child, why: str, again: bool) -> None:
        """`again`: if the rank is still there, it shall have another session."""


class Child:
    def __init__(self, rank: Rank, name: str, key: str, around: Surroundings) -> None:
        self.rank = rank
        self.name = name
        self.key = key  # by which its editor's connection says which one it is
        self.client: Connection | None = None
        self.stops: dict[int, dict[str, Any]] = {}  # thread -> the event that told of its stop
        self._around = around
        self._stream: Stream | None = None
        self._sending = threading.Lock()
        self._numbers = itertools.count(protocol.FIRST_OWN_SEQ)
        self._asked: dict[int, Callable[[Message], None]] = {}
        self._kept_stops: list[dict[str, Any]] = []  # to be told to an editor that comes again
        self._sources: dict[str, Any] = {}  # files in which breakpoints were set, by path
        self.parked = False  # without an editor, and still stopped
        self.let_go = False  # by an editor that has left; the next one may want it
        self._ended = False

    @property
    def is_stopped(self) -> bool:
        return bool(self.stops)

    @property
    def is_open(self) -> bool:
        return self._stream is not None and not self._ended

    # --- the editor's side ------------------------------------------------------------------

    def converse(
        self,
        client: Connection,
        initialize: Message,
        attach: Message,
        messages: Iterator[tuple[Message, bytes]],
    ) -> None:
        """Until the editor leaves, or the rank does."""
        try:
            self._enter()
        except RankdbgError as error:
            client.refuse(attach, f"{self.name}: {error.in_one_line()}")
            self._end(error.in_one_line(), again=False)
            return
        self.client = client
        self._asked[initialize["seq"]] = lambda response: None  # it has had one from us
        self._to_rank(initialize)
        given = attach.get("arguments") or {}
        self._to_rank({**attach, "arguments": self._around.arguments(self, given)})
        for source in self._sources.values():  # those of an editor that was here before
            self.ask("setBreakpoints", {"source": source, "breakpoints": []})
        try:
            self._relay(messages)
        finally:
            self.client = None
            self._editor_has_left()

    def _relay(self, messages: Iterable[tuple[Message, bytes]]) -> None:
        for message, body in messages:
            if message.get("command") in ("disconnect", "terminate"):
                self._disconnect(message)
                return
            if self._passes(message):
                self._send(body)

    def _passes(self, message: Message) -> bool:
        """Whether the rank gets a message as it is."""
        command = message.get("command")
        if message["type"] == "request" and command in ("attach", "launch", "initialize"):
            if self.client is not None:
                self.client.refuse(message, f"{self.name} is attached already")
            return False
        if command == "evaluate" and self.client is not None and (line := _for_parent(message)):
            self._around.execute(self.client, message, line)
            return False
        if command in MOVES and message["type"] == "request":
            self.stops.clear()
            self._around.moves(self, str(command))
        elif command == "configurationDone" and self._kept_stops:
            self._asked[message["seq"]] = self._tell_kept_stops
        elif command == "setBreakpoints":
            source = (message.get("arguments") or {}).get("source") or {}
            self._sources[str(source.get("path"))] = source
        return True

    def _tell_kept_stops(self, response: Message) -> None:
        """It has stood there since an editor left."""
        stops, self._kept_stops = self._kept_stops, []
        if self.client is not None:
            self.client.send({name: item for name, item in response.items() if name != "seq"})
            for event in stops:
                self.client.event("stopped", **event)

    def _disconnect(self, request: Message) -> None:
        """Never the end of the rank, whatever the editor asks for."""
        client = self.client
        if client is not None:
            client.respond(request)
            client.event("terminated")

    def _editor_has_left(self) -> None:
        if self.is_stopped and self._around.may_stay() and self.is_open:
            self._kept_stops = list(self.stops.values())
            self.parked = True
            return
        self.leave()

    def dismiss(self) -> bool:
        """Have its editor close the session, if it has one; the rest follows from that."""
        client = self.client  # an editor that is quick has left before the second line
        if client is None:
            return False
        client.event("terminated")
        client.close()
        return True

    def leave(self) -> None:
        """The rank goes on, and its debugger is switched off."""
        if self._stream is not None:
            self._stream.close()
        self._end("", again=False)

    # --- the rank's side --------------------------------------------------------------------

    def _enter(self) -> None:
        if self.client is not None:
            raise RankdbgError("it has a session already")
        if not self.is_open:
            self._stream = self._around.enter(self.rank)
            threading.Thread(target=self._hear_rank, name="rankdbg dap", daemon=True).start()

    def ask(
        self,
        command: str,
        arguments: dict[str, Any],
        then: Callable[[Message], None] = lambda response: None,
    ) -> None:
        """On our own account: the editor does not hear of it."""
        number = next(self._numbers)
        self._asked[number] = then
        request = {"seq": number, "type": "request", "command": command}
        self._to_rank({**request, "arguments": arguments})

    def move(self, command: str) -> None:
        """Continue or step, as if its editor had said so."""
        for thread in list(self.stops)[:1]:
            self.stops.clear()
            self.ask(command, {"threadId": thread})
            if self.client is not None:
                self.client.event("continued", threadId=thread, allThreadsContinued=True)

    def _to_rank(self, message: Message) -> None:
        self._send(json.dumps(message).encode())

    def _send(self, body: bytes) -> None:
        if self._stream is not None:
            with self._sending:
                self._stream.send(protocol.framed(body))

    def _hear_rank(self) -> None:
        assert self._stream is not None
        frames = protocol.Frames()
        try:
            while data := self._stream.receive():
                for message, body in frames.feed(data):
                    self._from_rank(message, body)
        except protocol.Garbage as error:
            self._stream.close(str(error))
        self._end(self._stream.why, again=True)

    def _from_rank(self, message: Message, body: bytes) -> None:
        if message["type"] == "response":
            then = self._asked.pop(message.get("request_seq", -1), None)
            if then is not None:
                then(message)
                return
        told = message.get("body") or {}
        match message.get("event"):
            case "stopped":
                # Before the editor knows: it may answer with a step, which is not over then.
                self.stops[int(told.get("threadId", 0))] = told
                self._around.stopped(self, told)
            case "continued":
                self.stops.clear()
        if self.client is not None:
            self.client.send_body(body)

    def _end(self, why: str, again: bool) -> None:
        with self._sending:
            if self._ended:
                return
            self._ended = True
        self.stops.clear()
        client = self.client
        if client is not None:
            client.event("terminated")
            client.close()
        self._around.over(self, why, again)


def _for_parent(evaluate: Message) -> str:
    """What a line of the console asks rankdbg, and not the rank; nothing if it is Python."""
    arguments = evaluate.get("arguments") or {}
    word, _, line = str(arguments.get("expression") or "").strip().partition(" ")
    return line if word == OURS and arguments.get("context") == "repl" else ""
