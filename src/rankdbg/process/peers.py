"""The user at the other end of a connection on this machine.

For a Unix socket the kernel reports the user. For TCP the kernel has tables of connections, in
which the other end has a row of its own. Measured on Linux 6.18, as seen by the server:

    the other end               row of the other end               our end
    open                        01 ESTABLISHED, its uid, inode     ESTABLISHED
    has shut down its side      04 or 05 FIN_WAIT, its uid, inode  CLOSE_WAIT
    has closed                  05 or 06, uid 0, inode 0           CLOSE_WAIT
    the same, with TCP_LINGER2  05, its uid (0 in older kernels),  CLOSE_WAIT
                                inode 0
    has reset the connection    none; what it sent is still read   CLOSE

So a row counts only while a process has that socket open, which its inode shows: uid 0 of a
closed socket does not mean root. And it counts only while our end is connected: until then no
other connection can have the same addresses and ports.
"""

from __future__ import annotations

import os
import struct
from _socket import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    IPPROTO_TCP,
    SO_PEERCRED,
    SOL_SOCKET,
    TCP_INFO,
    inet_pton,
    socket,
)  # fmt: skip
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_STATE, _UID, _INODE = 3, 7, 9
# 01 ESTABLISHED, 04 FIN_WAIT1, 05 FIN_WAIT2.
_OPEN_STATES = ("01", "04", "05")
_ESTABLISHED, _CLOSE_WAIT = 1, 8
# A row can be missed when other connections open and close while the table is read.
_LOOKS = 3
_OVERFLOW_UID, _ALL_UIDS = 65534, 0xFFFFFFFF


class Refusal(NamedTuple):
    """Why a connection is refused."""

    kind: Literal["another user", "closed", "unknown"]
    text: str


class _Unknown(Exception):
    pass


class _Closed(Exception):
    pass


def refusal(connection: socket) -> Refusal | None:
    """None if the other end belongs to the user of this process. Root counts as another user."""
    try:
        uid = _uid_of_peer(connection)
    except _Closed:
        text = "a connection that was closed before its user could be determined"
        return Refusal("closed", text)
    except (_Unknown, OSError, ValueError, IndexError):
        return Refusal("unknown", "a connection whose user cannot be determined")
    if uid != os.geteuid():
        return Refusal("another user", f"a connection of another user (uid {uid})")
    if _stands_for_others(uid):
        return Refusal("unknown", "a connection whose user cannot be determined")
    return None


def credentials(connection: socket) -> tuple[int, int]:
    """The pid (0 if it is not visible in this namespace) and the uid at the other end of a Unix
    socket. For a client, these are the values from when the server began to listen."""
    packed = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("=iII", packed)
    return pid, uid


def _uid_of_peer(connection: socket) -> int:
    if connection.family == AF_UNIX:
        return credentials(connection)[1]
    try:
        ends = connection.getpeername(), connection.getsockname()
    except OSError:
        raise _Closed from None
    for _ in range(_LOOKS):
        row = next(_rows(*ends), None)
        if not _is_connected(connection):
            raise _Closed
        if row is not None:
            if row[_INODE] == "0" or row[_STATE] not in _OPEN_STATES:
                raise _Closed
            return int(row[_UID])
    raise _Unknown


def _rows(theirs: tuple[str, int], ours: tuple[str, int]) -> Iterator[list[str]]:
    """The rows of the other end. An IPv6 socket that is connected to an IPv4 address is in the
    table of IPv6."""
    for table, as_in_table in zip(_TABLES, (_as_in_tcp, _as_in_tcp6), strict=True):
        wanted = [as_in_table(*theirs[:2]), as_in_table(*ours[:2])]
        if "" in wanted:
            continue
        try:
            with open(table) as lines:
                for line in lines:
                    # Most rows are other connections: splitting only ours takes a third of the time.
                    if wanted[0] in line and (columns := line.split())[1:3] == wanted:
                        yield columns
        except FileNotFoundError:  # a kernel without IPv6
            continue


def _as_in_tcp(host: str, port: int) -> str:
    """`` if it is not an IPv4 address."""
    try:
        packed = inet_pton(AF_INET, host.removeprefix("::ffff:"))
    except OSError:
        return ""
    return f"{_as_words(packed)}:{port:04X}"


def _as_in_tcp6(host: str, port: int) -> str:
    packed = inet_pton(AF_INET6, host if ":" in host else f"::ffff:{host}")
    return f"{_as_words(packed)}:{port:04X}"


def _as_words(packed: bytes) -> str:
    """The kernel prints addresses as words of 32 bits, in the byte order of the machine."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", packed))


def _is_connected(connection: socket) -> bool:
    info = connection.getsockopt(IPPROTO_TCP, TCP_INFO, 1)
    return info[0] in (_ESTABLISHED, _CLOSE_WAIT)


def _stands_for_others(uid: int) -> bool:
    """In a user namespace all users without a mapping have one uid, usually that of `nobody`."""
    try:
        with open("/proc/sys/kernel/overflowuid") as file:
            unknown = int(file.read())
    except (OSError, ValueError):
        unknown = _OVERFLOW_UID
    if uid != unknown:
        return False
    try:
        with open("/proc/self/uid_map") as file:
            return sum(int(line.split()[2]) for line in file) != _ALL_UIDS
    except (OSError, ValueError, IndexError):
        return True
