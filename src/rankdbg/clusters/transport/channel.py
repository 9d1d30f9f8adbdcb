"""The message exchange with one node, usually through stdin and stdout of a process."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankdbg import wire
from rankdbg.clusters.transport import carrier
from rankdbg.clusters.transport.launched import Launched, Program
from rankdbg.errors import NodeFailed, RankdbgError, WireError
from rankdbg.wire.decoding import BadField, decode
from rankdbg.wire.streams import Stream

# How a conversation begins: it yields messages to send and is sent the replies. After a tuple of
# messages, questions follow at once. If the node has dropped them, another such tuple comes; an
# empty one only waits for the next reply.
Opening = Generator[dict[str, Any] | tuple[dict[str, Any], ...], dict[str, Any], None]

# Output before the first message and on stderr is kept for error messages.
_NOISE_BYTES = 8192

CONNECT_SECONDS = 15.0
# A node reports every 2 s that it is receiving something large.
COMING_SECONDS = 6.0
IF_SLOW = "if the machine is only slow: --patience 3"


def plain_opening(node: str, scope: Mapping[str, Any]) -> Opening:
    """For a node process that runs this same rankdbg."""
    reply = yield wire.hello(scope)
    wire.check_hello(reply, f"the node {node}")


@dataclass(frozen=True)
class NodeError:
    what: str = "no response"
    hint: str = ""


@dataclass(frozen=True)
class NodeMessage:
    """What each message of a node may have beside an answer, which the question's type decodes."""

    id: int | None = None
    error: NodeError = NodeError()
    lacks: str = ""


def _read_message(line: bytes) -> tuple[wire.Message, NodeMessage]:
    """Raises WireError."""
    message = wire.unpacked(wire.decode(line))
    try:
        return message, decode(NodeMessage, message)
    except BadField as error:
        raise WireError(f"invalid message: {error}") from None


class AskedQuestion:
    """A question that has been asked."""

    def __init__(self, conversation: Conversation, ident: int, question: wire.Message) -> None:
        self._conversation = conversation
        self._ident = ident
        self.question = {"id": ident, **question}
        self.begun = time.monotonic()
        self.reply: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()

    def answer(self, seconds: float, reach: float | None = None) -> Any:
        """The content of the answer. Raises RankdbgError if none has arrived `seconds` after
        the question was sent; or, without asking, if the node is not reached within `reach`
        seconds. Connecting continues in that case."""
        try:
            if reach is not None and self._conversation.withdraw_after(reach, self._ident):
                raise NodeFailed(f"reconnecting to {self._conversation.node}")
            self.begun = max(self.begun, self._conversation.wait_until_open())
            reply = self._wait(seconds)
        except queue.Empty:
            what = f"{self._conversation.node} did not respond in time"
            failure = NodeFailed(what, hint=self._conversation.hint or IF_SLOW)
            raise self._conversation.fail(failure) from None
        finally:
            self._conversation.forget(self._ident)
        if "answer" in reply:
            return reply["answer"]
        what = decode(NodeMessage, reply).error.what
        raise self._conversation.failure or NodeFailed(f"{self._conversation.node}: {what}")

    def _wait(self, seconds: float) -> wire.Message:
        """Wait this long after the question was sent (or sent again), and while the node reports
        that it is receiving something large. Raises queue.Empty."""
        while True:
            left = self.begun + seconds - time.monotonic()
            try:
                return self.reply.get(timeout=max(0.0, left))
            except queue.Empty:
                if self._conversation.something_is_coming:
                    self.begun = time.monotonic() - seconds + COMING_SECONDS
                elif time.monotonic() >= self.begun + seconds:  # and it was not sent again
                    raise

    def open_stream(self, seconds: float) -> tuple[Stream, Any]:
        """For a question that stays open: both sides send more messages with its number. Returns
        the first answer too. Raises RankdbgError if that does not arrive in time."""
        conversation = self._conversation
        try:
            self.begun = max(self.begun, conversation.wait_until_open())
            reply = self._wait(seconds)
        except queue.Empty:
            self._end_stream()
            raise NodeFailed(f"{conversation.node} did not open a stream in time") from None
        if "opened" not in reply:
            conversation.forget(self._ident)
            raise conversation.failure or NodeFailed(decode(NodeMessage, reply).error.what)
        return Stream(self.reply, self._send_more, self._end_stream), reply["opened"]

    def _send_more(self, message: wire.Message) -> None:
        self._conversation.send_more(self._ident, message)

    def _end_stream(self) -> None:
        self._send_more({"end": True})
        self._conversation.forget(self._ident)


