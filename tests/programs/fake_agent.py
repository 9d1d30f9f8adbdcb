"""python fake_agent.py MODE: a card like an agent's, and a socket that misbehaves."""

import itertools
import os
import socket
import struct
import sys
import time

from rankdbg import wire
from rankdbg.agent import card

mode = sys.argv[1]
directory = os.environ["RANKDBG_DIR"]
os.makedirs(directory, 0o700, exist_ok=True)
stem = os.path.join(directory, str(os.getpid()))
listening = socket.socket(socket.AF_UNIX)
listening.bind(f"{stem}.sock")
listening.listen(8)
with open(f"{stem}.json", "wb") as file:
    file.write(wire.encode(card.make()))


def is_ours(connection):
    """Whether the client uses the same directory: others on this machine look into it too."""
    pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    with open(f"/proc/{pid}/environ", "rb") as file:
        return f"RANKDBG_DIR={directory}".encode() in file.read().split(b"\0")


def misbehave(connection, number):
    if mode == "hangs up at first" and number:
        connection.sendall(wire.encode(wire.hello()) + wire.encode({"id": 1, "answer": {}}))
    elif mode.startswith("hangs up"):
        return
    elif mode in ("hears and hangs up", "hears its directory"):
        lines = wire.Lines()
        messages = []
        while len(messages) < 2:
            messages += map(wire.decode, lines.feed(connection.recv(65536)))
        if mode == "hears and hangs up" or is_ours(connection):
            # In one piece, beside those of other connections, also where Python buffers nothing.
            os.write(1, f"{messages[1]['ask']}\n".encode())
        return
    elif mode == "rubbish":
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n<html>\n")
    elif mode == "half":
        connection.sendall(wire.encode(wire.hello()) + b'{"id": 1, "ans')
    elif mode == "endless":
        connection.sendall(wire.encode(wire.hello()))
        for _ in range(1024):
            connection.sendall(b"x" * (1 << 20))
    elif mode == "newer":
        hello = {"hello": "rankdbg", "protocol": [9, 0], "version": "9.0"}
        connection.sendall(wire.encode(hello))
    elif mode == "wrong":
        connection.sendall(wire.encode(wire.hello()) + wire.encode({"id": 1, "answer": [7]}))
    time.sleep(600)


def serve():
    for number in itertools.count():
        connection, _ = listening.accept()
        try:
            if os.fork() == 0:
                misbehave(connection, number)
                os._exit(0)
        except OSError:
            pass
        connection.close()


print("ready", flush=True)
serve()
