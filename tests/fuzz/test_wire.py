"""Messages: bytes from the other side of a connection, of a node that is reached, and of a stream."""

from __future__ import annotations

import dataclasses
import json
import queue
from collections.abc import Iterator
from random import Random
from typing import Any

from fuzzing import Target, documented, short_form
from mutations import as_json, changed_document, changed_json, damaged, mixed_lines, some_bytes
from rankdbg import wire
from rankdbg.clusters.transport import sending
from rankdbg.clusters.transport.channel import Conversation, plain_opening
from rankdbg.errors import RankdbgError, WireError
from rankdbg.session import asking
from rankdbg.types import ProcessKey, Rank
from rankdbg.wire import answers
from rankdbg.wire.decoding import BadField, decode
from rankdbg.wire.node_questions import ASKED
from rankdbg.wire.questions import BY_AGENT, BadQuestion, RankQuestion, read_question
from rankdbg.wire.streams import Stream
from rankdbg.wire.table import answer_type
from recorded_snapshot import QUESTIONS

HELLO = wire.encode(wire.hello())
FOUND = {"landed": None, "machine": "x86_64", "libc": "glibc", "py-spy": True, "kept": ["a"]}
LANDED = wire.encode(FOUND) + wire.encode({"ready": True}) + HELLO
SAID: list[dict[str, Any]] = [
    *(question for question, _ in QUESTIONS),
    {"id": 1, "answer": {"answers": [], "silent": []}},
    {"id": 1, "error": {"what": "no such process", "hint": "rankdbg ps"}},
    {"id": 1, "lacks": "pystack"},
    {"all": [{"to": "node-1", "id": 1, "ask": "stacks"}, {"to": "node-2", "id": 2, "ask": "gpus"}]},
    wire.hello({"jobs": ["a"], "packed": True, "silence": 9.0, "line": 4000}),
]
STREAM: list[dict[str, Any]] = [
    *({"id": 1, "opened": {}}, {"id": 1, "data": "aGVsbG8="}, {"id": 1, "took": 262144}),
    *({"id": 1, "eof": True, "why": "killed"}, {"id": 1, "answer": {"why": ""}}),
]
LINES = [
    *(wire.encode(each).decode() for each in SAID + STREAM),
    wire.encode_packed({"id": 1, "answer": {"text": "x" * 20_000}}).decode(),
]


# --- any message --------------------------------------------------------------------------


def lines_of_messages(random: Random) -> bytes:
    if random.random() < 0.1:
        return some_bytes(random) + b"\n"
    if random.random() < 0.3:
        return damaged(random, random.choice([HELLO, *(line.encode() for line in LINES)]))
    return b"\n".join([*(changed_json(random, SAID) for _ in range(3)), b""])


def check_messages(data: bytes) -> None:
    """As an agent and a node read what a connection brings them."""
    with documented(WireError):
        for line in wire.Lines(1 << 20).feed(data):
            _check_line(line)


def _check_line(line: bytes) -> None:
    with documented(RankdbgError):
        message = wire.decode(line)
        assert wire.decode(wire.encode(message)) == message or "nan" in repr(message)
        for each in wire.unbundled(message):
            for table in (ASKED, BY_AGENT):
                with documented(BadQuestion):
                    asked = read_question(each, table)
                    asked.message()
            wire.check_hello(each, "the peer")


# --- what a node says ---------------------------------------------------------------------


def lines_of_node(random: Random) -> bytes:
    """After valid first words, mostly."""
    before = random.choice([HELLO, HELLO, LANDED, LANDED, b"", b"motd\n" + HELLO])
    if random.random() < 0.1:
        before = b"\n".join([changed_json(random, [FOUND], 2), b'{"ready": true}', HELLO])
    if random.random() < 0.2:
        return before + mixed_lines(random, ["\n".join(LINES)], ["id", '"ask"', "answer"])
    said = [changed_json(random, SAID + STREAM, 2) for _ in range(random.randint(0, 6))]
    return b"\n".join([before.rstrip(b"\n"), *said, b""])


