"""One thread that listens on a Unix socket, and a short-lived thread for each connection.

A connection's thread answers its questions one after the other; a client that is
slow, mute or gone holds up nobody else, and costs nothing once it has left.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

from rankdbg import rendezvous, wire
from rankdbg.agent import card, threads
from rankdbg.errors import RankdbgError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A client that says nothing for so long is gone. (Two minutes: stops hold their
# connection open, and the node sends a ping each half minute.)
IDLE_SECONDS = 120.0


class Listener:
    def __init__(self, directory: str) -> None:
        rendezvous.prepare(directory)
        self._pid = os.getpid()
        self._stem = _free_stem(directory)
        self._card_written: dict[str, Any] = {}
        self._listen()
        self.write_card()
        threads.permit_tracing()
        threads.remember_main_thread()
        threads.start(self._accept_for_ever)

    def _listen(self) -> None:
        path = f"{self._stem}.sock"
        _remove(path)
        listening = socket(AF_UNIX, SOCK_STREAM)
        with rendezvous.Address(path) as address:
            listening.bind(address)
        os.chmod(path, 0o600)
        listening.listen(64)
        self._socket = _out_of_the_way(listening)
        self._inode = _inode(self._socket.fileno())

    def write_card(self) -> dict[str, Any]:
        """The card as it is now; its file is written again if it has changed."""
        now = card.make()
        if now != self._card_written:
            path = f"{self._stem}.json"
            # Under another name first: a reader never sees half a card.
            with open(f"{path}.new", "wb", opener=_private) as file:
                file.write(wire.encode(now))
            os.replace(f"{path}.new", path)
            self._card_written = now
        return now

    def close(self) -> None:
        """At the end of the program: leave nothing behind."""
        if os.getpid() == self._pid:
            _remove(f"{self._stem}.sock")
            _remove(f"{self._stem}.json")

    def abandon(self) -> None:
        """In a forked child: the parent's socket is not ours. (The files stay: they are
        the parent's too.) An open copy would keep it listening after the parent's death."""
        if _inode(self._socket.fileno()) == self._inode:
            self._socket.close()
        else:
            self._socket.detach()

    def _accept_for_ever(self) -> None:
        while True:
            # A program that daemonises closes all descriptors, and ours with them; its
            # next socket may then get our number. Never accept on somebody else's.
            if _inode(self._socket.fileno()) != self._inode:
                self._socket.detach()
                self._listen()
            try:
                descriptor, _ = self._socket._accept()
            except OSError:
                if _inode(self._socket.fileno()) == self._inode:
                    return
                continue
            try:
                connection = socket(fileno=descriptor)
                threads.start(self._converse, connection)
            except (OSError, RuntimeError):  # no thread can be started: at exit, or a limit
                os.close(descriptor)

    def _converse(self, connection: Any) -> None:
        try:
            connection.settimeout(IDLE_SECONDS)
            if _admitted(connection):
                self._answer_all(connection)
        except (OSError, RankdbgError):  # the client has left, or sent what is no message
            pass
        finally:
            connection.close()

    def _answer_all(self, connection: Any) -> None:
        from rankdbg.agent import questions

        connection.sendall(wire.encode(wire.hello()))
        lines = wire.Lines()
        greeted = False
        while data := connection.recv(65536):
            for line in lines.feed(data):
                message = wire.decode(line)
                if not greeted:
                    wire.check_hello(message, "the client")
                    greeted = True
                else:
                    connection.sendall(wire.encode(questions.answer(message, self)))


def _admitted(connection: Any) -> bool:
    """Only the same user, and root, who can do anything to this process anyway."""
    credentials = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)  # pid, uid, gid
    uid = int.from_bytes(credentials[4:8], "little" if _LITTLE else "big")
    return uid in (0, os.geteuid())


_LITTLE = int.from_bytes(b"\1\0", "little") == memoryview(b"\1\0").cast("H")[0]


def _free_stem(directory: str) -> str:
    """The path of our files without ending: the pid, unless that is another process's.

    A directory that two PID namespaces share (containers with one /tmp) can hold a live
    process of the same number.
    """
    stem = os.path.join(directory, str(os.getpid()))
    try:
        with open(f"{stem}.json", "rb") as file:
            theirs = wire.decode(file.read(wire.LIMIT)).get("pid_namespace")
    except (OSError, RankdbgError):
        return stem
    ours = rendezvous.pid_namespace()
    return stem if theirs == ours else f"{stem}-{ours.strip('pid:[]')}"


def _out_of_the_way(original: Any) -> Any:
    """The same socket under a high number, so that the program's own files get the
    numbers that they always got."""
    highest = min(os.sysconf("SC_OPEN_MAX"), 1024) - 1
    for number in range(highest, highest - 100, -1):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(original.fileno(), number, inheritable=False)
            moved = socket(fileno=number)
            original.close()
            return moved
    return original


def _inode(descriptor: int) -> tuple[int, int]:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return (-1, -1)
    return status.st_dev, status.st_ino


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
