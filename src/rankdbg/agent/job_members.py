"""The processes of this job that this one can reach: those whose agents have their sockets in the same
directory, that is, on this node."""

from __future__ import annotations

import os
import time
from _socket import AF_UNIX, SOCK_STREAM, socket

from rankdbg import wire
from rankdbg.agent import card
from rankdbg.errors import RankdbgError
from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

CONNECT_SECONDS = 0.2
LONGEST_CARD = 1 << 20
UNNUMBERED = "a process"


def members() -> Iterator[tuple[str, str]]:
    """This process too: what each is called, and its socket."""
    ours = card.make()["labels"]["job"]
    directory = rendezvous.directory()
    for name in os.listdir(directory):
        if name.endswith(".json"):
            path = os.path.join(directory, name)
            try:
                with open(path, "rb", opener=_cautious) as file:
                    labels = wire.decode(file.read(LONGEST_CARD))["labels"]
                if labels["job"] == ours:
                    who = f"rank {labels['rank']}" if "rank" in labels else UNNUMBERED
                    yield who, f"{path.removesuffix('.json')}.sock"
            except (OSError, RankdbgError, KeyError, TypeError):  # it has exited; not a card
                continue


def _cautious(path: str, flags: int) -> int:
    """Without waiting: other files in that directory may be pipes."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def send(path: str, question: dict[str, Any]) -> Any:
    """The connection on which the question was sent; None if the process cannot be reached."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    try:
        with rendezvous.Address(path) as address:
            connection.connect(address)
        connection.sendall(wire.encode(wire.hello()) + wire.encode(question))
        return connection
    except OSError:
        connection.close()
        return None


def answer(connection: Any, deadline: float) -> dict[str, Any]:
    """To the question with the id 1; empty if there is none. An agent does nothing for a client that
    has disconnected, so also those wait who do not need the answer."""
    lines = wire.Lines()
    while True:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        data = connection.recv(65536)
        for line in lines.feed(data):
            message = wire.decode(line)
            if message.get("id") == 1:
                return message.get("answer") or {}
        if not data:
            return {}
