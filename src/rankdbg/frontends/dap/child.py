"""The session of one rank: relays between an editor and the debugger in the rank.

Messages pass unchanged, except those that would end the rank. The session tracks whether the
rank is stopped; and rankdbg can send its own requests to the debugger, with numbers that the
editor does not use.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from rankdbg.errors import RankdbgError
from rankdbg.frontends.dap import protocol, requests
from rankdbg.frontends.dap.held_breakpoints import HeldBreakpoints
from rankdbg.frontends.dap.hit_conditions import CheckedBreakpoints
from rankdbg.frontends.dap.protocol import Connection, Message
from rankdbg.types import Rank
from rankdbg.wire.streams import Stream

MOVES = ("continue", "next", "stepIn", "stepOut")
STOPPING = ("setBreakpoints", "setFunctionBreakpoints")
# How long an attach waits for the previous connection to close.
CLAIM_SECONDS = 1.0
# The key of rankdbg in a configuration, unknown to debugpy. Console lines that begin with it are
# commands of rankdbg, not Python.
OURS = "rankdbg"


class Surroundings(Protocol):
    """The interface of a session to the server."""

    def enter(self, rank: Rank) -> Stream: ...

    def arguments(self, child: ChildSession, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of an editor's attach, with the path mappings added."""

    def may_stay(self) -> bool:
        """Whether ranks stay stopped when their editor disconnects."""

    def execute(self, client: Connection, request: Message, line: str) -> None:
        """A line for the parent console, typed in the console of a rank."""

    def moves(self, child: ChildSession, command: str) -> None: ...

    def configured(self, child: ChildSession) -> None:
        """Its editor has finished the configuration."""

    def armed(self, child: ChildSession) -> None:
        """The rank has the initial breakpoints of its editor."""

    def changed_breakpoints(self, child: ChildSession) -> None:
        """The rank has breakpoints that its editor has set later."""

    def keeps_focus(self, child: ChildSession) -> bool:
        """Whether the user looks at another rank while this one stops."""

    def stopped(self, child: ChildSession, event: dict[str, Any]) -> None: ...

    def parked(self, child: ChildSession) -> None:
        """Its editor has left, and its rank stays stopped."""

    def over(self, child: ChildSession, why: str, again: bool) -> None:
        """`again`: open another session if the rank still exists."""


