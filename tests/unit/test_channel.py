"""clusters/channel: for how long a node that is being reached is hoped for."""

from __future__ import annotations

import itertools
import threading

import pytest

from rankdbg.clusters.channel import Conversation, Opening
from rankdbg.errors import NodeFailed


def opening() -> Opening:
    yield {"land": "1"}
    yield {"files": {}}


def test_what_is_sent_over_a_slow_line_takes_its_time() -> None:
    """As long as the node says that it is coming, and no longer."""
    conversation = Conversation("far", lambda message: None, opening(), patience=0.3)
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
    conversation = Conversation("far", lambda message: None, opening(), patience=0.1)
    conversation.feed(b'{"coming": 1}')
    with pytest.raises(NodeFailed, match=r"far could not be reached within 0\.1 s"):
        conversation.wait_until_open()
