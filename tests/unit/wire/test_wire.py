"""wire: messages and lines, whatever comes in."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdbg import __version__, wire
from rankdbg.errors import VersionError, WireError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
messages = st.dictionaries(st.text(), values, max_size=4)


@given(messages)
def test_round_trip(message: dict[str, Any]) -> None:
    """What is encoded is decoded to the same, and is one line of ASCII."""
    line = wire.encode(message)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert wire.decode(line) == message


@given(messages)
def test_it_is_json(message: dict[str, Any]) -> None:
    """Any other program can read and write the messages."""
    assert json.loads(wire.encode(message)) == message
    assert wire.decode(json.dumps(message).encode()) == message


def test_numbers_that_are_none() -> None:
    """nan and the infinities go through: a loss is often one of them."""
    received = wire.decode(wire.encode({"a": [math.nan, math.inf, -math.inf]}))["a"]
    assert math.isnan(received[0])
    assert received[1:] == [math.inf, -math.inf]


def test_what_is_no_value_is_sent_as_text() -> None:
    """An object that slipped into an answer is sent as its repr()."""
    assert wire.decode(wire.encode({"a": {1}})) == {"a": "{1}"}


@given(st.text(alphabet='{}[]:,"\\ue0 1.-ntf', max_size=30))
def test_decode_of_nearly_json(text: str) -> None:
    """Nearly JSON is a WireError exactly where it is not an object in JSON."""
    try:
        expected = json.loads(text, strict=False)
    except ValueError:
        expected = None
    if type(expected) is dict:
        assert wire.decode(text.encode()) == expected
    else:
        with pytest.raises(WireError):
            wire.decode(text.encode())


@given(st.lists(st.binary().map(lambda b: b.replace(b"\n", b"")), max_size=10), st.data())
def test_lines_in_any_portions(lines: list[bytes], data: st.DataObject) -> None:
    """However a stream is cut in portions, the same lines come out."""
    stream = b"".join(line + b"\n" for line in lines)
    reader, seen = wire.Lines(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        seen += reader.feed(stream[:size])
        stream = stream[size:]
    assert seen == lines
    assert reader.unfinished == 0


def test_line_over_the_limit() -> None:
    """A line that does not end in time is an error, in one portion or in many."""
    with pytest.raises(WireError, match="message larger than 10 bytes"):
        list(wire.Lines(10).feed(b"x" * 11))
    reader = wire.Lines(10)
    assert list(reader.feed(b"12345\n67890")) == [b"12345"]
    with pytest.raises(WireError):
        for _ in range(3):
            list(reader.feed(b"abc"))


@pytest.mark.parametrize("minor", [wire.PROTOCOL[1], wire.PROTOCOL[1] + 1])
def test_neighbouring_versions(minor: int) -> None:
    """A neighbouring minor version is understood."""
    wire.check_hello({**wire.hello(), "protocol": [wire.PROTOCOL[0], minor]}, "the rank")


def test_newer_peer() -> None:
    """A newer peer: both versions are named, and this side is to be updated."""
    newer = {**wire.hello(), "protocol": [wire.PROTOCOL[0] + 1, 0], "version": "9.1"}
    with pytest.raises(VersionError) as caught:
        wire.check_hello(newer, "the rank")
    assert "the rank runs rankdbg 9.1" in caught.value.what
    assert __version__ in caught.value.what
    assert caught.value.hint == "update this side"


def test_older_peer() -> None:
    """An older peer is the one to be updated."""
    with pytest.raises(VersionError) as caught:
        wire.check_hello({**wire.hello(), "protocol": [0, 9]}, "the rank")
    assert caught.value.hint == "update the rank"


@pytest.mark.parametrize("protocol", [None, [1], [1, 0, 0], ["1", "0"], [True, 0], 1, {}])
def test_hello_without_version(protocol: Any) -> None:
    """A hello whose version is not two numbers is no hello."""
    with pytest.raises(WireError, match="sent no protocol version"):
        wire.check_hello({**wire.hello(), "protocol": protocol}, "the rank")


@pytest.mark.parametrize("size", [0, 1, 880, 881, 899, 900, 901, 5_000])
def test_short_lines(size: int) -> None:
    """A message that was cut into short lines, also right after a backslash, is whole again."""
    line = wire.encode({"text": "\\" * size})
    short = wire.in_short_lines(line, 900).splitlines()
    assert max(map(len, short)) <= 901
    continued = wire.Continued()
    assert [whole for part in short for whole in continued.feed(part)] == [line.rstrip(b"\n")]


@pytest.mark.slow
@given(st.lists(messages.filter(lambda message: not {"all", "packed"} & message.keys())))
def test_bundles(said: list[dict[str, Any]]) -> None:
    """What is said together comes out the same, in the same order; so does what comes alone."""
    lines = list(wire.bundled(said))
    assert len(lines) == bool(said)
    heard = [each for line in lines for each in wire.unbundled(wire.decode(line))]
    assert heard == said
    assert all(wire.unbundled(message) == [message] for message in said)


def test_a_question_to_a_thousand_nodes_is_small() -> None:
    """Of 1,000 nodes with 8 ranks each, every node hears under 100 KB."""
    starts = random.Random(7)
    said = [
        {
            "to": f"node-{number:04}",
            "id": 7,
            "ask": "evaluate",
            "expression": "loss",
            "processes": [[first + rank, start + rank] for rank in range(8)],
            "timeout": 5.0,
        }
        for number in range(1000)
        for first, start in [(starts.randrange(4 * 10**6), starts.randrange(10**9))]
    ]
    (line,) = wire.bundled(said)
    assert len(line) < 100_000 < len(b"".join(map(wire.encode, said))) / 2


def test_large_bundles_are_several() -> None:
    """None is longer than a reader takes, however much is said."""
    said = [{"to": str(number), "text": "x" * 400_000} for number in range(5)]
    lines = list(wire.bundled(said))
    assert len(lines) == 3
    assert [each for line in lines for each in wire.unbundled(wire.decode(line))] == said


@pytest.mark.parametrize("bundle", [7, [7], "text", {"to": "node"}])
def test_a_bundle_of_no_messages(bundle: Any) -> None:
    """Is a WireError."""
    with pytest.raises(WireError):
        wire.unbundled({"all": bundle})