class ChildSession:
    def __init__(self, rank: Rank, name: str, key: str, around: Surroundings) -> None:
        self.rank = rank
        self.name = name
        self.short_name = name.partition(" · ")[0]
        self.key = key  # by which its editor's connection says which one it is
        self.client: Connection | None = None
        self.stops: dict[int, dict[str, Any]] = {}  # thread -> the event that told of its stop
        self._around = around
        self._stream: Stream | None = None
        self._sending = threading.Lock()
        self._numbers = itertools.count(protocol.FIRST_OWN_SEQ)
        self.is_stepping = False
        self._asked: dict[int, Callable[[Message], None]] = {}
        self._kept_stops: list[dict[str, Any]] = []  # to be told to an editor that comes again
        self._sources: dict[str, Any] = {}  # files in which breakpoints were set, by path
        self._breakpoints = HeldBreakpoints()
        self._verified: list[dict[str, Any]] = []  # by the rank; the editor is not told yet
        self.parked = False  # without an editor, and still stopped
        self.let_go = False  # by an editor that has left; the next one may want it
        self._claimed = threading.Lock()  # by an editor's connection
        self._leaves = False
        self.ended = False

    @property
    def is_stopped(self) -> bool:
        return bool(self.stops)

    @property
    def is_open(self) -> bool:
        return self._stream is not None and not self.ended

    # --- the editor's side ------------------------------------------------------------------

    def converse(
        self,
        client: Connection,
        initialize: Message,
        attach: Message,
        messages: Iterator[tuple[Message, bytes]],
    ) -> None:
        """Until the editor disconnects or the rank ends."""
        if not self._claimed.acquire(timeout=CLAIM_SECONDS):
            client.refuse(attach, f"{self.name} already has a session")
            return
        try:
            if self._begin(client, initialize, attach):
                self._relay(messages)
        finally:
            self.client = None
            self._editor_has_left()
            self._claimed.release()

    def _begin(self, client: Connection, initialize: Message, attach: Message) -> bool:
        """Send the first two requests of the editor to the rank; False if it cannot be reached."""
        try:
            self._enter()
        except RankdbgError as error:
            client.refuse(attach, f"{self.name}: {error.in_one_line()}")
            self._end(error.in_one_line(), again=False)
            return False
        self._breakpoints = HeldBreakpoints()
        self.client = client
        self._asked[initialize["seq"]] = lambda response: None  # it has had one from us
        self._to_rank(initialize)
        given = attach.get("arguments") or {}
        self._to_rank({**attach, "arguments": self._around.arguments(self, given)})
        for source in self._sources.values():  # those of an editor that was here before
            self.ask("setBreakpoints", {"source": source, "breakpoints": []})
        return True

    def _relay(self, messages: Iterable[tuple[Message, bytes]]) -> None:
        for message, body in messages:
            if message.get("command") in ("disconnect", "terminate"):
                self._disconnect(message)
                return
            if self._passes(message):
                self._send(body)

    def _passes(self, message: Message) -> bool:
        """Whether a message is passed to the rank unchanged."""
        command = message.get("command")
        if message["type"] != "request":
            return True
        if command in ("attach", "launch", "initialize"):
            return self._refuse(message, f"{self.name} is already attached")
        if wrong := requests.fault(message):
            return self._refuse(message, wrong)
        if command == "evaluate" and self.client is not None and (line := _for_parent(message)):
            self._around.execute(self.client, message, line)
            return False
        if command in MOVES:
            self._asked[message["seq"]] = self._moved_unless_refused()
            self._begin_move(str(command))
            self._around.moves(self, str(command))
        elif command in STOPPING:
            if command == "setBreakpoints":
                source = (message.get("arguments") or {}).get("source") or {}
                self._sources[str(source.get("path"))] = source
            if self._breakpoints.are_held:
                return self._respond(message, self._breakpoints.hold(message))
            return self._change_breakpoints(message)
        elif command == "configurationDone":
            self._asked[message["seq"]] = self._configured
        return True

    def _refuse(self, request: Message, why: str) -> bool:
        if self.client is not None:
            self.client.refuse(request, why)
        return False

    def _respond(self, request: Message, body: Any) -> bool:
        if self.client is not None:
            self.client.respond(request, body)
        return False

    def _pass_on(self, response: Message) -> None:
        if self.client is not None:
            self.client.send({name: item for name, item in response.items() if name != "seq"})

    def _moved_unless_refused(self) -> Callable[[Message], None]:
        """A rank that refuses to move, since it has no such thread, is as stopped as before."""
        stops = dict(self.stops)

        def then(response: Message) -> None:
            if not response.get("success"):
                self.stops = stops
                self.is_stepping = False
            self._pass_on(response)

        return then

    def _change_breakpoints(self, request: Message) -> bool:
        checked = CheckedBreakpoints(request.get("arguments"))

        def then(response: Message) -> None:
            body = response.get("body") or {}
            answers = checked.answers(body.get("breakpoints") or [])
            if response.get("success"):
                response = {**response, "body": {**body, "breakpoints": answers}}
            self._pass_on(response)
            self._around.changed_breakpoints(self)

        self._asked[request["seq"]] = then
        self._to_rank({**request, "arguments": checked.arguments})
        return False

    def _configured(self, response: Message) -> None:
        self._pass_on(response)
        self._tell_kept_stops()
        self._around.configured(self)

    def arm(self) -> None:
        """Give the rank the breakpoints that the editor has set so far."""
        requests = self._breakpoints.release()
        unanswered = len(requests)

        for request in requests:
            checked = CheckedBreakpoints(request.get("arguments"))

            def then(response: Message, request: Message = request, checked: Any = checked) -> None:
                nonlocal unanswered
                told = checked.answers((response.get("body") or {}).get("breakpoints") or [])
                self._verified += self._breakpoints.verified(request, told)
                unanswered -= 1
                if not unanswered:
                    self._around.armed(self)

            self.ask(request["command"], checked.arguments, then)
        if not requests:
            self._around.armed(self)

    def report_armed(self) -> None:
        """The breakpoints that the rank was given take effect."""
        verified, self._verified = self._verified, []
        for changed in verified:
            if self.client is not None:
                self.client.event("breakpoint", reason="changed", breakpoint=changed)

    def _tell_kept_stops(self) -> None:
        """Report stops that remained after a previous editor."""
        stops, self._kept_stops = self._kept_stops, []
        for event in stops:
            if self.client is not None:
                self.client.event("stopped", **event)

    def _disconnect(self, request: Message) -> None:
        """Never ends the rank, whatever the editor requests. The debugger is switched off before the
        response, because the editor may attach again at once."""
        client, self.client = self.client, None
        self._editor_has_left()
        if client is not None:
            client.respond(request)
            client.event("terminated")

    def _editor_has_left(self) -> None:
        if self.is_stopped and self._around.may_stay() and self.is_open:
            self._kept_stops = list(self.stops.values())
            self.parked = True
            self._around.parked(self)
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
        """Let the rank continue, and switch its debugger off."""
        self._leaves = True  # before the thread that hears the rank notices
        self._end("", again=False)
        if self._stream is not None:
            self._stream.close()

    # --- the rank's side --------------------------------------------------------------------

    def _enter(self) -> None:
        if not self.is_open:
            self._stream = self._around.enter(self.rank)
            threading.Thread(target=self._hear_rank, name="rankdbg dap", daemon=True).start()

    def ask(
        self,
        command: str,
        arguments: dict[str, Any],
        then: Callable[[Message], None] = lambda response: None,
    ) -> None:
        """Send a request that the editor does not see."""
        number = next(self._numbers)
        self._asked[number] = then
        request = {"seq": number, "type": "request", "command": command}
        self._to_rank({**request, "arguments": arguments})

    def move(self, command: str) -> None:
        """Continue or step, as if its editor had requested it."""
        for thread in list(self.stops)[:1]:
            self._begin_move(command)
            self.ask(command, {"threadId": thread})
            if self.client is not None:
                self.client.event("continued", threadId=thread, allThreadsContinued=True)

    def _begin_move(self, command: str) -> None:
        self.stops.clear()
        self.is_stepping = command != "continue"

    def _to_rank(self, message: Message) -> None:
        self._send(json.dumps(message).encode())

    def _send(self, body: bytes) -> None:
        if self._stream is not None:
            with self._sending:
                self._stream.send(protocol.framed(body))

    def _hear_rank(self) -> None:
        assert self._stream is not None
        frames = protocol.MessageFrames()
        try:
            while data := self._stream.receive():
                for message, body in frames.feed(data):
                    self._from_rank(message, body)
        except protocol.Garbage as error:
            self._stream.close(str(error))
        self._end(self._stream.why, again=not self._leaves)

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
                self.is_stepping = False
                self.stops[int(told.get("threadId", 0))] = told
                self._around.stopped(self, told)
            case "continued":
                self.stops.clear()
        if self.client is not None:
            shown = self._as_shown(message, told)
            self.client.send_body(body if shown is None else json.dumps(shown).encode())

    def _as_shown(self, message: Message, body: dict[str, Any]) -> Message | None:
        """The message that the editor gets instead; None if unchanged."""
        match message.get("event") or message.get("command"):
            case "stopped":
                focus = {"preserveFocusHint": True} if self._around.keeps_focus(self) else {}
                return {**message, "body": {**self._breakpoints.renumbered(body), **focus}}
            case "breakpoint":
                changed = self._breakpoints.renumbered(body.get("breakpoint") or {})
                return {**message, "body": {**body, "breakpoint": changed}}
            case "process":
                return {**message, "body": {**body, "name": self.name}}
            case "threads":  # some editors show the threads of all sessions in one list
                threads = [
                    {**thread, "name": f"{self.short_name} · {thread.get('name')}"}
                    for thread in body.get("threads") or ()
                ]
                return {**message, "body": {**body, "threads": threads}}
        return None

    def _end(self, why: str, again: bool) -> None:
        with self._sending:
            if self.ended:
                return
            self.ended = True
        self.stops.clear()
        client = self.client
        if client is not None:
            client.event("terminated")
            client.close()
        self._around.over(self, why, again)


def _for_parent(evaluate: Message) -> str:
    """The rankdbg command in a console line; empty if it is Python."""
    arguments = evaluate.get("arguments") or {}
    word, _, line = str(arguments.get("expression") or "").strip().partition(" ")
    return line if word == OURS and arguments.get("context") == "repl" else ""
