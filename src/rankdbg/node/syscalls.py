"""The system call in which a thread waits, by /proc/PID/syscall, and on what it waits there.

Read without stopping anybody; who may not trace a process gets nothing.
"""

from __future__ import annotations

import os
import struct
from functools import cache

# name: its numbers on x86-64 and on aarch64 (-1: not there)
_NUMBERS = {
    "read": (0, 63),
    "readv": (19, 65),
    "pread64": (17, 67),
    "write": (1, 64),
    "writev": (20, 66),
    "pwrite64": (18, 68),
    "open": (2, -1),
    "openat": (257, 56),
    "close": (3, 57),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "getdents64": (217, 61),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "unlinkat": (263, 35),
    "renameat": (264, 38),
    "ioctl": (16, 29),
    "flock": (73, 32),
    "fcntl": (72, 25),
    "poll": (7, -1),
    "ppoll": (271, 73),
    "select": (23, -1),
    "pselect6": (270, 72),
    "epoll_wait": (232, -1),
    "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441),
    "futex": (202, 98),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "sched_yield": (24, 124),
    "pause": (34, -1),
    "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137),
    "wait4": (61, 260),
    "waitid": (247, 95),
    "vfork": (58, -1),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgrcv": (70, 188),
    "io_uring_enter": (426, 426),
}
_ON_A_FILE = {
    "read", "readv", "pread64", "write", "writev", "pwrite64", "close", "fsync", "fdatasync",
    "getdents64", "ioctl", "flock", "fcntl", "connect", "accept", "accept4", "recvfrom", "recvmsg",
    "sendto", "sendmsg",
}  # fmt: skip
_MOST_POLLED = 8
_LONGEST_PATH = 256
_TCP_STATES = {"01": "", "02": "connecting", "03": "connecting", "08": "closed by the other side"}


@cache
def _names() -> dict[int, str]:
    machine = os.uname().machine
    column = {"x86_64": 0, "aarch64": 1}.get(machine)
    if column is None:
        return {}
    return {numbers[column]: name for name, numbers in _NUMBERS.items() if numbers[column] >= 0}


def waits_in(pid: int) -> tuple[str, str]:
    """The call in which the main thread of a process is, and the file or process it is about;
    ("", "") if it runs, or nothing may be known."""
    try:
        with open(f"/proc/{pid}/syscall", "rb", buffering=0) as file:
            words = file.read().split()
        name = _names().get(int(words[0]), "")
    except (OSError, ValueError, IndexError):
        return "", ""
    arguments = [int(word, 16) for word in words[1:4]]
    if name in _ON_A_FILE:
        return name, describe_file(pid, arguments[0])
    if name in ("open", "openat"):
        return name, _text(pid, arguments[0 if name == "open" else 1])
    if name in ("wait4", "waitid"):
        child = arguments[0] if name == "wait4" else arguments[1]
        return name, f"process {child}" if 0 < child < 1 << 31 else ""
    if name in ("poll", "ppoll") and 0 < arguments[1] <= _MOST_POLLED:
        files = [describe_file(pid, fd) for fd in _polled(pid, arguments[0], arguments[1])]
        return name, ", ".join(dict.fromkeys(file for file in files if file))
    return name, ""


def _polled(pid: int, address: int, count: int) -> list[int]:
    raw = _memory(pid, address, 8 * count)
    raw = raw[: len(raw) // 8 * 8]
    return [fd for fd, _, _ in struct.iter_unpack("ihh", raw) if fd >= 0]


def _text(pid: int, address: int) -> str:
    """A path; what lies behind its end may not be there to be read."""
    raw = _memory(pid, address, _LONGEST_PATH) or _memory(pid, address, -address % 4096)
    return raw.partition(b"\0")[0].decode("utf-8", "replace")


def _memory(pid: int, address: int, size: int) -> bytes:
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except (OSError, ValueError, OverflowError):
        return b""


def describe_file(pid: int, descriptor: int) -> str:
    """A path, `pipe`, or a socket with where it leads to."""
    try:
        target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
    kind, _, rest = target.partition(":")
    if kind == "socket":
        return _socket(pid, rest.strip("[]"))
    if kind == "pipe":
        return "stdin, a pipe" if descriptor == 0 else "pipe"
    if target.startswith(("/dev/pts/", "/dev/tty")):
        return f"terminal {target}"
    return target


def _socket(pid: int, inode: str) -> str:
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}", "rb") as file:
                rows = [line.split() for line in file.read().decode().splitlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if len(row) > 9 and row[9] == inode:
                return _connection(row[1], row[2], row[3])
    return "socket"


def _connection(local: str, remote: str, state: str) -> str:
    if state == "0A":
        return f"socket listening on port {int(local.rpartition(':')[2], 16)}"
    how = _TCP_STATES.get(state, "closing")
    return f"socket to {_address(remote)}" + (f" ({how})" if how else "")


def _address(text: str) -> str:
    """0100007F:1F90 -> 127.0.0.1:8080: words of 4 bytes in the machine's order."""
    import socket

    raw, _, port = text.partition(":")
    words = [bytes.fromhex(raw[i : i + 8])[::-1] for i in range(0, len(raw), 8)]
    packed = b"".join(words)
    if packed[:12] == b"\0" * 10 + b"\xff\xff":
        packed = packed[12:]
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    host = socket.inet_ntop(family, packed)
    return f"[{host}]:{int(port, 16)}" if ":" in host else f"{host}:{int(port, 16)}"
