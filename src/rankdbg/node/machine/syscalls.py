"""The system call in which a thread waits, from /proc/PID/syscall, what it waits for, and when
its own timer ends the wait.

Does not stop the process; empty if it may not be traced.
"""

from __future__ import annotations

import os
import struct
import time
from functools import cache
from typing import NamedTuple

from rankdbg.node.machine import descriptors, tcp

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
_ON_A_PATH = ("open", "openat", "newfstatat", "statx", "unlinkat", "renameat")
_ATTEMPTS = 3  # at a thread that moves on while it is read
_MOST_POLLED = 8
_LONGEST_PATH = 256


@cache
def _names() -> dict[int, str]:
    machine = os.uname().machine
    column = {"x86_64": 0, "aarch64": 1}.get(machine)
    if column is None:
        return {}
    return {numbers[column]: name for name, numbers in _NUMBERS.items() if numbers[column] >= 0}


class SyscallWait(NamedTuple):
    """Empty for a thread that runs or may not be traced."""

    call: str = ""
    on: str = ""  # its file or process
    timer: float | None = None  # seconds until it ends by itself; 0: never; None: not known


def waits_in(pid: int) -> SyscallWait:
    """The system call of the main thread of a process."""
    call = _current_call(pid)
    for _ in range(_ATTEMPTS):
        if not (call.name and call.arguments):
            return SyscallWait(call.name)
        on = _waits_on(pid, _target_of_call(pid, *call)) or _shared_memory(pid, *call)
        timer = _timer(pid, *call)
        # A thread that has moved on has put something else where the time was.
        before, call = call, _current_call(pid)
        if call == before:
            return SyscallWait(call.name, on, timer)
    return SyscallWait(before.name, on)


ANY_CHILD = -1


class CallTarget(NamedTuple):
    """What the call of a thread names."""

    call: str = ""
    descriptors: tuple[int, ...] = ()
    child: int = 0  # or ANY_CHILD
    path: str = ""


def call_target(pid: int, thread: int = 0) -> CallTarget:
    """By a thread of a process, or its main one; nothing if it runs, or polls very many files."""
    call = _current_call(pid, thread)
    return _target_of_call(pid, *call) if call.arguments else CallTarget(call.name)


def thread_waits_on(pid: int, thread: int) -> tuple[str, str]:
    """The system call of a thread, and its file or process."""
    target = call_target(pid, thread)
    return target.call, _waits_on(pid, target)


def _target_of_call(pid: int, name: str, arguments: list[int]) -> CallTarget:
    if name in _ON_A_FILE:
        return CallTarget(name, (arguments[0],))
    if name in _ON_A_PATH:
        return CallTarget(name, path=_text(pid, arguments[0 if name == "open" else 1]))
    if name in ("wait4", "waitid"):
        child = arguments[0] if name == "wait4" else arguments[1]
        return CallTarget(name, child=child if 0 < child < 1 << 31 else ANY_CHILD)
    numbers = _several(pid, name, arguments)
    return CallTarget(name, numbers if len(numbers) <= _MOST_POLLED else ())


def _several(pid: int, name: str, arguments: list[int]) -> tuple[int, ...]:
    """The files of a call that waits for any of several."""
    if name in ("poll", "ppoll") and 0 < arguments[1] <= _MOST_POLLED:
        return tuple(_polled(pid, arguments[0], arguments[1]))
    if name in ("select", "pselect6"):
        return tuple(_selected(pid, arguments[0], arguments[1:3]))
    if name.startswith("epoll"):
        return tuple(_watched(pid, arguments[0]))
    return ()


class _Call(NamedTuple):
    name: str
    arguments: list[int]  # six; empty for a thread that runs


def _current_call(pid: int, thread: int = 0) -> _Call:
    """Of a thread of a process, or its main one."""
    try:
        with open(f"/proc/{pid}/task/{thread or pid}/syscall", "rb", buffering=0) as file:
            words = file.read().split()
        arguments = [int(word, 16) for word in words[1:7]]
        return _Call(_names().get(int(words[0]), ""), arguments if len(arguments) == 6 else [])
    except (OSError, ValueError, IndexError):  # it runs, or may not be traced
        return _Call("", [])


def _waits_on(pid: int, awaited: CallTarget) -> str:
    if awaited.child > 0:
        return f"process {awaited.child}"
    files = [describe_file(pid, descriptor) for descriptor in awaited.descriptors]
    return awaited.path or ", ".join(dict.fromkeys(file for file in files if file))


def _shared_memory(pid: int, name: str, arguments: list[int]) -> str:
    """Where a lock or semaphore is that processes share, as multiprocessing's are."""
    if name != "futex" or arguments[1] & _PRIVATE:
        return ""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                span, access, _ = line.split(b" ", 2)
                first, _, end = span.partition(b"-")
                if int(first, 16) <= arguments[0] < int(end, 16):
                    return "shared memory" if access.endswith(b"s") else ""
    except (OSError, ValueError):
        pass
    return ""


class FutexWait(NamedTuple):
    """A thread that waits until the number at an address is another one."""

    address: int
    operation: int  # of linux/futex.h, without its flags
    expected: int
    timed: bool


