"""Streams that a client has open on this node: to the debugger in a rank, or to a port."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable

from rankdbg import wire
from rankdbg.errors import RankdbgError, WireError
from rankdbg.node import inquiry, relay
from rankdbg.node.machine import processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.node.service import Service
from rankdbg.process.rendezvous import Address
from rankdbg.wire.decoding import BadField
from rankdbg.wire.streams import Stream, pump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONNECT_SECONDS = 5.0
# The parts of a question that are passed on to the agent.
_FOR_AGENTS = ("path", "tensor_summary", "together")


class CannotOpen(Exception):
    """Why there is no such stream."""


class Streams:
    """By the number of the question that opened them."""

    def __init__(self, service: Service, send: Callable[[wire.Message], None]) -> None:
        self._service = service
        self._send = send
        self._inboxes: dict[Any, queue.SimpleQueue[wire.Message]] = {}

    def feed(self, message: wire.Message) -> None:
        inbox = self._inboxes.get(message.get("id"))
        if inbox is not None:
            inbox.put(message)

    def begin(self, message: wire.Message) -> None:
        """In a new thread: loading the debugger in a rank may take long."""
        ident = message.get("id")
        self._inboxes[ident] = queue.SimpleQueue()
        threading.Thread(target=self._carry, args=(ident, message), daemon=True).start()

    def _carry(self, ident: Any, message: wire.Message) -> None:
        def say(more: wire.Message) -> None:
            self._send({"id": ident, **more})

        try:
            process = None if "port" in message else self._service.find_process(message)
            connection, opened = _connect(process, message)
            say({"opened": opened})
            stream = Stream(self._inboxes[ident], say)
            if connection is not None:
                pump(connection, stream, lambda: _how_it_ended(process))
            say({"answer": {"why": stream.why}})
        except (CannotOpen, RankdbgError, OSError, BadField) as error:
            what = error.what if isinstance(error, RankdbgError) else str(error)
            say({"error": {"what": what}})
        finally:
            del self._inboxes[ident]


def _connect(process: Process | None, message: wire.Message) -> tuple[socket.socket | None, Any]:
    if process is None:
        return _to_port(int(message["port"])), {}
    seconds = min(600.0, max(0.1, float(message.get("timeout", 5.0))))
    question: wire.Message = {"ask": "dap"}
    question.update({key: message[key] for key in _FOR_AGENTS if key in message})
    return _to_agent(process, question, time.monotonic() + seconds)


def _how_it_ended(process: Process | None) -> str:
    return processes.how_it_ended(*process.key) if process is not None else ""


def _to_port(port: int) -> socket.socket:
    """On the loopback interface, IPv4 or IPv6."""
    refusal = ""
    for host in ("127.0.0.1", "::1"):
        try:
            connection = socket.create_connection((host, port), CONNECT_SECONDS)
        except (OSError, OverflowError) as error:
            refusal = refusal or getattr(error, "strerror", None) or str(error)
            continue
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    raise CannotOpen(f"nothing listens on port {port} there ({refusal})")


def _to_agent(
    process: Process, question: wire.Message, deadline: float
) -> tuple[socket.socket | None, Any]:
    """A connection that the agent has passed to its debugger, and the first answer. The connection
    is None if the agent refused."""
    begun = time.monotonic()
    if not (process.socket and inquiry.can_answer(process)):
        raise CannotOpen(inquiry.why_silent(process, relay.NoAnswer("refused"), 0.0))
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        with Address(process.socket) as address:
            connection.connect(address)
        relay.check_listener(connection, process.socket)
        connection.sendall(wire.encode(wire.hello()) + wire.encode({"id": 1, **question}))
        answer = _answer(connection, deadline)
    except relay.Foreign as foreign:
        connection.close()
        no = relay.NoAnswer("foreign", str(foreign))
        raise CannotOpen(inquiry.why_silent(process, no, 0.0)) from None
    except TimeoutError:
        connection.close()
        waited = time.monotonic() - begun
        raise CannotOpen(inquiry.why_silent(process, relay.NoAnswer("late"), waited)) from None
    except (OSError, RankdbgError) as error:
        connection.close()
        no = relay.NoAnswer("closed", str(error))
        raise CannotOpen(inquiry.why_silent(process, no, 0.0)) from None
    if answer.get("state") != "ready":
        connection.close()
        return None, answer
    connection.settimeout(None)
    return connection, answer


def _answer(connection: socket.socket, deadline: float) -> wire.Message:
    """The agent's answer; nothing follows it until the debugger gets a message."""
    lines = wire.Lines()
    greeted = False
    while True:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        data = connection.recv(1 << 16)
        if not data:
            raise WireError("it closed the connection")
        for line in lines.feed(data):
            message = wire.decode(line)
            if not greeted:
                wire.check_hello(message, "the rank")
                greeted = True
                continue
            answer = message.get("answer")
            if not isinstance(answer, dict):
                raise WireError(str(message.get("error", {}).get("what")))
            return answer
