"""The other ends of Unix sockets, asked of the kernel: /proc/net/unix does not tell them.

The protocol is that of `ss` (linux/sock_diag.h, linux/unix_diag.h): one request for all sockets of
this network namespace, and a message for each.
"""

from __future__ import annotations

import socket
import struct

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_DONE, _ERROR = 3, 2
_SHOW = 1 | 4 | 8  # UDIAG_SHOW_NAME, _PEER and _ICONS
_NAME, _PEER, _ICONS = 0, 2, 3  # UNIX_DIAG_...
_ALL_STATES = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBHIIIII")  # family, protocol, padding, states, inode, show, cookie
_SOCKET = struct.Struct("=BBBBIII")  # family, type, state, padding, inode, cookie
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_PATIENCE = 1.0


class UnixSockets:
    """By inode: the other end, the listener that has yet to accept it, and the name."""

    def __init__(self) -> None:
        self.peers: dict[int, int] = {}
        self.listeners: dict[int, int] = {}
        self.names: dict[int, str] = {}


def read() -> UnixSockets:
    """Nothing where the kernel does not tell."""
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW, 0, 0)
    header = _HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0)
    found = UnixSockets()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
            netlink.settimeout(_PATIENCE)
            netlink.send(header + request)
            while _take(netlink.recv(1 << 16), found):
                pass
    except OSError:
        pass
    return found


def _take(data: bytes, found: UnixSockets) -> bool:
    """Whether more follows."""
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        if kind in (_DONE, _ERROR) or length < _HEADER.size:
            return False
        _keep(data[_HEADER.size : length], found)
        data = data[(length + 3) & ~3 :]
    return True


def _keep(message: bytes, found: UnixSockets) -> None:
    inode = _SOCKET.unpack_from(message)[4]
    rest = message[_SOCKET.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        if length < _ATTRIBUTE.size:
            return
        value = rest[_ATTRIBUTE.size : length]
        if kind == _PEER and len(value) >= 4:
            (found.peers[inode],) = struct.unpack_from("=I", value)
        elif kind == _ICONS:  # the clients in the queue of a listener
            for (client,) in struct.iter_unpack("=I", value[: len(value) // 4 * 4]):
                found.listeners[client] = inode
        elif kind == _NAME:
            found.names[inode] = value.rstrip(b"\0").replace(b"\0", b"@").decode("utf-8", "replace")
        rest = rest[(length + 3) & ~3 :]