def futex_wait(pid: int, thread: int = 0) -> FutexWait | None:
    """Of a thread of a process, or its main one; None if it waits for something else."""
    name, arguments = _current_call(pid, thread)
    if name != "futex" or not arguments:
        return None
    address, operation, expected, until = arguments[:4]
    return FutexWait(address, operation & _OPERATION, expected & 0xFFFFFFFF, bool(until))


# --- timers -----------------------------------------------------------------------------------

# The argument that points to the time after which the call returns, or that is it, in ms.
_TIMES = {
    "futex": 3, "ppoll": 2, "select": 4, "pselect6": 4, "epoll_pwait2": 3, "nanosleep": 0,
    "clock_nanosleep": 2, "rt_sigtimedwait": 2, "semtimedop": 3,
}  # fmt: skip
_MILLISECONDS = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}
# Operations of futex (linux/futex.h) whose time is a point in time, and not a duration.
_OPERATION, _PRIVATE, _BY_WALL_CLOCK = 0x7F, 0x80, 0x100
_UNTIL = {6: time.CLOCK_REALTIME, 9: time.CLOCK_MONOTONIC, 11: time.CLOCK_MONOTONIC, 13: time.CLOCK_MONOTONIC}  # fmt: skip
_TIMER_ABSTIME = 1
_CLOCKS = (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)
_SHORTEST = 1e-3  # of a timer that ends just now


def timer_of(pid: int, thread: int) -> float | None:
    """Of the call of a thread; None if it is in none, or its time cannot be read."""
    call = _current_call(pid, thread)
    return _timer(pid, *call) if call.name and call.arguments else None


def _timer(pid: int, name: str, arguments: list[int]) -> float | None:
    """Seconds after which the call returns though nothing has happened; 0: it does not."""
    if name in _MILLISECONDS:
        after = arguments[_MILLISECONDS[name]] & 0xFFFFFFFF
        return after / 1e3 if after < 1 << 31 else 0.0
    if name not in _TIMES or not arguments[_TIMES[name]]:
        return 0.0
    raw = read_memory(pid, arguments[_TIMES[name]], 16)
    if len(raw) < 16:
        return None
    seconds, fraction = struct.unpack("qq", raw)
    moment = float(seconds + fraction / (1e6 if name == "select" else 1e9))
    clock = _clock(name, arguments)
    return max(_SHORTEST, moment if clock is None else moment - time.clock_gettime(clock))


def _clock(name: str, arguments: list[int]) -> int | None:
    """The clock of a point in time; None for a duration."""
    if name == "clock_nanosleep":
        absolute = arguments[1] & _TIMER_ABSTIME and arguments[0] in _CLOCKS
        return arguments[0] if absolute else None
    if name != "futex":
        return None
    by_wall_clock = arguments[1] & _BY_WALL_CLOCK
    clock = _UNTIL.get(arguments[1] & _OPERATION)
    return time.CLOCK_REALTIME if clock is not None and by_wall_clock else clock


def _polled(pid: int, address: int, count: int) -> list[int]:
    raw = read_memory(pid, address, 8 * count)
    raw = raw[: len(raw) // 8 * 8]
    return [fd for fd, _, _ in struct.iter_unpack("ihh", raw) if fd >= 0]


def _selected(pid: int, count: int, addresses: list[int]) -> list[int]:
    """From the sets of files to read and to write: a bit for each."""
    found = set()
    for address in addresses:
        raw = read_memory(pid, address, (min(count, 1024) + 63) // 64 * 8) if address else b""
        bits = int.from_bytes(raw, "little")
        found |= {fd for fd in range(min(count, 1024)) if bits >> fd & 1}
    return sorted(found)


def _watched(pid: int, descriptor: int) -> list[int]:
    """What an epoll watches."""
    return [int(value) for name, value in descriptors.info(pid, descriptor) if name == "tfd"]


def _text(pid: int, address: int) -> str:
    """A path; memory after its end may not be readable."""
    raw = read_memory(pid, address, _LONGEST_PATH) or read_memory(pid, address, -address % 4096)
    return raw.partition(b"\0")[0].decode("utf-8", "replace")


def read_memory(pid: int, address: int, size: int) -> bytes:
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except (OSError, ValueError, OverflowError):
        return b""


def describe_file(pid: int, descriptor: int) -> str:
    """A path, `pipe`, or a socket with its address."""
    target = descriptors.target(pid, descriptor)
    kind, _, rest = target.partition(":")
    if kind == "socket":
        return _socket(pid, rest.strip("[]"))
    if kind == "pipe":
        return "stdin, a pipe" if descriptor == 0 else "pipe"
    if target.startswith(("/dev/pts/", "/dev/tty")):
        return f"terminal {target}"
    return target


def _socket(pid: int, inode: str) -> str:
    for connection in tcp.connections(pid):
        if connection.inode == inode:
            return connection.description
    return _datagrams(pid, inode) or "socket"


def _datagrams(pid: int, inode: str) -> str:
    """Of UDP, which has no other end: the port at which it receives; empty for other sockets."""
    for table in ("udp", "udp6"):
        for row in tcp.network_table(pid, table):
            if len(row) > 9 and row[9] == inode:
                return f"socket of UDP at port {int(row[1].rpartition(':')[2], 16)}"
    return ""
