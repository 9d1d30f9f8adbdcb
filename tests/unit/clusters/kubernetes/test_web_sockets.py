"""Frames of web sockets, and a program in a pod behind them."""

from __future__ import annotations

import json
import queue
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rankdbg.clusters.kubernetes.pod_streams import PodStream
from rankdbg.clusters.kubernetes.web_sockets import WebSocketFrames, frame
from rankdbg.clusters.transport.launched import Launched
from waiting import PATIENCE

SIZES = (0, 1, 125, 126, 65535, 65536, 200_000)


def from_server(payload: bytes, kind: int = 2) -> bytes:
    """A frame as servers send them: without a mask."""
    size = len(payload)
    if size < 126:
        return bytes([0x80 | kind, size]) + payload
    form, mark = (">H", 126) if size < 1 << 16 else (">Q", 127)
    return bytes([0x80 | kind, mark]) + struct.pack(form, size) + payload


@pytest.mark.parametrize("portion", [1, 7, 1 << 20])
def test_frames_come_in_any_portions(portion: int) -> None:
    """Each is whole, with its kind, wherever the cuts are."""
    sizes = SIZES if portion > 1 else SIZES[:5]
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    data = b"".join(map(from_server, payloads)) + from_server(b"!", 9)
    frames = WebSocketFrames()
    found = [
        each
        for start in range(0, len(data), portion)
        for each in frames.feed(data[start : start + portion])
    ]
    assert found == [*((2, payload) for payload in payloads), (9, b"!")]


@pytest.mark.parametrize("size", SIZES)
def test_what_we_send_is_masked(size: int) -> None:
    """A server refuses a client's frame without a mask; ours changes nothing."""
    sent = frame(b"x" * size)
    assert sent[1] & 0x80
    head = 2 if size < 126 else 4 if size < 1 << 16 else 10
    assert sent[head : head + 4] == bytes(4)
    assert sent[head + 4 :] == b"x" * size


class Peer:
    """What stands at the other end of a PodStream, and what the stream has told."""

    def __init__(self, otherwise: Any = None) -> None:
        ours, self.server = socket.socketpair()
        self.heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.complaints: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.stream = PodStream(ours, b"GET /\r\n\r\n", otherwise or pytest.fail)
        self.stream.listen(self.heard.put, self.complaints.put)
        assert self.receive(9) == b"GET /\r\n\r\n"

    def receive(self, size: int) -> bytes:
        self.server.settimeout(PATIENCE)
        data = b""
        while len(data) < size:
            data += self.server.recv(size - len(data))
        return data

    def status(self) -> int | None:
        told: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.stream.reap(5.0, told.put)
        return told.get(timeout=PATIENCE)

    def said(self) -> str:
        """All complaints, once they have ended."""
        return b"".join(iter(lambda: self.complaints.get(timeout=PATIENCE), b"")).decode()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.server.close()


def test_a_program_behind_a_web_socket(peer: Peer) -> None:
    """What was sent before the answer waits for it; streams are told apart; empty frames, with
    which Kubernetes begins, are no end; a ping is answered; the status is the program's."""
    peer.stream.send(b"early ")
    peer.server.sendall(b"HTTP/1.1 101 Switching Protocols\r\nA: b\r\n\r\n" + from_server(b"\1"))
    assert peer.receive(6 + 7) == frame(b"\0early ")
    peer.stream.send(b"late")
    assert peer.receive(6 + 5) == frame(b"\0late")
    peer.server.sendall(from_server(b"\2oh\n") + from_server(b"\1out") + from_server(b"hi", 9))
    assert peer.heard.get(timeout=PATIENCE) == b"out"
    assert peer.receive(6 + 2) == frame(b"hi", 10)
    end = {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "137"}]}}
    peer.server.sendall(from_server(b"\3" + json.dumps(end).encode()) + from_server(b"", 8))
    peer.server.close()
    assert peer.heard.get(timeout=PATIENCE) == b""
    assert (peer.status(), peer.said()) == (137, "oh\ncommand terminated with exit code 137\n")


def test_a_connection_that_is_cut(peer: Peer) -> None:
    """Ends as kubectl exec does then: with status 0 and without a word."""
    peer.server.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    peer.server.close()
    assert peer.heard.get(timeout=PATIENCE) == b""
    assert (peer.status(), peer.said()) == (0, "")


def test_hanging_up_closes_the_connection(peer: Peer) -> None:
    """After all that was sent."""
    peer.stream.send(b"early")
    peer.server.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    assert peer.receive(6 + 6) == frame(b"\0early")
    peer.stream.send(b"x" * 300_000)
    peer.stream.hang_up()
    size = 0
    while data := peer.server.recv(1 << 20):
        size += len(data)
    assert size == 300_000 + 2 * (1 + 4) + 10 + 4  # two frames, a byte for the channel in each


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", b"", b"HTTP/1.1 10"]
)
def test_a_web_socket_that_is_refused(answer: bytes) -> None:
    """Another program carries it, and gets what was sent before and after that."""
    started = threading.Event()

    def otherwise() -> Launched:
        started.set()
        return Launched(["cat"])

    peer = Peer(otherwise)
    peer.stream.send(b"before ")
    peer.server.sendall(answer)
    peer.server.shutdown(socket.SHUT_WR)
    assert started.wait(PATIENCE)
    peer.stream.send(b"after")
    heard = b""
    while len(heard) < len(b"before after"):
        heard += peer.heard.get(timeout=PATIENCE)
    assert heard == b"before after"
    peer.stream.hang_up()
    assert peer.heard.get(timeout=PATIENCE) == b""
    assert peer.status() == 0
    peer.server.close()
