"""A server that says a word, and then what it heard, backwards, when the other side has said all."""

from __future__ import annotations

import socket
import threading


def serve_backwards(name: bytes = b"") -> socket.socket:
    """On any free port; close what is returned to end it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            with connected:
                heard = bytearray()
                while data := connected.recv(1 << 16):
                    heard += data
                connected.sendall(name + heard[::-1])

    threading.Thread(target=serve, daemon=True).start()
    return listening
