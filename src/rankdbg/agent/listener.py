"""One thread that listens on a Unix socket, and a short-lived thread for each connection.

The thread of a connection answers its questions one after the other. A client that is slow or
gone does not delay the others, and costs nothing after it has disconnected.
"""

from __future__ import annotations

import os
from _socket import (
    AF_UNIX,
    MSG_DONTWAIT,
    MSG_PEEK,
    SO_PEERCRED,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
)

from rankdbg import wire
from rankdbg.agent import active, announcing, card, questions, threads
from rankdbg.errors import RankdbgError
from rankdbg.process import ended_cards, rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A client that sends nothing for this long is gone: a node asks as soon as it has connected.
IDLE_SECONDS = 120.0

# A program may close our socket at any time (daemons close all descriptors), and other
# programs may remove our files. No event reports that, so check at this interval.
CHECK_SECONDS = 5.0

# In bytes. A question is an expression and a few words: more is refused, to spare memory.
LONGEST_QUESTION = 1 << 20


class Listener:
    def __init__(self, directory: str) -> None:
        rendezvous.prepare(directory)
        self._directory = directory
        self._pid = os.getpid()
        self._stem = _free_stem(directory)
        self._files = threads.new_lock()  # held while they are written or removed
        self._card_written: dict[str, Any] = {}
        self._socket: Any = None
        self._open: dict[Any, tuple[int, int]] = {}  # our sockets and their inodes
        self._closed = False
        try:
            self._listen()
            self.write_card()
            threads.start_over()
            threads.permit_tracing()
            threads.start(self._accept_connections)
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
        """The present card; writes its file if the card has changed."""
        with self._files:
            now = card.make()
            if now != self._card_written and not self._closed:
                path = f"{self._stem}.json"
                # Under another name first: a reader never sees half a card.
                with open(f"{path}.new", "wb", opener=_private) as file:
                    file.write(wire.encode(now))
                os.replace(f"{path}.new", path)
                self._card_written = now
                for tell in active.card_readers:
                    tell()
            return now

    def current_card(self) -> dict[str, Any]:
        """The same, also where the file cannot be written: a full disk, a change of user."""
        try:
            return self.write_card()
        except OSError:
            return card.make()

    def close(self) -> None:
        """When the program exits: remove the files. The card is kept elsewhere if it names logs."""
        held = self._files.acquire(timeout=1.0)
        self._closed = True
        if os.getpid() == self._pid:
            if self._card_written.get("outputs"):
                ended_cards.keep(f"{self._stem}.json", self._card_written["start"])
            for ending in ("sock", "json", "json.new"):
                _remove(f"{self._stem}.{ending}")
            if self._socket in self._open and self._is_still(self._socket):
                # Keep it open until the process has exited: a node recognises an exiting process
                # by an open socket without a file.
                os.dup(self._socket.fileno())
        if held:
            self._files.release()

    def abandon(self) -> None:
        """In a forked child: close the parent's sockets. An open copy would keep them alive after
        the parent has exited. (The files stay: they are the parent's.)"""
        for ours in list(self._open):
            self._close(ours)

    def _close(self, ours: Any) -> None:
        # A program that daemonises closes all descriptors, ours too. The number may by now
        # belong to a file of the program.
        if self._is_still(ours):
            ours.close()
        else:
            ours.detach()
        self._open.pop(ours, None)

    def _is_still(self, ours: Any) -> bool:
        return _inode(ours) == self._open.get(ours)

    def _accept_connections(self) -> None:
        while True:
            try:
                self._look_after_files()
                self._wait_for_a_client()
                if not self._is_still(self._socket):
                    continue
                descriptor, _ = self._socket._accept()
                self._begin(_out_of_the_way(socket(fileno=descriptor)))
            except TimeoutError:
                pass
            except Exception:  # no descriptor, memory or directory left, or closed just now
                threads.pause(0.2)

    def _wait_for_a_client(self) -> None:
        """Not in accept(): the program may close our socket and give its number to a socket of its
        own while we wait, and accept() would then take a connection of the program. To peek takes
        nothing from any socket, and fails on one that listens, as soon as a client is there.
        (gevent replaces what the select module has.)"""
        try:
            self._socket.recv(1, MSG_PEEK | MSG_DONTWAIT)
        except TimeoutError:
            raise
        except OSError:
            pass

    def _look_after_files(self) -> None:
        """Listen again, if the program has closed our socket (never accept on a socket of the
        program that got our number), or if the files were removed: cleaners of /tmp remove files
        that are ten days old."""
        ours = self._is_still(self._socket)
        if ours and self._has_files():
            return
        before = self._socket
        try:
            with self._files:
                if self._closed:
                    raise OSError("the program exits")
                rendezvous.prepare(self._directory)
                self._listen()
                self._card_written = {}
            self.write_card()
        except (OSError, rendezvous.DirectoryRefused):
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
        except (OSError, RankdbgError):  # the client has disconnected, or sent no valid message
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
                    if message.get("ask") not in ("dap", "watch"):
                        _send(connection, questions.answer(message, self.current_card))
                        continue
                if message["ask"] == "watch":
                    self._announce_to(connection)
                    return
                # From here on the connection belongs to the debugger.
                from rankdbg.agent.editor import debug_adapter

                debug_adapter.converse(connection, message, _send)
                return

    def _announce_to(self, connection: Any) -> None:
        announcing.watch(
            connection,
            lambda: self._is_still(connection),
            lambda: questions.announcement(self.current_card),
        )


def _send(connection: Any, message: dict[str, Any]) -> None:
    data = wire.encode(message)
    if len(data) > wire.LIMIT:
        what = f"the answer is too large: {len(data)} bytes, the limit is {wire.LIMIT}"
        data = wire.encode({"id": message.get("id"), "error": {"what": what}})
    connection.sendall(data)


def _admitted(connection: Any) -> bool:
    """Only the same user, and root, which can do anything to this process anyway."""
    credentials = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)  # pid, uid, gid
    uid = int.from_bytes(credentials[4:8], "little" if _LITTLE else "big")
    return uid in (0, os.geteuid())


_LITTLE = int.from_bytes(b"\1\0", "little") == memoryview(b"\1\0").cast("H")[0]


def _free_stem(directory: str) -> str:
    """The path of our files without their ending: the pid, unless another process has that pid."""
    ours = rendezvous.pid_namespace()
    stem, other = (os.path.join(directory, s) for s in rendezvous.file_stems(os.getpid(), ours))
    try:
        with open(f"{stem}.json", "rb", opener=_plain) as file:
            theirs = wire.decode(file.read(wire.LIMIT)).get("pid_namespace")
    except (OSError, RankdbgError):
        return stem
    return stem if theirs == ours else other


def _out_of_the_way(original: Any) -> Any:
    """The same socket under a high descriptor number, so that the program's own files get the
    same numbers as without the agent."""
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


def _plain(path: str, flags: int) -> int:
    """Without waiting, also where the name is that of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