class Conversation:
    """Questions to one node and their answers; many may be under way.

    The transport provides a function that sends a message, and feeds it the received lines.
    Questions asked before the end of the opening wait until then.
    """

    def __init__(
        self,
        node: str,
        send: Callable[[wire.Message], None],
        opening: Opening,
        connect_seconds: float = CONNECT_SECONDS,
        hint: str = "",
        give: Callable[[str], wire.Message] | None = None,
    ) -> None:
        self.node = node
        self._give = give or _nothing_to_give
        self._given: set[str] = set()
        self._coming = float("-inf")  # when the node last reported that it is receiving
        self.hint = hint  # the next step, if it does not respond
        self.failure: RankdbgError | None = None
        self.noise = b""
        self._send = send
        self._connect_seconds = connect_seconds
        self._opening: Opening | None = opening
        self._holds_back = True  # questions, until the node can hear them
        self._ids = itertools.count(1)
        self._waiting: dict[int, AskedQuestion] = {}
        self._lock = threading.Lock()
        self._alive = self._opened = time.monotonic()
        self._is_open = threading.Event()
        self._say(next(opening))

    @property
    def usable(self) -> bool:
        return self.failure is None

    @property
    def busy(self) -> bool:
        """Whether a question is waiting for its answer."""
        return bool(self._waiting)

    def begin(self, message: wire.Message) -> AskedQuestion:
        waiting = AskedQuestion(self, next(self._ids), message)
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._waiting[waiting._ident] = waiting
            if not self._holds_back:
                self._send(waiting.question)
        return waiting

    def send_more(self, ident: int, message: wire.Message) -> None:
        if self.failure is None:
            self._send({"id": ident, **message})

    def forget(self, ident: int) -> None:
        self._waiting.pop(ident, None)

    def feed(self, line: bytes) -> None:
        try:
            if self._opening is not None:
                self._open_further(line)
                return
            message, reply = _read_message(line)
            waiting = self._waiting.get(reply.id or 0)
            if "coming" in message:
                self._coming = time.monotonic()
            elif waiting is not None and reply.lacks:
                self._supply(reply.lacks, waiting)
            elif waiting is not None:
                waiting.reply.put(message)
            elif reply.id is None and "error" in message:
                self.fail(NodeFailed(f"{self.node}: {reply.error.what}"))
        except RankdbgError as error:
            self.fail(error)

    def _supply(self, kind: str, waiting: AskedQuestion) -> None:
        """Send a tool that a node needs for a question, once, and repeat the question."""
        if kind not in self._given:
            self._given.add(kind)
            self._send(self._give(kind))
        waiting.begun = time.monotonic()
        self._send(waiting.question)

    @property
    def something_is_coming(self) -> bool:
        return time.monotonic() < self._coming + COMING_SECONDS

    def _open_further(self, line: bytes) -> None:
        assert self._opening is not None
        if not line.lstrip().startswith(b"{"):
            # Output of a login script may come first.
            self.noise = (self.noise + line + b"\n")[-_NOISE_BYTES:]
            return
        message, reply = _read_message(line)
        self._alive = time.monotonic()
        if "coming" in message:  # over a slow connection, receiving takes time
            return
        if "error" in message:
            raise NodeFailed(f"{self.node}: {reply.error.what}", hint=reply.error.hint)
        try:
            self._say(self._opening.send(message))
        except StopIteration:
            if self._holds_back:
                self._ask_all()
            self._opening = None
            self._opened = time.monotonic()
            self._is_open.set()

    def _say(self, words: dict[str, Any] | tuple[dict[str, Any], ...]) -> None:
        """Each reply that is not waited for saves a round trip through kubectl, API server, kubelet
        and container."""
        if isinstance(words, dict):
            self._send(words)
        elif words:
            self._ask_all(words)

    def _ask_all(self, before: Sequence[wire.Message] = ()) -> None:
        """Each question once, and after these messages: a question that begins meanwhile waits."""
        with self._lock:
            self._holds_back = False
            for message in (*before, *(waiting.question for waiting in self._waiting.values())):
                self._send(message)

    def wait_until_open(self) -> float:
        """Returns when that was. Connecting may take longer than a response."""
        while not self._is_open.wait(self._time_to_connect()):
            if not self._time_to_connect():
                what = f"cannot reach {self.node}: no response within {self._connect_seconds:g} s"
                self.fail(NodeFailed(what, *last_lines(self.noise), hint=self.hint))
        if self.failure is not None:
            raise self.failure
        return self._opened

    def _time_to_connect(self) -> float:
        """The seconds left for a sign of life of the node while connecting."""
        return max(0.0, self._alive + self._connect_seconds - time.monotonic())

    def wait_until_settled(self, seconds: float) -> None:
        """Wait until it is open or has failed, at most this long."""
        self._is_open.wait(seconds)

    def withdraw_after(self, seconds: float, ident: int) -> bool:
        """Withdraw a question that was not sent by then, if connecting may still succeed."""
        if self._is_open.wait(seconds) or not self._time_to_connect():
            return False
        with self._lock:
            return self._holds_back and self._waiting.pop(ident, None) is not None

    def keep_alive(self) -> bool:
        """A remote node exits if it receives nothing for a while. False: the connection failed."""
        if self._opening is None:
            self._send({"alive": True})
        return self.failure is None

    def fail(self, failure: RankdbgError) -> RankdbgError:
        """End the conversation. (A node responds in time whatever its ranks do: if it does not,
        the node or the connection is broken.) Returns the first failure."""
        with self._lock:
            self.failure = self.failure or failure
            waiting = list(self._waiting.values())
        self._is_open.set()
        for each in waiting:
            each.reply.put({})
        return self.failure


