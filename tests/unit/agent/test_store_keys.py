"""store_keys.py: the keys of a store that threads wait for, and that their functions set."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rankdbg.agent import stacks, store_keys
from rankdbg.agent.lock_code import Codes
from rankdbg.agent.waiters import Waiter
from waiting import PATIENCE, wait_for

# A class of this name and module is a store; the real one is in tests/integration/test_why.py.
Store = type("Store", (), {"__module__": "torch.test"})


class Settings:
    name = "index"

    @property
    def made(self) -> str:
        raise AssertionError("no code of the program is called")


class Keys:
    """get() and wait() are functions of C, as those of a real store, and wait at a queue."""

    def __init__(self) -> None:
        self.queue: Any = queue.SimpleQueue()
        self.store: Any = Store()
        self.store.get = self.store.wait = self.queue.get
        self.settings, self.rank = Settings(), 3

    def get_constant(self) -> None:
        self.store.get("tokenizer")

    def get_made(self) -> None:
        self.store.get(f"{self.settings.name}/{self.rank}")

    def get_added(self) -> None:
        prefix = "step/"
        self.store.get(prefix + "ready")

    def wait_for_several(self) -> None:
        self.store.wait(["a", self.settings.name])

    def get_unknown(self) -> None:
        self.store.get(str(self.rank))

    def get_before_set(self) -> None:
        self.store.get("first")
        self.store.set("second", b"yes")


@contextmanager
def keys_of(method: str) -> Iterator[Callable[[], list[tuple[str, str]]]]:
    keys = Keys()
    keys.store.set = lambda key, value: None
    thread = threading.Thread(target=getattr(keys, method))
    thread.start()

    def found() -> list[tuple[str, str]]:
        frames = [*stacks.walk(stacks.innermost_frames().get(thread.ident or 0))]
        told = store_keys.collect([Waiter(thread.ident or 0, frames)], Codes())
        return [(each["call"], each["key"]) for each in told]

    try:
        yield found
    finally:
        keys.queue.put(1)
        thread.join(PATIENCE)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("get_constant", [("get", "tokenizer")]),
        ("get_made", [("get", "index/3")]),
        ("get_added", [("get", "step/ready")]),
        ("wait_for_several", [("wait", "a"), ("wait", "index")]),
        ("get_before_set", [("get", "first"), ("set", "second")]),
    ],
)
def test_keys(method: str, expected: list[tuple[str, str]]) -> None:
    seen: list[Any] = []
    with keys_of(method) as found:
        wait_for(lambda: seen.append(found()) or seen[-1] == expected, lambda: seen[-1:])


def test_key_that_only_the_program_can_make() -> None:
    with keys_of("get_unknown") as found:
        assert found() == []
