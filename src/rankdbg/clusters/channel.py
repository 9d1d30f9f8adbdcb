"""A conversation with one node, and the usual way to carry it: a process's stdin and stdout."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from rankdbg import wire
from rankdbg.clusters import carrier
from rankdbg.clusters.launched import Launched
from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.streams import Stream

# How a conversation begins: it yields what to say and is sent what comes back.
Opening = Generator[dict[str, Any], dict[str, Any], None]

# What a node says before its first message, or on stderr, is kept for its last words.
_KEPT = 8192

CONNECT_SECONDS = 15.0


def plain_opening(node: str, scope: Mapping[str, Any]) -> Opening:
    """With a node process that runs this very rankdbg."""
    reply = yield wire.hello(scope)
    wire.check_hello(reply, f"the node {node}")


class Waiting:
    """A question that has been asked."""

    def __init__(self, conversation: Conversation, ident: int) -> None:
        self._conversation = conversation
        self._ident = ident
        self._begun = time.monotonic()
        self.reply: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()

    def answer(self, seconds: float, reach: float | None = None) -> Any:
        """The answer's content. Raises RankdbgError if there is none so many seconds after
        it could be asked; or, if the node is not reached within `reach` seconds, without
        having asked. It then goes on being reached."""
        try:
            if reach is not None and self._conversation.withdraw_after(reach, self._ident):
                raise NodeFailed(f"{self._conversation.node} is being reached again")
            sent = max(self._begun, self._conversation.wait_until_open())
            reply = self.reply.get(timeout=max(0.0, sent + seconds - time.monotonic()))
        except queue.Empty:
            failure = NodeFailed(f"{self._conversation.node} did not answer in time")
            raise self._conversation.fail(failure) from None
        finally:
            self._conversation.forget(self._ident)
        if "answer" in reply:
            return reply["answer"]
        raise self._conversation.failure or NodeFailed(
            f"{self._conversation.node}: {reply.get('error', {}).get('what', 'no answer')}"
        )

    def open_stream(self, seconds: float) -> tuple[Stream, Any]:
        """For a question that stays open: both sides say more under its number. With what the
        node said first. Raises RankdbgError if that does not come in time."""
        conversation = self._conversation
        try:
            sent = max(self._begun, conversation.wait_until_open())
            reply = self.reply.get(timeout=max(0.0, sent + seconds - time.monotonic()))
        except queue.Empty:
            self._end_stream()
            raise NodeFailed(f"{conversation.node} did not open a stream in time") from None
        if "opened" not in reply:
            conversation.forget(self._ident)
            what = reply.get("error", {}).get("what", "no answer")
            raise conversation.failure or NodeFailed(what)
        return Stream(self.reply, self._say_more, self._end_stream), reply["opened"]

    def _say_more(self, message: wire.Message) -> None:
        self._conversation.say_more(self._ident, message)

    def _end_stream(self) -> None:
        self._say_more({"end": True})
        self._conversation.forget(self._ident)


class Conversation:
    """Questions to one node and their answers; many may be under way.

    Whoever carries it gives it a way to send a message, and feeds it the lines that come.
    What is asked before the opening is over waits until then.
    """

    def __init__(
        self,
        node: str,
        send: Callable[[wire.Message], None],
        opening: Opening,
        patience: float = CONNECT_SECONDS,
    ) -> None:
        self.node = node
        self.failure: RankdbgError | None = None
        self.noise = b""
        self._send = send
        self._patience = patience
        self._opening: Opening | None = opening
        self._held_back: list[wire.Message] = []
        self._ids = itertools.count(1)
        self._waiting: dict[int, Waiting] = {}
        self._lock = threading.Lock()
        self._alive = self._opened = time.monotonic()
        self._is_open = threading.Event()
        send(next(opening))

    @property
    def usable(self) -> bool:
        return self.failure is None

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._waiting)

    def begin(self, message: wire.Message) -> Waiting:
        waiting = Waiting(self, next(self._ids))
        message = {"id": waiting._ident, **message}
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._waiting[waiting._ident] = waiting
            if self._opening is not None:
                self._held_back.append(message)
                return waiting
        self._send(message)
        return waiting

    def say_more(self, ident: int, message: wire.Message) -> None:
        if self.failure is None:
            self._send({"id": ident, **message})

    def forget(self, ident: int) -> None:
        self._waiting.pop(ident, None)

    def feed(self, line: bytes) -> None:
        try:
            if self._opening is not None:
                self._open_further(line)
                return
            message = wire.unpacked(wire.decode(line))
            waiting = self._waiting.get(message.get("id", 0))
            if waiting is not None:
                waiting.reply.put(message)
            elif "id" not in message and "error" in message:
                self.fail(NodeFailed(f"{self.node}: {message['error'].get('what')}"))
        except RankdbgError as error:
            self.fail(error)

    def _open_further(self, line: bytes) -> None:
        assert self._opening is not None
        if not line.lstrip().startswith(b"{"):
            # A login script may have its own to say first.
            self.noise = (self.noise + line + b"\n")[-_KEPT:]
            return
        message = wire.decode(line)
        self._alive = time.monotonic()
        if "coming" in message:  # over a slow line, what is sent to it takes its time
            return
        if "error" in message:
            error = message["error"]
            raise NodeFailed(f"{self.node}: {error.get('what')}", hint=error.get("hint") or "")
        try:
            self._send(self._opening.send(message))
        except StopIteration:
            with self._lock:
                self._opening = None
                self._opened = time.monotonic()
                held_back, self._held_back = self._held_back, []
            for message in held_back:
                self._send(message)
            self._is_open.set()

    def wait_until_open(self) -> float:
        """When that was. To reach a node may take longer than to be answered by it."""
        while not self._is_open.wait(self._hope()):
            if not self._hope():
                what = f"{self.node} could not be reached within {self._patience:g} s"
                self.fail(NodeFailed(what, *last_words(self.noise)))
        if self.failure is not None:
            raise self.failure
        return self._opened

    def _hope(self) -> float:
        """For how many seconds more a sign of the node may come, while it is being reached."""
        return max(0.0, self._alive + self._patience - time.monotonic())

    def wait_until_settled(self, seconds: float) -> None:
        """Until it is open, or has failed; no longer than that."""
        self._is_open.wait(seconds)

    def withdraw_after(self, seconds: float, ident: int) -> bool:
        """Take a question back that could not be asked by then, if there is still hope."""
        if self._is_open.wait(seconds) or not self._hope():
            return False
        with self._lock:
            kept = [message for message in self._held_back if message["id"] != ident]
            withdrawn = len(kept) < len(self._held_back)
            self._held_back = kept
        return withdrawn

    def keep_alive(self) -> bool:
        """A node far away ends when it has heard nothing for a while. False: it has ended."""
        if self._opening is None:
            self._send({"alive": True})
        return self.failure is None

    def fail(self, failure: RankdbgError) -> RankdbgError:
        """Nothing more can be asked. (A node answers in time whatever its ranks do: if it has
        not, the way to it is broken, or it is.) Returns why, as it was found first."""
        with self._lock:
            self.failure = self.failure or failure
            waiting = list(self._waiting.values())
        self._is_open.set()
        for each in waiting:
            each.reply.put({})
        return self.failure


class ProcessChannel:
    """A node process that was started with this command, here or through a launcher."""

    def __init__(
        self,
        node: str,
        command: Sequence[str],
        opening: Opening,
        environment: Mapping[str, str] | None = None,
        explain: Callable[[int | None, bytes], RankdbgError] | None = None,
    ) -> None:
        self._explain = explain or self._ended
        self._all_said = threading.Event()
        self._lines = wire.Lines()
        self._process = Launched(command, environment, whose=node)
        self._conversation = Conversation(node, self._send, opening)
        carrier.shared().on_rounds(self._conversation.keep_alive)
        self._process.listen(self._hear, self._hear_complaint)

    @property
    def usable(self) -> bool:
        return self._conversation.usable

    def begin(self, message: wire.Message) -> Waiting:
        return self._conversation.begin(message)

    def wait_until_settled(self, seconds: float) -> None:
        """Until the node is reached or given up; no longer than that."""
        self._conversation.wait_until_settled(seconds)

    def hang_up(self) -> None:
        self._explain = self._ended  # nobody asks any more
        self._process.hang_up()

    def close(self, deadline: float) -> None:
        """The node ends when its stdin ends. If it cannot, it is not waited for."""
        self.hang_up()
        self._process.wait_or_kill(deadline)

    def _send(self, message: wire.Message) -> None:
        self._process.send(wire.encode(message))

    def _hear(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._conversation.feed(line)
        except RankdbgError as error:
            self._conversation.fail(error)
        if not data:
            self._process.mourn(2.0, self._has_ended)

    def _hear_complaint(self, data: bytes) -> None:
        noise = self._conversation.noise
        self._conversation.noise = (noise + data)[-_KEPT:]
        if not data:
            self._all_said.set()

    def _has_ended(self, status: int | None) -> None:
        self._all_said.wait(0.5)  # children that it leaves behind may hold its stderr
        if self._conversation.usable:
            self._conversation.fail(self._explain(status, self._conversation.noise))

    def _ended(self, status: int | None, noise: bytes) -> RankdbgError:
        node = self._conversation.node
        return NodeFailed(f"the node process on {node} ended", *last_words(noise))


def last_words(noise: bytes) -> list[str]:
    lines = noise.decode(errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()][-1:]
