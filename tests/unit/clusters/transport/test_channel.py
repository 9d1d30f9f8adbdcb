"""clusters/channel: for how long a node that is being reached is hoped for."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from rankdbg import __version__, wire
from rankdbg.clusters.transport.channel import Conversation, Opening
from rankdbg.clusters.transport.sending import give, landing_opening
from rankdbg.errors import NodeFailed, RankdbgError


def opening() -> Opening:
    yield {"land": "1"}
    yield {"files": {}}


def test_what_is_sent_over_a_slow_line_takes_its_time() -> None:
    """As long as the node says that it is coming, and no longer."""
    conversation = Conversation("far", lambda message: None, opening(), connect_seconds=0.3)
    over = threading.Event()

    def tell() -> None:
        for size in itertools.count(1):
            conversation.feed(b'{"coming": %d}' % size)
            if over.wait(0.1):
                break
        conversation.feed(b'{"landed": null}')
        conversation.feed(b'{"ready": true}')

    thread = threading.Thread(target=tell)
    thread.start()
    threading.Timer(1.0, over.set).start()
    conversation.wait_until_open()
    assert over.is_set()
    thread.join()


def test_silence() -> None:
    conversation = Conversation("far", lambda message: None, opening(), connect_seconds=0.1)
    conversation.feed(b'{"coming": 1}')
    with pytest.raises(NodeFailed, match=r"cannot reach far: no response within 0\.1 s"):
        conversation.wait_until_open()


@pytest.mark.parametrize(("hint", "shown"), [("", "--patience 3"), ("is sshd up?", "is sshd up?")])
def test_no_response_says_what_to_do(hint: str, shown: str) -> None:
    """On this machine, too, where nothing is to be checked but how busy it is."""
    conversation = Conversation("far", lambda message: None, opening(), hint=hint)
    conversation.feed(b'{"landed": null}')
    conversation.feed(b'{"ready": true}')
    with pytest.raises(NodeFailed, match="far did not respond in time") as failed:
        conversation.begin({"q": "first"}).answer(0.05)
    assert shown in failed.value.hint


def asked_with_a_guess(*found: wire.Message) -> list[wire.Message]:
    """What is sent to a node that says this, when two questions are asked: one before it says
    anything, one after its first words."""
    sent: list[wire.Message] = []
    opening = landing_opening("far", {}, lazy=True, guess=True)
    conversation = Conversation("far", sent.append, opening)
    conversation.begin({"q": "first"})
    for words in found:
        conversation.feed(wire.encode({**sent[0]["land"]["guess"], **words}).strip())
    conversation.begin({"q": "second"})
    return sent


def test_a_right_guess_spares_a_turn() -> None:
    """Nothing is sent again."""
    assert [next(iter(message)) for message in asked_with_a_guess({"landed": __version__})] == [
        "land", "hello", "id", "id",
    ]  # fmt: skip


def test_a_wrong_guess_repeats_what_the_node_has_dropped() -> None:
    """What comes before the files is dropped; after them, each question comes once."""
    sent = asked_with_a_guess({"landed": None, "magic": "x"})
    (files,) = [n for n, message in enumerate(sent) if "files" in message]
    assert [message.get("q") for message in sent[:files]] == [None, None, "first"]
    assert [message.get("q") for message in sent[files:]] == [None, None, "first", "second"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"id": [], "answer": 1}, "invalid message: id must be a whole number"),
        ({"id": 1, "error": "no"}, "invalid message: error must be an object"),
        ({"id": 1, "error": {"what": 7}}, "invalid message: error.what must be a string"),
        ({"error": {"what": "gone", "hint": 7}}, "invalid message: error.hint must be a string"),
        ({"id": 1, "lacks": {}}, "invalid message: lacks must be a string"),
        ({"id": 1, "error": {"what": "no such process"}}, "far: no such process"),
        ({"error": {"what": "the disk is full"}}, "far: the disk is full"),
        ({"id": 1, "error": None}, "far: no response"),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_open", [True, False])
def test_what_a_node_may_say_instead_of_an_answer(
    said: dict[str, Any], why: str, is_open: bool
) -> None:
    """Anything else fails the question with its reason, and not the thread that reads all nodes."""
    conversation = Conversation("far", lambda message: None, opening(), 0.0, give=give)
    asked = conversation.begin({"q": "first"})
    if is_open:
        conversation.feed(b'{"landed": null}')
        conversation.feed(b'{"ready": true}')
    conversation.feed(wire.encode(said))
    with pytest.raises(RankdbgError) as failed:
        asked.answer(0.0)
    if is_open or "invalid" in why:
        assert failed.value.what == why


def test_a_tool_that_was_not_offered_is_not_given() -> None:
    """What a node names is no file here."""
    conversation = Conversation("far", lambda message: None, opening(), 0.0, give=give)
    asked = conversation.begin({"q": "first"})
    for line in (b'{"landed": null}', b'{"ready": true}', b'{"id": 1, "lacks": "../x"}'):
        conversation.feed(line)
    with pytest.raises(NodeFailed, match=r"a node asks for '\.\./x', which was not offered"):
        asked.answer(0.0)


@pytest.mark.parametrize("kept", [7, None, "rankdbg-1", {}])
def test_what_a_node_has_kept_is_a_list(kept: Any) -> None:
    """Anything else is not rankdbg's protocol."""
    conversation = Conversation("far", lambda message: None, landing_opening("far", {}), 0.0)
    conversation.feed(wire.encode({"landed": None, "kept": kept}))
    with pytest.raises(NodeFailed, match="does not speak rankdbg's protocol"):
        conversation.wait_until_open()
