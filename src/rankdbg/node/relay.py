"""One question to many agents in parallel, with one deadline for all."""

from __future__ import annotations

import errno
import os
import resource
import selectors
import time
from _socket import AF_UNIX, socket
from collections.abc import Callable, Container, Iterable, Mapping

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.process import peers, rendezvous
from rankdbg.process.rendezvous import Address
from rankdbg.wire.questions import BY_AGENT, name_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, NamedTuple, TypeVar

    K = TypeVar("K")
    # "unheard": the agent closed the connection before it read the question. "closed": after that.
    # "foreign": another process than the agent listens there, and was sent nothing.
    # "starved": late, but its process got no CPU.
    Why = Literal["refused", "foreign", "late", "starved", "unheard", "closed", "rubbish", "error"]
else:
    from rankdbg.process.named_tuples import NamedTuple

# Delay before another attempt if the queue of connections is full.
FULL_SECONDS = 0.005


class Foreign(Exception):
    """The process that listens on a socket is not its agent."""


class NoAnswer(NamedTuple):
    why: Why
    detail: str = ""


class IdleConnections:
    """Connections that stay open for the next question, one per agent.

    Accepting a connection and starting a thread for it is half of the cost of a command to a
    stopped rank, and more commands usually follow. The agent closes the connection if it gets
    no question for two minutes.
    """

    def __init__(self) -> None:
        self._idle: dict[str, socket] = {}
        # The other descriptors are for parallel questions.
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4

    def take(self, path: str) -> socket | None:
        return self._idle.pop(path, None)

    def keep(self, path: str, connection: socket) -> None:
        full = len(self._idle) >= self._most
        if full or self._idle.setdefault(path, connection) is not connection:
            connection.close()

    def drop_all_but(self, paths: Container[str]) -> None:
        for path in [path for path in self._idle if path not in paths]:
            if connection := self.take(path):
                connection.close()


class _Conversation:
    def __init__(self, key: Any, connection: socket, unsent: bytes, greeted: bool) -> None:
        self.key = key
        self.connection = connection
        self.unsent = unsent
        self.greeted = greeted
        self.lines = wire.Lines()

    def send(self) -> None:
        try:
            sent = self.connection.send(self.unsent)
        except BlockingIOError:
            return
        self.unsent = self.unsent[sent:]


def ask_agents(
    sockets: Mapping[K, str],
    questions: Mapping[K, wire.Message],
    deadline: float,
    kept: IdleConnections | None = None,
    more_time: Callable[[Iterable[K]], float] = lambda late: 0.0,
) -> dict[K, Any | NoAnswer]:
    """The answer of each agent, or why there is none. `deadline` is on time.monotonic(); when it has
    passed, `more_time` may give those that are late another one."""
    results = _ask_once(sockets, questions, deadline, kept, more_time)
    # An agent closes a connection that was idle too long. And if a program has closed all its
    # descriptors, including the agent's, the first connection fails; the agent then listens
    # again.
    again = {
        key: sockets[key]
        for key, result in results.items()
        if isinstance(result, NoAnswer) and _may_ask_again(questions[key], result)
    }
    return {**results, **_ask_once(again, questions, deadline, kept, more_time)}


def _may_ask_again(question: wire.Message, no: NoAnswer) -> bool:
    """A line for a debugger would be executed twice."""
    entry = BY_AGENT.get(name_in(question))
    repeatable = entry is not None and entry.repeatable
    return no.why == "unheard" or (no.why == "closed" and repeatable)


