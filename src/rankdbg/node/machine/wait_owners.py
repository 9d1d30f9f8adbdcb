"""What processes wait for, and which processes owe it: who has the other end of a pipe or socket, who
holds a file lock, which child is to end, which thread holds a mutex.

Follows that from process to process on this machine, as far as /proc shows it. A connection to
another machine is told by its two addresses: the client finds the process that has them mirrored.
Nothing here stops a process or waits for one.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rankdbg.node.machine import descriptors, mounts, mutexes, processes, syscalls, tcp, unix_peers
from rankdbg.node.machine.mounts import Mount, Mounts
from rankdbg.process import masking

MOST_PROCESSES = 64  # of one chain and its branches
_MOST_OWNERS = 8  # of one thing
_WRITES = ("write", "writev", "sendto", "sendmsg", "pwrite64")
_LOCKS = ("flock", "fcntl")
_SLEEPS = ("nanosleep", "clock_nanosleep")


class Thing(NamedTuple):
    """What a process waits for, and the processes of this machine that owe it."""

    kind: str  # pipe, fifo, socket, connection, listener, lock, polled, child, mount
    name: str
    owners: tuple[int, ...] = ()
    local: str = ""  # addresses of a connection
    remote: str = ""  # or the server of a mount
    descriptor: int = -1  # of an open file
    beside: tuple[int, ...] = ()  # other processes that wait for the same file system
    accepted: bool = False  # a connection that the other end has opened
    unread: int = 0  # bytes sent through it that the other end, on this machine, has not read


def look(
    keys: Iterable[tuple[int, int]],
    connections: Collection[tuple[str, str]] = (),
    threads: Collection[tuple[int, int]] = (),
) -> dict[tuple[int, int], dict[str, Any]]:
    """By (pid, start): what this process waits for, and, for each that owes it, the same. With
    `connections`, only those of them that it has; with `threads` (pid and number), what those of
    its threads wait for, not its main one."""
    machine = OpenFiles()
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for pid, start in keys:
        if not processes.is_alive(pid, start):
            continue
        if connections:
            found[pid, start] = {"processes": [], "holds": [*_held(pid, connections)]}
        elif threads:
            found[pid, start] = machine.follow((p, t) for p, t in threads if p == pid)
        else:
            found[pid, start] = machine.follow([(pid, 0)])
    return found


def has_mutexes(told: Mapping[str, Any]) -> bool:
    """Whether a process or thread waits for one."""
    return any(each["mutex"] for each in (*told["processes"], *told.get("threads", ())))


def _held(pid: int, wanted: Collection[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    try:
        open_here = {target for _, target in descriptors.targets(pid)}
    except OSError:
        return
    for each in tcp.connections(pid):
        ends = tcp.address_text(each.local), tcp.address_text(each.remote)
        if ends in wanted and f"socket:[{each.inode}]" in open_here:
            yield ends


class OpenFiles:
    """All processes, at one moment. Their open files are read once, and only if needed."""

    def __init__(self) -> None:
        self._known_waits: dict[tuple[int, int], tuple[list[Thing], mutexes.Mutex | None]] = {}
        self._tcp_tables: dict[str, tcp.TcpTable] = {}  # by the networks of processes

    def follow(self, steps: Iterable[tuple[int, int]]) -> dict[str, Any]:
        """From these processes, or threads of them, on: the processes that owe something, and the
        threads that hold a mutex. Nearest first; each once."""
        ahead = [*steps]
        seen = {*ahead}
        told: dict[str, list[Any]] = {"processes": [], "threads": []}
        while ahead and len(seen) <= MOST_PROCESSES:
            pid, thread = ahead.pop(0)
            status = processes.read_stat(pid)
            if status is None:
                continue
            things, mutex = self._waits(pid, thread, status)
            about = {
                "things": [thing._asdict() for thing in things],
                "mutex": mutex._asdict() if mutex else None,
            }
            if thread:
                told["threads"].append({**_about_thread(pid, thread), **about})
            else:
                told["processes"].append({**_about(status), **about})
            new = [(owner, 0) for thing in things for owner in thing.owners]
            new += [(pid, mutex.holder)] if mutex and mutex.holder else []
            ahead += dict.fromkeys(step for step in new if step not in seen)
            seen.update(new)
        return told

    def _waits(
        self, pid: int, thread: int, status: processes.Stat
    ) -> tuple[list[Thing], mutexes.Mutex | None]:
        """What a process, or a thread of it, waits for: many may wait for the same process."""
        if (pid, thread) not in self._known_waits:
            waits = bool(thread) or status.state in "SD"
            things = [*self._things(pid, thread)] if waits else []
            mutex = mutexes.find(pid, thread) if waits else None
            self._known_waits[pid, thread] = things, mutex
        return self._known_waits[pid, thread]

    def _things(self, pid: int, thread: int = 0) -> Iterator[Thing]:
        wait = _call_target(pid, thread)
        if wait.child:
            children = [wait.child] if wait.child > 0 else self._children.get(pid, [])
            yield Thing("child", "a child", _few(children))
        if wait.call in _SLEEPS and not thread:
            yield from self._locked_files(pid)
        if (mount := self._mount(pid, wait)) is not None and mount.is_remote:
            yield self._of_mount(pid, mount)
            return  # all else would ask that file system
        above = "root" if wait.path.startswith("/") else "cwd/"
        if wait.path and descriptors.is_fifo(f"/proc/{pid}/{above}{wait.path}"):
            yield Thing("fifo", wait.path)
        for descriptor in wait.descriptors:
            for thing in self._behind(pid, descriptor, wait.call):
                yield thing._replace(descriptor=descriptor)

    def _mount(self, pid: int, wait: syscalls.CallTarget) -> Mount | None:
        if wait.path:
            return self._mounts.at(pid, wait.path)
        on_file = wait.call not in _LOCKS and len(wait.descriptors) == 1
        return self._mounts.of_descriptor(pid, wait.descriptors[0]) if on_file else None

    def _of_mount(self, pid: int, mount: Mount) -> Thing:
        beside = [other for other in self._blocked if other != pid and self._waits_on(other, mount)]
        name = f"{mount.point} ({mount.kind})"
        server = "" if mount.source in ("", "none") else mount.source
        owners = _few(each for each in mounts.servers(mount) if each != pid)
        return Thing("mount", name, owners, remote=server, beside=_few(beside))

    def _waits_on(self, pid: int, mount: Mount) -> bool:
        found = self._mount(pid, _call_target(pid))
        return found is not None and found.device == mount.device

    @cached_property
    def _mounts(self) -> Mounts:
        return Mounts()

    @cached_property
    def _blocked(self) -> list[int]:
        """Processes that the kernel holds, not interruptible."""
        stats = map(processes.read_stat, processes.all_pids())
        return [stat.pid for stat in stats if stat is not None and stat.state == "D"]

    def _behind(self, pid: int, descriptor: int, call: str) -> Iterator[Thing]:
        target = descriptors.target(pid, descriptor)
        kind, _, rest = target.partition(":")
        inode = rest.strip("[]")
        if call in _LOCKS and target:
            owners = self._lock_owners(pid, descriptor)
            if owners:
                yield Thing("lock", target, owners)
        elif target.startswith("/") and self._mounts.is_remote(pid, target):
            return
        elif kind == "pipe" or descriptors.is_fifo(descriptors.path(pid, descriptor)):
            name = "a pipe" if kind == "pipe" else target
            yield Thing("pipe", name, self._other_ends(pid, target, writes=call in _WRITES))
        elif kind == "socket":
            yield self._peer(pid, descriptor, inode)
        elif target == "anon_inode:[pidfd]":
            child = int(dict(descriptors.info(pid, descriptor)).get("Pid", 0))
            if child > 0:  # it has not ended
                yield Thing("child", f"process {child}", _few([child]))

    def _other_ends(self, pid: int, target: str, writes: bool) -> tuple[int, ...]:
        """Those who read what it writes, or write what it reads. Its own other end counts only if
        no other process has one: a parent often forgets to close what its child inherits."""
        wanted = os.O_RDONLY if writes else os.O_WRONLY
        found = [
            other
            for other, descriptor in self._open.get(target, ())
            if other != pid and _mode(other, descriptor) in (wanted, os.O_RDWR)
        ]
        return _few(found)

    def _peer(self, pid: int, descriptor: int, inode: str) -> Thing:
        table = self._tcp_table(pid)
        mine = table.by_inode.get(inode)
        if mine is None:
            return self._unix_peer(pid, int(inode or 0))
        local, remote = map(tcp.address_text, mine[:2])
        accepted = bool(table.listener(mine.local))
        name = mine.description
        end = table.other_end(mine)
        if end is not None and (holders := self._holders(pid, end.inode)):
            thing = Thing("connection", name, holders, local, remote)
            return thing._replace(accepted=accepted, unread=end.unread)
        listens = table.listener(mine.remote)
        # A connection that a process has accepted has an inode.
        if listens and (holders := self._holders(pid, listens)):
            return Thing("listener", name, holders, local, remote)
        return Thing("connection", name, (), local, remote, accepted=accepted)

    def _tcp_table(self, pid: int) -> tcp.TcpTable:
        network = tcp.network(pid)
        if network not in self._tcp_tables:
            self._tcp_tables[network] = tcp.TcpTable(pid)
        return self._tcp_tables[network]

    def _unix_peer(self, pid: int, inode: int) -> Thing:
        known = self._unix_sockets
        if listens := known.listeners.get(inode, 0):
            name = f"the Unix socket {known.names.get(listens, '')}".strip()
            return Thing("listener", name, self._holders(pid, listens))
        return Thing("socket", "a Unix socket", self._holders(pid, known.peers.get(inode, 0)))

    def _holders(self, pid: int, inode: int | str) -> tuple[int, ...]:
        """The other processes that have this socket."""
        holders = self._open.get(f"socket:[{inode}]", ())
        return _few(other for other, _ in holders if other != pid)

    def _lock_owners(self, pid: int, descriptor: int) -> tuple[int, ...]:
        target = descriptors.target(pid, descriptor)
        holders = self._holders_of_file(pid, descriptor, self._locks)
        return _few(owner for owner in _keepers(holders, target) if owner != pid)

    def _holders_of_file(
        self, pid: int, descriptor: int, locks: Mapping[str, list[int]]
    ) -> list[int]:
        mount = self._mounts.of_descriptor(pid, descriptor)
        if mount is not None and mount.is_remote:  # which is not asked
            major, _, minor = mount.device.partition(":")
            number = dict(descriptors.info(pid, descriptor)).get("ino", "")
            return locks.get(f"{int(major):02x}:{int(minor):02x}:{number}", [])
        try:
            status = os.stat(descriptors.path(pid, descriptor))
        except OSError:
            return []
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        return locks.get(device, [])

    def _locked_files(self, pid: int) -> Iterator[Thing]:
        """The open files of a process that sleeps, on which another has an exclusive lock and it has
        none: sqlite and most lock files try again after a pause."""
        try:
            opened = {target: number for number, target in descriptors.targets(pid)}
        except OSError:
            return
        for target, number in opened.items():
            if not target.startswith("/") or self._mounts.is_remote(pid, target):
                continue
            holders = self._holders_of_file(pid, int(number), self._exclusive_locks)
            holders = _keepers(holders, target)
            if holders and pid not in holders:
                yield Thing("polled", target, _few(holders))

    @cached_property
    def _children(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = {}
        for stat in map(processes.read_stat, processes.all_pids()):
            if stat is not None and stat.state not in "ZX":
                found.setdefault(stat.ppid, []).append(stat.pid)
        return found

    @cached_property
    def _open(self) -> Mapping[str, list[tuple[int, str]]]:
        """Pipe, FIFO or socket -> processes that have it open, and their descriptors."""
        found: dict[str, list[tuple[int, str]]] = {}
        for pid in processes.all_pids():
            try:
                open_here = [*descriptors.targets(pid)]
            except OSError:
                continue  # another user's
            for name, target in open_here:
                if target.startswith(("pipe:", "socket:")) or (
                    target.startswith("/")
                    and not self._mounts.is_remote(pid, target)
                    and descriptors.is_fifo(descriptors.path(pid, name))
                ):
                    found.setdefault(target, []).append((pid, name))
        return found

    @cached_property
    def _unix_sockets(self) -> unix_peers.UnixSockets:
        return unix_peers.read()

    @cached_property
    def _locks(self) -> Mapping[str, list[int]]:
        """Device and inode -> processes that hold a lock of it."""
        return self._locks_of_kind("READ", "WRITE")

    @cached_property
    def _exclusive_locks(self) -> Mapping[str, list[int]]:
        return self._locks_of_kind("WRITE")

    def _locks_of_kind(self, *kinds: str) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for row in self._lock_table:
            # 1: FLOCK ADVISORY WRITE 4711 00:2f:1234 0 EOF, and with -> before it who waits.
            if len(row) >= 6 and row[1] != "->" and row[3] in kinds and int(row[4]) > 0:
                found.setdefault(row[5], []).append(int(row[4]))
        return found

    @cached_property
    def _lock_table(self) -> list[list[str]]:
        try:
            with open("/proc/locks") as file:
                return [line.split() for line in file]
        except OSError:
            return []


def _keepers(holders: Sequence[int], target: str) -> list[int]:
    """A lock of flock() belongs to the open file. The process that took it, which the kernel
    names, may have closed that, while one that it has started keeps it open."""
    left = {pid for pid in holders if _has_lock(pid, target) is False}
    if not left:
        return [*holders]
    keepers = [pid for pid in processes.all_pids() if _has_lock(pid, target)]
    others = [pid for pid in holders if pid not in left and pid not in keepers]
    return [*keepers, *others] or [*holders]


def _has_lock(pid: int, target: str) -> bool | None:
    """Whether an open file of this process has a lock; None if that cannot be seen."""
    try:
        opened = [number for number, name in descriptors.targets(pid) if name == target]
    except OSError:
        return None
    return any("lock" in dict(descriptors.info(pid, number)) for number in opened)


def _call_target(pid: int, thread: int = 0) -> syscalls.CallTarget:
    """A process in state D may hold the lock of its memory map, in which a path is."""
    status = processes.read_stat(pid)
    if status is None or status.state != "D":
        return syscalls.call_target(pid, thread)
    found, _ = processes.read_all([pid], lambda pid: syscalls.call_target(pid, thread))
    return found.get(pid, syscalls.CallTarget())


def _about(status: processes.Stat) -> dict[str, Any]:
    command = processes.short_command(masking.mask_command(processes.command(status.pid)))
    return {
        "pid": status.pid,
        "start": status.start,
        "command": command or status.name,
        "user": _user(status.pid),
        "state": processes.explain_state(status) if status.state in "DTtZ" else "",
    }


def _about_thread(pid: int, thread: int) -> dict[str, Any]:
    """With the name that the kernel has for it, if that is its own."""
    own, of_process = (processes.read_stat(number) for number in (thread, pid))
    name = own.name if own and of_process and own.name != of_process.name else ""
    return {
        "pid": pid,
        "native": thread,
        "name": name,
        "call": _call_target(pid, thread).call,
        "timer": syscalls.timer_of(pid, thread),
        "woken": processes.times_woken(pid, thread),
        "at": time.monotonic(),
    }


def _user(pid: int) -> str:
    """Of a process of another user; empty for ours."""
    owner = processes.owner(pid)
    if owner is None or owner == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)


def _mode(pid: int, descriptor: str) -> int:
    flags = descriptors.flags(pid, descriptor)
    return -1 if flags is None else flags & os.O_ACCMODE


def _few(pids: Iterable[int]) -> tuple[int, ...]:
    """Without this node process and its client: who has started them may wait for their end."""
    ours = os.getpid(), os.getppid()
    return tuple(pid for pid in dict.fromkeys(pids) if pid not in ours)[:_MOST_OWNERS]
