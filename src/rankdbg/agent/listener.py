"""One thread that listens on a Unix socket, and a short-lived thread for each connection.

A connection's thread answers its questions one after the other; a client that is
slow, mute or gone holds up nobody else, and costs nothing once it has left.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

from rankdbg import rendezvous, wire
from rankdbg.agent import card, questions, threads
from rankdbg.errors import RankdbgError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A client that says nothing for so long is gone. (Two minutes: stops hold their
# connection open, and the node sends a ping each half minute.)
IDLE_SECONDS = 120.0

# A program may close our socket at any time (daemons close all descriptors), and anybody
# may remove our files. Nothing wakes us then, so we look now and again.
CHECK_SECONDS = 5.0

# A question is an expression and a few words; a rank has no memory for more.
LONGEST_QUESTION = 1 << 20


class Listener:
    def __init__(self, directory: str) -> None:
        rendezvous.prepare(directory)
        self._directory = directory
        self._pid = os.getpid()
        self._stem = _free_stem(directory)
        self._files = threads.new_lock()  # held by who makes or removes them
        self._card_written: dict[str, Any] = {}
        self._open: dict[Any, tuple[int, int]] = {}  # our sockets and their inodes
        self._closed = False
        try:
            self._listen()
            self.write_card()
            threads.start_over()
            threads.permit_tracing()
            threads.start(self._accept_for_ever)
        except BaseException:
            self.abandon()
            self.close()
            raise

    def _listen(self) -> None:
        path = f"{self._stem}.sock"
        _remove(path)
        listening = socket(AF_UNIX, SOCK_STREAM)
        try:
            with rendezvous.Address(path) as address:
                listening.bind(address)
            os.chmod(path, 0o600)
            listening.listen(64)
        except BaseException:
            listening.close()
            raise
        self._socket = _out_of_the_way(listening)
        # With a timeout, Python waits in poll(). An accept() that waits would keep a
        # descriptor's number from the program: Linux reserves it beforehand.
        self._socket.settimeout(CHECK_SECONDS)
        self._open[self._socket] = _inode(self._socket)

    def write_card(self) -> dict[str, Any]:
        """The card as it is now; its file is written again if it has changed."""
        with self._files:
            now = card.make()
            if now != self._card_written and not self._closed:
                path = f"{self._stem}.json"
                # Under another name first: a reader never sees half a card.
                with open(f"{path}.new", "wb", opener=_private) as file:
                    file.write(wire.encode(now))
                os.replace(f"{path}.new", path)
                self._card_written = now
            return now

    def current_card(self) -> dict[str, Any]:
        """The same; but a disk that is full, or a user who has changed, does not matter."""
        try:
            return self.write_card()
        except OSError:
            return card.make()

    def close(self) -> None:
        """At the end of the program: leave nothing behind."""
        held = self._files.acquire(timeout=1.0)
        self._closed = True
        if os.getpid() == self._pid:
            for ending in ("sock", "json", "json.new"):
                _remove(f"{self._stem}.{ending}")
        if held:
            self._files.release()

    def abandon(self) -> None:
        """In a forked child: the parent's sockets are not ours. (The files stay: they are
        the parent's too.) An open copy would keep them alive after the parent's death."""
        for ours in list(self._open):
            self._close(ours)

    def _close(self, ours: Any) -> None:
        # A program that daemonises closes all descriptors, and ours with them; the
        # number may by now be that of a file of its own.
        if self._is_still(ours):
            ours.close()
        else:
            ours.detach()
        self._open.pop(ours, None)

    def _is_still(self, ours: Any) -> bool:
        return _inode(ours) == self._open.get(ours)

    def _accept_for_ever(self) -> None:
        while True:
            try:
                self._look_after_files()
                descriptor, _ = self._socket._accept()
                self._begin(_out_of_the_way(socket(fileno=descriptor)))
            except TimeoutError:
                pass
            except Exception:  # no descriptor, memory or directory left, or closed just now
                threads.pause(0.2)

    def _look_after_files(self) -> None:
        """Listen anew, if the socket is ours no more (never accept on one of the program's
        that has got our number), or if somebody has removed the files: cleaners of /tmp
        take what is ten days old."""
        ours = self._is_still(self._socket)
        if ours and self._has_files():
            return
        before = self._socket
        try:
            with self._files:
                if self._closed:
                    raise OSError("the program ends")
                rendezvous.prepare(self._directory)
                self._listen()
                self._card_written = {}
            self.write_card()
        except (OSError, rendezvous.Refused):
            if not ours:
                raise
        if self._socket is not before:
            self._close(before)

    def _has_files(self) -> bool:
        return all(os.path.exists(f"{self._stem}.{ending}") for ending in ("sock", "json"))

    def _begin(self, connection: Any) -> None:
        self._open[connection] = _inode(connection)
        try:
            threads.start(self._converse, connection)
        except RuntimeError:  # no thread can be started: at exit, or a limit
            self._close(connection)

    def _converse(self, connection: Any) -> None:
        try:
            connection.settimeout(IDLE_SECONDS)
            if _admitted(connection):
                self._answer_all(connection)
        except (OSError, RankdbgError):  # the client has left, or sent what is no message
            pass
        finally:
            self._close(connection)

    def _answer_all(self, connection: Any) -> None:
        _send(connection, wire.hello())
        lines = wire.Lines(LONGEST_QUESTION)
        greeted = False
        while data := connection.recv(65536):
            for line in lines.feed(data):
                with threads.AtWork():
                    message = wire.decode(line)
                    if not greeted:
                        wire.check_hello(message, "the client")
                        greeted = True
                        continue
                    if message.get("ask") != "dap":
                        _send(connection, questions.answer(message, self))
                        continue
                # From here on the connection is the debugger's.
                from rankdbg.agent import dap

                dap.converse(connection, message, _send)
                return


def _send(connection: Any, message: dict[str, Any]) -> None:
    data = wire.encode(message)
    if len(data) > wire.LIMIT:
        what = f"the answer has {len(data)} bytes, more than can be sent"
        data = wire.encode({"id": message.get("id"), "error": {"what": what}})
    connection.sendall(data)


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
    limit = os.sysconf("SC_OPEN_MAX")
    highest = (min(limit, 1024) if limit > 0 else 1024) - 1
    for number in range(highest, max(2, highest - 100), -1):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(original.fileno(), number, inheritable=False)
            moved = socket(fileno=number)
            original.close()
            return moved
    return original


def _inode(descriptor: Any) -> tuple[int, int]:
    try:
        status = os.fstat(descriptor.fileno())
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