def _ask_once(
    sockets: Mapping[K, str],
    questions: Mapping[K, wire.Message],
    deadline: float,
    kept: IdleConnections | None,
    more_time: Callable[[Iterable[K]], float],
) -> dict[K, Any | NoAnswer]:
    results: dict[K, Any | NoAnswer] = {}
    with selectors.DefaultSelector() as selector:
        unopened = dict(sockets)

        def open_more() -> bool:
            """Whether there are open conversations."""
            for key, path in list(unopened.items()):
                opened = _open(key, path, questions[key], kept)
                if opened is None:
                    continue
                del unopened[key]
                if isinstance(opened, NoAnswer):
                    results[key] = opened
                else:
                    unsent = selectors.EVENT_WRITE if opened.unsent else 0
                    selector.register(opened.connection, selectors.EVENT_READ | unsent, opened)
            return bool(unopened or selector.get_map())

        over = False
        while not over and open_more():
            if time.monotonic() >= deadline:
                late = [*unopened, *(entry.data.key for entry in selector.get_map().values())]
                deadline = more_time(late)
            left = deadline - time.monotonic()
            over = left <= 0  # one last check: this process itself may have been delayed
            longest = FULL_SECONDS if unopened else left
            for entry, events in selector.select(max(0.0, min(left, longest))):
                conversation: _Conversation = entry.data
                outcome = _advance(conversation, events, selector)
                if outcome is not None:
                    results[conversation.key] = outcome[0]
                    selector.unregister(conversation.connection)
                    if kept is None or isinstance(outcome[0], NoAnswer):
                        conversation.connection.close()
                    else:
                        kept.keep(sockets[conversation.key], conversation.connection)
        results.update(dict.fromkeys(unopened, NoAnswer("late")))
        for entry in list(selector.get_map().values()):
            results[entry.data.key] = NoAnswer("late")
            entry.data.connection.close()
    return results


def _open(
    key: K, path: str, question: wire.Message, kept: IdleConnections | None
) -> _Conversation | NoAnswer | None:
    """A conversation with its question already sent: the agent reads it when it runs. None if its
    queue of connections is full."""
    connection = kept.take(path) if kept else None
    greeted = connection is not None
    message = wire.encode({"id": 1, **question})
    try:
        if connection is None:
            connection = connect(path)
            message = wire.encode(wire.hello()) + message
        conversation = _Conversation(key, connection, message, greeted)
    except BlockingIOError:
        return None
    except Foreign as foreign:
        return NoAnswer("foreign", str(foreign))
    except OSError as error:
        return NoAnswer("refused", error.strerror or str(error))
    try:
        conversation.send()
    except OSError as error:
        connection.close()
        return NoAnswer("unheard", str(error))
    return conversation


def connect(path: str) -> socket:
    """Raises BlockingIOError if its queue is full: Linux does not wait."""
    connection = socket(AF_UNIX)
    connection.setblocking(False)
    try:
        with Address(path) as address:
            code = connection.connect_ex(address)
        if code:
            raise OSError(code, errno.errorcode.get(code, ""))
        check_listener(connection, path)
    except (OSError, Foreign):
        connection.close()
        raise
    return connection


def check_listener(connection: socket, path: str) -> None:
    """Raise Foreign unless the listener is of this user, and the process that the path of the
    socket says. Each agent has called listen() itself, also after a fork."""
    pid, uid = peers.credentials(connection)
    if uid != os.geteuid():
        raise Foreign(f"another user listens on its socket (uid {uid})")
    if not rendezvous.may_listen(pid, path):
        raise Foreign(f"another process listens on its socket (pid {pid})")


def _advance(
    conversation: _Conversation, events: int, selector: selectors.BaseSelector
) -> tuple[Any | NoAnswer] | None:
    """One step of a conversation; its outcome in a tuple once there is one."""
    connection = conversation.connection
    try:
        if events & selectors.EVENT_WRITE:
            conversation.send()
            if not conversation.unsent:
                selector.modify(connection, selectors.EVENT_READ, conversation)
        if events & selectors.EVENT_READ:
            data = connection.recv(1 << 18)
            if not data:
                return (NoAnswer("closed"),)
            return _read(conversation, conversation.lines.feed(data))
    except BlockingIOError:
        return None
    except OSError as error:
        # Linux resets a Unix socket that is closed with unread data; and nothing of a question
        # is unread once it can be answered.
        return (NoAnswer("unheard", str(error)),)
    except RankdbgError as error:
        return (NoAnswer("rubbish", "; ".join(filter(None, (error.what, error.hint)))),)
    return None


def _read(conversation: _Conversation, lines: Iterable[bytes]) -> tuple[Any | NoAnswer] | None:
    for line in lines:
        message = wire.decode(line)
        if not conversation.greeted:
            wire.check_hello(message, "the rank")
            conversation.greeted = True
        elif "answer" in message:
            return (message["answer"],)
        else:
            error = message.get("error")
            what = error.get("what") if isinstance(error, dict) else None
            return (NoAnswer("error", str(what or "an empty answer")),)
    return None