def check_node(data: bytes) -> None:
    """As the session reads it, with a question and a stream under way."""
    landing = sending.landing_opening("node-1", {}, lazy=True)
    guessing = sending.landing_opening("node-1", {}, lazy=True, guess=True)
    plain = [plain_opening("node-1", {}) for _ in range(2)]
    ways = ((_answer, plain[0]), (_stream, plain[1]), (_answer, landing), (_answer, guessing))
    for ask, opening in ways:
        sent: list[wire.Message] = []
        conversation = Conversation("node-1", sent.append, opening, 0.0, give=sending.give)
        asked = conversation.begin({"ask": "stacks"})
        with documented(WireError):
            for line in wire.Lines(1 << 20).feed(data):
                conversation.feed(line)
        with documented(RankdbgError):
            ask(asked)


def _answer(asked: Any) -> None:
    asked.answer(0.0)


def _stream(asked: Any) -> None:
    stream, _ = asked.open_stream(0.0)
    stream._inbox.put({"error": {"what": "the end"}})  # or it would wait for more
    _read_to_its_end(stream)


def _read_to_its_end(stream: Stream) -> None:
    while stream.receive():
        pass
    while not stream.ended:
        stream.receive()


# --- streams ------------------------------------------------------------------------------


def lines_of_stream(random: Random) -> bytes:
    return b"\n".join(changed_json(random, STREAM, 2) for _ in range(random.randint(1, 6)))


def check_stream(data: bytes) -> None:
    """Messages that the decoder has let through."""
    inbox: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()
    for line in data.split(b"\n"):
        with documented(WireError):
            inbox.put(wire.decode(line))
    inbox.put({"end": True})
    _read_to_its_end(Stream(inbox, lambda message: None))


# --- what ranks say -----------------------------------------------------------------------


def recorded_answers() -> Iterator[dict[str, Any]]:
    for question, answer in QUESTIONS:
        yield {"question": question, "answer": answer}


ANSWERS = [*recorded_answers()]


def check_answer(data: bytes) -> None:
    """An answer of a node, decoded as the session does. What was decoded says itself again."""
    try:
        said = json.loads(data)
        question = read_question(dict(said["question"]), ASKED)
    except (BadQuestion, ValueError, KeyError, TypeError, RecursionError):
        return
    kind = answer_type(type(question))
    if isinstance(question, RankQuestion):
        with documented(RankdbgError):
            found = asking._decoded_by(answers.OfRanks, "node-1", question, said.get("answer"))
            ranks = {key: Rank(key, "job", key.pid) for key in RANKS}
            asking._outcomes("node-1", question, found, ranks)
        return
    try:
        value = decode(kind, said.get("answer"))
    except BadField as error:
        assert " must be " in str(error)
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        again = wire.decode(wire.encode(dataclasses.asdict(value)))
        assert decode(kind, again) == value or "nan" in repr(value)


RANKS = [ProcessKey("node-1", pid, start) for pid, start in ((27054, 48707), (27055, 48708))]

# --- any type -----------------------------------------------------------------------------

KINDS: list[Any] = [
    answers.OfRanks,
    *dict.fromkeys(answer_type(question) for question in {**ASKED, **BY_AGENT}.values()),
]


def values(random: Random) -> bytes:
    """The number of a type, and a part of some answer."""
    value = changed_document(random, [answer for _, answer in QUESTIONS], 2)
    while isinstance(value, (dict, list)) and value and random.random() < 0.7:
        value = random.choice([*value.values()] if isinstance(value, dict) else value)
    return as_json([random.randrange(len(KINDS)), value])


def check_decoder(data: bytes) -> None:
    try:
        number, value = json.loads(data)
        kind = KINDS[number]
    except (ValueError, TypeError, IndexError, RecursionError):
        return
    with documented(BadField):
        decode(kind, value)


TARGETS = [
    Target("messages", lines_of_messages, check_messages, 600),
    Target("nodes", lines_of_node, check_node, 300),
    Target("streams", lines_of_stream, check_stream, 400),
    Target("decoder", values, check_decoder, 400),
    Target("answers", lambda random: changed_json(random, ANSWERS), check_answer, 300),
]
test_messages, test_nodes, test_streams, test_decoder, test_answers = map(short_form, TARGETS)
