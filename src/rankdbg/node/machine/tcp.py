"""Connections of TCP, as /proc shows them to the processes of a network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

# As the kernel numbers them.
ESTABLISHED, SYN_SENT, SYN_RECEIVED, CLOSE_WAIT, LISTENS = "01", "02", "03", "08", "0A"
_STATES = {
    ESTABLISHED: "",
    SYN_SENT: "connecting",
    SYN_RECEIVED: "connecting",
    CLOSE_WAIT: "closed by the other side",
}
# The timer that runs while packets are sent again; another one runs while the other side takes no more.
_RETRANSMISSION = "01:"
# Some seconds: attempts to connect are a second apart or more, data is sent again after 0.2 s, and
# then after twice as long each time.
_TIMES_IN_VAIN = 3
_IPV4_IN_IPV6 = "0000000000000000FFFF0000"  # before the address


class TcpConnection(NamedTuple):
    """Addresses as /proc has them."""

    local: str
    remote: str
    state: str
    inode: str  # "0": no process has accepted it, or has it any more
    unread: int = 0  # bytes that have arrived
    sent_again: int = 0  # how often, without an answer

    @property
    def port(self) -> int:
        return int(self.local.rpartition(":")[2], 16)

    @property
    def has_no_answer(self) -> bool:
        return self.state in (ESTABLISHED, SYN_SENT) and self.sent_again >= _TIMES_IN_VAIN

    @property
    def description(self) -> str:
        if self.state == LISTENS:
            return f"socket listening on port {self.port}"
        how = _STATES.get(self.state, "closing")
        return f"socket to {address_text(self.remote)}" + (f" ({how})" if how else "")


def connections(pid: int) -> Iterator[TcpConnection]:
    """All of the network that a process is in."""
    for table in ("tcp", "tcp6"):
        for row in network_table(pid, table):
            if len(row) > 9:
                unread = int(row[4].rpartition(":")[2], 16)
                sent_again = int(row[6], 16) if row[5].startswith(_RETRANSMISSION) else 0
                yield TcpConnection(row[1], row[2], row[3], row[9], unread, sent_again)


class TcpTable:
    """All connections of the network that a process is in, at one moment."""

    def __init__(self, pid: int) -> None:
        self._all = [*connections(pid)]

    @cached_property
    def by_inode(self) -> dict[str, TcpConnection]:
        return {each.inode: each for each in self._all if each.inode != "0"}

    @cached_property
    def listening(self) -> list[TcpConnection]:
        return [each for each in self._all if each.state == LISTENS]

    @cached_property
    def without_answer(self) -> list[TcpConnection]:
        return [each for each in self._all if each.has_no_answer]

    def other_end(self, connection: TcpConnection) -> TcpConnection | None:
        """If a process of this network has it."""
        return self._by_ends.get((_one_form(connection.remote), _one_form(connection.local)))

    def listener(self, address: str) -> str:
        """The inode of the socket that listens there; empty without one."""
        host, _, port = address.rpartition(":")
        listening = self._listening.get(port, ())
        hosts = ((each.local.rpartition(":")[0], each.inode) for each in listening)
        return next((inode for its, inode in hosts if its == host or not its.strip("0")), "")

    @cached_property
    def _by_ends(self) -> dict[tuple[str, str], TcpConnection]:
        found: dict[tuple[str, str], TcpConnection] = {}
        for each in self.by_inode.values():
            found.setdefault((_one_form(each.local), _one_form(each.remote)), each)
        return found

    @cached_property
    def _listening(self) -> dict[str, list[TcpConnection]]:
        """By port."""
        found: dict[str, list[TcpConnection]] = {}
        for each in self.listening:
            found.setdefault(each.local.rpartition(":")[2], []).append(each)
        return found


def network(pid: int) -> str:
    """That of the process: the same text for all that are in it."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return str(pid)


def network_table(pid: int, name: str) -> list[list[str]]:
    """The rows of a table of the network that a process is in."""
    try:
        with open(f"/proc/{pid}/net/{name}", "rb") as file:
            return [line.split() for line in file.read().decode().splitlines()[1:]]
    except OSError:
        return []


def address_text(text: str) -> str:
    """0100007F:1F90 -> 127.0.0.1:8080: words of 4 bytes in the machine's order."""
    import socket

    raw, _, port = _one_form(text).partition(":")
    words = [bytes.fromhex(raw[i : i + 8])[::-1] for i in range(0, len(raw), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    host = socket.inet_ntop(family, b"".join(words))
    return f"[{host}]:{int(port, 16)}" if ":" in host else f"{host}:{int(port, 16)}"


def _one_form(address: str) -> str:
    """The tables have an IPv4 address in two forms."""
    return address.removeprefix(_IPV4_IN_IPV6)
