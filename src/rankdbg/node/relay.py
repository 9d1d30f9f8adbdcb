"""One question to many agents at once, with one deadline for all."""

from __future__ import annotations

import errno
import resource
import selectors
import socket
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.rendezvous import Address

K = TypeVar("K")

# "unheard": hung up before it has read the question. "closed": after that.
Why = Literal["refused", "late", "unheard", "closed", "rubbish", "error"]

# So soon it is tried again where a queue of connections is full.
FULL_SECONDS = 0.005
# Those that can be asked twice. A line for a debugger would be executed twice.
HARMLESS = ("ping", "card", "stacks", "stops", "environment", "collectives", "hold")


@dataclass(frozen=True)
class NoAnswer:
    why: Why
    detail: str = ""


class Kept:
    """Connections that stay open for the next question, one to an agent.

    To accept a connection and to start a thread for it is half of what a command to a stopped
    rank costs, and whoever has commanded it will do so again. The agent hangs up by itself
    when no question comes for two minutes.
    """

    def __init__(self) -> None:
        self._idle: dict[str, socket.socket] = {}
        # The other descriptors are for those who ask at the same time.
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4

    def take(self, path: str) -> socket.socket | None:
        return self._idle.pop(path, None)

    def keep(self, path: str, connection: socket.socket) -> None:
        full = len(self._idle) >= self._most
        if full or self._idle.setdefault(path, connection) is not connection:
            connection.close()

    def drop_all_but(self, paths: Container[str]) -> None:
        for path in [path for path in self._idle if path not in paths]:
            if connection := self.take(path):
                connection.close()


@dataclass
class _Conversation(Generic[K]):
    key: K
    connection: socket.socket
    unsent: bytes
    greeted: bool
    lines: wire.Lines = field(default_factory=wire.Lines)

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
    kept: Kept | None = None,
) -> dict[K, Any | NoAnswer]:
    """What each agent answers, or why there is no answer. `deadline` is on time.monotonic()."""
    results = _ask_once(sockets, questions, deadline, kept)
    # An agent hangs up on a connection that was idle too long. And a program that has closed
    # all descriptors, the agent's among them, hangs up on whoever comes first; the agent then
    # listens anew.
    again = {
        key: sockets[key]
        for key, result in results.items()
        if isinstance(result, NoAnswer) and _may_ask_again(questions[key], result)
    }
    return {**results, **_ask_once(again, questions, deadline, kept)}


def _may_ask_again(question: wire.Message, no: NoAnswer) -> bool:
    return no.why == "unheard" or (no.why == "closed" and question["ask"] in HARMLESS)


def _ask_once(
    sockets: Mapping[K, str],
    questions: Mapping[K, wire.Message],
    deadline: float,
    kept: Kept | None,
) -> dict[K, Any | NoAnswer]:
    results: dict[K, Any | NoAnswer] = {}
    with selectors.DefaultSelector() as selector:
        unopened = dict(sockets)

        def open_more() -> bool:
            """Whether there is somebody to wait for then."""
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
            left = deadline - time.monotonic()
            over = left <= 0  # but a last look: it may be the one who asks that was held up
            longest = FULL_SECONDS if unopened else left
            for entry, events in selector.select(max(0.0, min(left, longest))):
                conversation: _Conversation[K] = entry.data
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
    key: K, path: str, question: wire.Message, kept: Kept | None
) -> _Conversation[K] | NoAnswer | None:
    """A conversation whose question is on its way: the agent, once awake, finds it there. None
    if its queue of connections is full."""
    connection = kept.take(path) if kept else None
    greeted = connection is not None
    message = wire.encode({"id": 1, **question})
    try:
        if connection is None:
            connection = _connect(path)
            message = wire.encode(wire.hello()) + message
        conversation = _Conversation(key, connection, message, greeted)
    except BlockingIOError:
        return None
    except OSError as error:
        return NoAnswer("refused", error.strerror or str(error))
    try:
        conversation.send()
    except OSError as error:
        connection.close()
        return NoAnswer("unheard", str(error))
    return conversation


def _connect(path: str) -> socket.socket:
    """Raises BlockingIOError if its queue is full: Linux does not wait then."""
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        with Address(path) as address:
            code = connection.connect_ex(address)
        if code:
            raise OSError(code, errno.errorcode.get(code, ""))
    except OSError:
        connection.close()
        raise
    return connection


def _advance(
    conversation: _Conversation[K], events: int, selector: selectors.BaseSelector
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
        # Linux resets a Unix socket that is closed with something unread in it; and of a
        # question nothing is left unread once it can be answered.
        return (NoAnswer("unheard", str(error)),)
    except RankdbgError as error:
        return (NoAnswer("rubbish", "; ".join(filter(None, (error.what, error.hint)))),)
    return None


def _read(conversation: _Conversation[K], lines: Iterable[bytes]) -> tuple[Any | NoAnswer] | None:
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
            return (NoAnswer("error", str(what or "an answer without content")),)
    return None
