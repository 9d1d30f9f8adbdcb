"""Whose a connection on this machine's loopback is."""

from __future__ import annotations

import os
import socket
import struct

_TABLE = "/proc/net/tcp"
_UID_COLUMN = 7


def uid_of_peer(connection: socket.socket) -> int | None:
    """The user on the other end; None where the kernel does not tell (no Linux, or a proxy
    between two networks)."""
    try:
        theirs, ours = connection.getpeername(), connection.getsockname()
        wanted = [_as_in_table(*theirs[:2]), _as_in_table(*ours[:2])]
        with open(_TABLE) as table:
            for line in table:
                columns = line.split()
                if columns[1:3] == wanted:
                    return int(columns[_UID_COLUMN])
    except (OSError, ValueError, IndexError):
        pass
    return None


def is_welcome(uid: int) -> bool:
    """This user, or root, who can do anything to our ranks anyway."""
    return uid in (0, os.geteuid())


def _as_in_table(host: str, port: int) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"