class ProcessChannel:
    """A node process started with this command, locally or through a launcher."""

    def __init__(
        self,
        node: str,
        command: Sequence[str],
        opening: Opening,
        environment: Mapping[str, str] | None = None,
        explain: Callable[[int | None, bytes], RankdbgError] | None = None,
        preamble: bytes = b"",
        hint: str = "",
        give: Callable[[str], wire.Message] | None = None,
        start: Callable[[], Program] | None = None,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        """`preamble`: bytes for the started program, before the conversation. `hint`: the next
        step if the node does not respond. `give`: the message with a tool that the opening
        has offered. `start`: another way to start the command. `connect_seconds`: for a sign of
        life of the node until it is reached."""
        self._explain = explain or self._ended
        self._all_said = threading.Event()
        self._lines = wire.Lines()
        self._process: Program = start() if start else Launched(command, environment, whose=node)
        if preamble:
            self._process.send(preamble)
        self._conversation = Conversation(
            node, self._send, opening, connect_seconds, hint=hint, give=give
        )
        carrier.shared().on_rounds(self._conversation.keep_alive)
        self._process.listen(self._hear, self._hear_complaint)

    @property
    def failure(self) -> RankdbgError | None:
        return self._conversation.failure

    @property
    def usable(self) -> bool:
        return self._conversation.usable

    def begin(self, message: wire.Message) -> AskedQuestion:
        return self._conversation.begin(message)

    def wait_until_settled(self, seconds: float) -> None:
        """Wait until the node is reached or given up, at most this long."""
        self._conversation.wait_until_settled(seconds)

    def hang_up(self) -> None:
        self._explain = self._ended  # no explanation needed any more
        self._process.hang_up()

    def close(self, deadline: float) -> None:
        """The node exits when its stdin is closed; it is killed if it has not by the deadline."""
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
            self._process.reap(2.0, self._has_ended)

    def _hear_complaint(self, data: bytes) -> None:
        noise = self._conversation.noise
        self._conversation.noise = (noise + data)[-_NOISE_BYTES:]
        if not data:
            self._all_said.set()

    def _has_ended(self, status: int | None) -> None:
        self._all_said.wait(0.5)  # its remaining children may hold its stderr open
        if self._conversation.usable:
            self._conversation.fail(self._explain(status, self._conversation.noise))

    def _ended(self, status: int | None, noise: bytes) -> RankdbgError:
        node = self._conversation.node
        return NodeFailed(f"the node process on {node} ended", *last_lines(noise))


def _nothing_to_give(kind: str) -> wire.Message:
    raise NodeFailed(f"the node asks for {kind}, which was not offered")


def last_lines(noise: bytes) -> list[str]:
    lines = noise.decode(errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()][-1:]
