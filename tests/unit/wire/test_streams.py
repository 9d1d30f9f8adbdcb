"""Bytes over a channel of messages: in order, bounded, and with an end."""

from __future__ import annotations

import os
import queue
import socket
import threading
from typing import Any

import pytest

from rankdbg.wire.streams import PORTION, WINDOW, Stream, pump
from waiting import PATIENCE, wait_for

Message = dict[str, Any]


class Line:
    """Two ends of a stream, and what is on its way between them."""

    def __init__(self) -> None:
        self.inboxes: list[queue.SimpleQueue[Message]] = [queue.SimpleQueue(), queue.SimpleQueue()]
        self.said: list[Message] = []
        self.over: list[int] = []
        self.ends = [
            Stream(self.inboxes[end], self._teller(1 - end), lambda end=end: self.over.append(end))
            for end in (0, 1)
        ]

    def _teller(self, other: int) -> Any:
        def say(message: Message) -> None:
            self.said.append(message)
            self.inboxes[other].put(message)

        return say


def in_thread(work: Any, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def receive_all(stream: Stream) -> None:
    while not stream.ended:
        stream.receive()


def test_bytes_arrive_in_order() -> None:
    """However many; then the end, after which nothing can be sent."""
    line = Line()
    here, there = line.ends
    data = os.urandom(3 * WINDOW)
    in_thread(lambda: (here.send(data), here.finish()))
    in_thread(receive_all, here)
    heard = bytearray()
    while portion := there.receive():
        assert len(portion) <= PORTION
        heard += portion
    assert bytes(heard) == data
    there.finish()
    wait_for(lambda: here.ended and there.ended, "both ends know")
    assert not here.send(b"more")


def test_who_does_not_read_is_sent_no_more_than_a_window() -> None:
    """The sender waits, and is woken by the end."""
    line = Line()
    here, _ = line.ends
    sending = in_thread(here.send, bytes(5 * WINDOW))
    wait_for(lambda: len(line.said) == WINDOW // PORTION, lambda: len(line.said))
    sending.join(0.2)
    assert sending.is_alive() and len(line.said) == WINDOW // PORTION
    here.close("enough")
    sending.join(PATIENCE)
    assert not sending.is_alive()
    assert line.over == [0]


def test_end_tells_why() -> None:
    """Of the other side's last word, whichever it is."""
    for word, why in (
        ({"answer": {"why": "gone"}}, "gone"),
        ({"error": {"what": "broken"}}, "broken"),
        ({"end": True}, ""),
        ({"data": 5}, "the data is not base64"),
        ({}, ""),
    ):
        line = Line()
        line.inboxes[0].put(word)
        assert line.ends[0].receive() == b""
        assert line.ends[0].ended and line.ends[0].why == why


def test_pumps_carry_half_closed_connections() -> None:
    """Who has said all can still be answered."""
    line = Line()
    (left, a), (b, right) = socket.socketpair(), socket.socketpair()
    pumps = [in_thread(pump, a, line.ends[0]), in_thread(pump, b, line.ends[1])]
    left.sendall(b"question")
    left.shutdown(socket.SHUT_WR)
    right.settimeout(PATIENCE)
    assert right.recv(100) == b"question" and right.recv(100) == b""
    right.sendall(b"answer")
    right.close()
    left.settimeout(PATIENCE)
    assert left.recv(100) == b"answer" and left.recv(100) == b""
    for each in pumps:
        each.join(PATIENCE)
        assert not each.is_alive()


def test_pump_ends_when_the_channel_breaks() -> None:
    """The connection is closed then."""
    line = Line()
    left, a = socket.socketpair()
    pumping = in_thread(pump, a, line.ends[0])
    line.inboxes[0].put({})
    left.settimeout(PATIENCE)
    assert left.recv(100) == b""
    pumping.join(PATIENCE)
    assert not pumping.is_alive()


@pytest.mark.parametrize("took", ["x", None, [1], {}, float("inf"), True])
def test_what_was_taken_is_a_number(took: Any) -> None:
    """Anything else ends the stream, with the reason."""
    line = Line()
    line.inboxes[0].put({"took": took})
    line.inboxes[0].put({"end": True})
    assert line.ends[0].receive() == b""
    assert line.ends[0].why == "what was taken is not a number of bytes"
    line.inboxes[1].put({"took": 0})
    line.inboxes[1].put({"data": "aGk="})
    assert line.ends[1].receive() == b"hi"
