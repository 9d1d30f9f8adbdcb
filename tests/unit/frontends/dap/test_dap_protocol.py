"""DAP's messages, in any portions; what is none is refused."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdbg.frontends.dap.protocol import Connection, Garbage, MessageFrames, encode

messages = st.builds(
    lambda seq, command, arguments: {
        "seq": seq,
        "type": "request",
        "command": command,
        "arguments": arguments,
    },
    st.integers(0, 1000),
    st.text(),
    st.dictionaries(st.text(), st.text() | st.integers()),
)


@given(st.lists(messages, max_size=4), st.integers(1, 50))
def test_portions_do_not_matter(sent: list[dict[str, Any]], portion: int) -> None:
    """Each message comes out once, in order, with the bytes of its body."""
    data = b"".join(map(encode, sent))
    frames = MessageFrames()
    came = [
        pair
        for start in range(0, len(data), portion)
        for pair in frames.feed(data[start : start + portion])
    ]
    assert [message for message, _ in came] == sent
    assert [json.loads(body) for _, body in came] == sent


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1e3\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Length: 99999999\r\n\r\n",
        b"Content-Length: 2\r\n\r\n{}",
        b"Content-Length: " + b"0" * 5000,
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_headers_that_cannot_be(data: bytes) -> None:
    """A length that is none, or is there twice; one that is too long; a body that says nothing;
    what a browser may send."""
    with pytest.raises(Garbage):
        list(MessageFrames().feed(data))


def test_what_an_editor_shows_is_spelled_out() -> None:
    """Editors render codes of terminals in their consoles: rankdbg's own texts have none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        editors = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ours, editors:
        connection = Connection(ours)
        connection.print("rank 1: \x1b]8;;http://evil\x07 損失\u202e")
        connection.refuse({"seq": 1, "command": "evaluate"}, "ValueError: \x9b2J")
        frames = MessageFrames()
        came: list[dict[str, Any]] = []
        while len(came) < 2:
            came += [message for message, _ in frames.feed(editors.recv(65536))]
    assert came[0]["body"]["output"] == "rank 1: \\x1b]8;;http://evil\\x07 損失\\u202e\n"
    assert came[1]["message"] == "ValueError: \\x9b2J"
