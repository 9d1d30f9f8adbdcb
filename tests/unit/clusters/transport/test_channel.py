"""clusters/channel: for how long a node that is being reached is hoped for."""

from __future__ import annotations

import itertools
import threading

import pytest

from rankdbg import __version__, wire
from rankdbg.clusters.transport.channel import Conversation, Opening
from rankdbg.clusters.transport.sending import landing_opening
from rankdbg.errors import NodeFailed


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
