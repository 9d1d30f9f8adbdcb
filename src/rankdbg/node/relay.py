"""One question to many agents at once, with one deadline for all."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.rendezvous import Address

K = TypeVar("K")

Why = Literal["refused", "late", "closed", "rubbish", "error"]


@dataclass(frozen=True)
class NoAnswer:
    why: Why
    detail: str = ""


@dataclass
class _Conversation(Generic[K]):
    key: K
    connection: socket.socket
    unsent: bytes
    lines: wire.Lines = field(default_factory=wire.Lines)
    greeted: bool = False


def ask_agents(
    sockets: Mapping[K, str], questions: Mapping[K, wire.Message], deadline: float
) -> dict[K, Any | NoAnswer]:
    """What each agent answers, or why there is no answer. `deadline` is on time.monotonic()."""
    results = _ask_once(sockets, questions, deadline)
    # A program that has closed all descriptors, the agent's among them, hangs up on whoever
    # comes first; the agent then listens anew.
    hung_up = {
        key: sockets[key]
        for key, result in results.items()
        if isinstance(result, NoAnswer) and result.why == "closed"
    }
    return {**results, **_ask_once(hung_up, questions, deadline)}


def _ask_once(
    sockets: Mapping[K, str], questions: Mapping[K, wire.Message], deadline: float
) -> dict[K, Any | NoAnswer]:
    results: dict[K, Any | NoAnswer] = {}
    with selectors.DefaultSelector() as selector:
        _open_all(sockets, questions, deadline, selector, results)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for entry, events in selector.select(left):
                conversation: _Conversation[K] = entry.data
                outcome = _advance(conversation, events, selector)
                if outcome is not None:
                    results[conversation.key] = outcome[0]
                    selector.unregister(conversation.connection)
                    conversation.connection.close()
        for entry in list(selector.get_map().values()):
            results[entry.data.key] = NoAnswer("late")
            entry.data.connection.close()
    return results


def _open_all(
    sockets: Mapping[K, str],
    questions: Mapping[K, wire.Message],
    deadline: float,
    selector: selectors.BaseSelector,
    results: dict[K, Any | NoAnswer],
) -> None:
    for key, path in sockets.items():
        try:
            connection = _connect(path, deadline)
        except TimeoutError:
            results[key] = NoAnswer("late")
            continue
        except OSError as error:
            results[key] = NoAnswer("refused", error.strerror or str(error))
            continue
        message = wire.encode(wire.hello()) + wire.encode({"id": 1, **questions[key]})
        conversation = _Conversation(key, connection, message)
        selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, conversation)


def _connect(path: str, deadline: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        with Address(path) as address:
            # A full queue of connections answers EAGAIN at once instead of waiting.
            while (code := connection.connect_ex(address)) == errno.EAGAIN:
                if time.monotonic() > deadline:
                    raise TimeoutError
                time.sleep(0.005)
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
            sent = connection.send(conversation.unsent)
            conversation.unsent = conversation.unsent[sent:]
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
        return (NoAnswer("closed", str(error)),)
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
