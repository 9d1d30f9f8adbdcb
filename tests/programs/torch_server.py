"""The two ends of a socket at which a process that has loaded torch waits. Each client,

    python -S torch_server.py SOCKET ARGUMENT...

gets a fork of it, which has the client's environment, folder and files, and ends with the client.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading


class Client:
    """The end of the fork: what its client has asked for, and the wire on which it waits."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        _, self._files, _, _ = socket.recv_fds(wire, 1, 3)
        with wire.makefile("rb") as stream:
            asked = json.loads(stream.readline())
        self.words: list[str] = asked["words"]
        self._folder, self._environment = asked["folder"], asked["environment"]

    def become(self) -> None:
        """What the client would be, had it loaded torch itself; with an agent if that has one."""
        os.setsid()
        for number, file in enumerate(self._files):
            os.dup2(file, number)
            os.close(file)
        sys.stdout.reconfigure(line_buffering=True)  # torchrun's ranks have no buffer either
        os.chdir(self._folder)
        os.environ.clear()
        os.environ.update(self._environment)
        if os.environ.get("RANKDBG", "0") != "0":
            import rankdbg.agent.autostart  # noqa: F401

    def end_together(self) -> None:
        """From now on, when the client is killed, so is this process with its group."""
        threading.Thread(target=self._end_with_client, daemon=True).start()

    def _end_with_client(self) -> None:
        if not self._wire.recv(1):
            os.killpg(0, signal.SIGKILL)

    def answer(self, status: int) -> None:
        self._wire.sendall(b"%d\n" % status)

    def leave(self) -> None:
        self._wire.close()


def serve(place: str) -> Client:
    """Returns in the fork of each client. The server ends with its own input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("serves", flush=True)
        while select.select([listener, 0], [], [])[0] == [listener]:
            wire = listener.accept()[0]
            if not os.fork():
                break
            wire.close()
        else:
            os.unlink(place)
            os.rmdir(os.path.dirname(place))
            sys.exit()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    client = Client(wire)
    client.become()
    return client


def ask(place: str, words: list[str]) -> int:
    """The status with which the fork has ended."""
    asked = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(place)
        socket.send_fds(wire, [b"\n"], [0, 1, 2])
        wire.sendall(json.dumps(asked).encode() + b"\n")
        return int(wire.recv(8) or 1)


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2:]))
