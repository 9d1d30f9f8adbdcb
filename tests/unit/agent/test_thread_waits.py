"""thread_waits.py: what threads wait for among themselves, and which threads owe it."""

from __future__ import annotations

import importlib
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rankdbg.agent import active, thread_waits
from waiting import PATIENCE, wait_for

module_lock = threading.Lock()


class Loader:
    """`stand()` blocks until `let_go` is set: what a holder does meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.again = threading.RLock()
        self.of_shards = [threading.Lock(), threading.Lock()]
        self.of_names = {"index": threading.Lock()}
        self.ready = threading.Event()
        self.changed = threading.Condition()
        self.slots = threading.Semaphore(1)
        self.meeting = threading.Barrier(2)
        self.batches: queue.Queue[int] = queue.Queue(1)
        self.answer: Future[int] = Future()
        self.let_go, self.stands = socket.socketpair()

    def stand(self) -> None:
        self.stands.recv(1)

    # --- those who owe ---

    def hold_lock(self) -> None:
        with self._lock:
            try:
                self.stand()
            except OSError:
                pass
        self.stand()

    def hold_by_acquire(self) -> None:
        self._lock.acquire()
        try:
            self.stand()
        finally:
            self._lock.release()

    def release(self) -> None:
        self.stand()
        if self._lock.locked():
            self._lock.release()

    def hold_module_lock(self) -> None:
        with module_lock:
            self.stand()

    def hold_again(self) -> None:
        with self.again:
            self.stand()

    def hold_shard(self, number: int = 1) -> None:
        with self.of_shards[number]:
            self.stand()

    def hold_index(self) -> None:
        with self.of_names["index"]:
            self.stand()

    def set_ready(self) -> None:
        self.stand()
        self.ready.set()

    def notify(self) -> None:
        self.stand()
        with self.changed:
            self.changed.notify_all()

    def hold_condition(self) -> None:
        with self.changed:
            self.stand()

    def hold_slot(self) -> None:
        with self.slots:
            self.stand()

    def meet_late(self) -> None:
        self.stand()
        self.meeting.wait()

    def fill(self) -> None:
        self.stand()
        self.batches.put(1)

    def respond(self) -> None:
        self.stand()
        self.answer.set_result(1)

    # --- those who wait ---

    def wait_for_lock(self) -> None:
        with self._lock:
            pass

    def wait_twice(self) -> None:
        self._lock.acquire()
        with self._lock:
            pass

    def wait_by_acquire(self) -> None:
        if self._lock.acquire(timeout=PATIENCE):
            self._lock.release()

    def wait_for_module_lock(self) -> None:
        with module_lock:
            pass

    def wait_again(self) -> None:
        with self.again:
            pass

    def wait_for_shard(self) -> None:
        with self.of_shards[1]:
            pass

    def wait_for_index(self) -> None:
        with self.of_names["index"]:
            pass

    def wait_until_ready(self) -> None:
        self.ready.wait()

    def wait_for_change(self) -> None:
        with self.changed:
            self.changed.wait()

    def wait_to_enter(self) -> None:
        with self.changed:
            pass

    def wait_for_slot(self) -> None:
        with self.slots:
            pass

    def meet(self) -> None:
        self.meeting.wait()

    def take(self) -> None:
        self.batches.get()

    def wait_for_answer(self) -> None:
        self.answer.result()

    def wait_for_any(self) -> None:
        wait([self.answer])


started: dict[str, threading.Thread] = {}  # the last of each name


def start(name: str, call: Callable[[], Any]) -> threading.Thread:
    started[name] = threading.Thread(target=call, name=name, daemon=True)
    started[name].start()
    return started[name]


@contextmanager
def running(loader: Loader, *calls: tuple[str, Callable[[], Any]]) -> Iterator[None]:
    """Each in a thread of this name, the next once the one before waits."""
    try:
        for name, call in calls:
            start(name, call)
            wait_for(lambda name=name: is_blocked(name), lambda name=name: name)
        yield
    finally:
        loader.let_go.send(bytes(100))
        loader.let_go.close()


def is_blocked(name: str) -> bool:
    thread = told(name)
    where = thread["where"] if thread else ["", "", 0]
    here = os.path.basename(__file__)
    return bool(thread and os.path.basename(where[1]) == here and state(thread["native"]) == "S")


def state(native: int) -> str:
    with open(f"/proc/self/task/{native}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def told(name: str) -> dict[str, Any]:
    ident = started[name].ident
    return next((t for t in thread_waits.collect()["threads"] if t["id"] == ident), {})


def owners(name: str) -> list[tuple[str, str, str]]:
    """Name, how, and function of each that owes what this one waits for."""
    everyone = {thread["id"]: thread["name"] for thread in thread_waits.collect()["threads"]}
    return [
        (everyone.get(each["thread"], ""), each["how"], each["where"][0] if each["where"] else "")
        for each in told(name).get("owners", ())
    ]


@pytest.mark.parametrize(
    ("held_in", "waits_in", "kind", "awaits", "how"),
    [
        ("hold_lock", "wait_for_lock", "lock", "self._lock", "with"),
        ("hold_lock", "wait_by_acquire", "lock", "self._lock", "with"),
        ("hold_by_acquire", "wait_for_lock", "lock", "self._lock", "acquire"),
        ("release", "wait_twice", "lock", "self._lock", "release"),
        ("hold_module_lock", "wait_for_module_lock", "lock", "module_lock", "with"),
        ("hold_again", "wait_again", "lock", "self.again", "owner"),
        ("hold_shard", "wait_for_shard", "lock", "self.of_shards[1]", "with"),
        ("hold_index", "wait_for_index", "lock", "self.of_names['index']", "with"),
        ("set_ready", "wait_until_ready", "event", "self.ready", "set"),
        ("notify", "wait_for_change", "condition", "self.changed", "notify_all"),
        ("hold_condition", "wait_to_enter", "lock", "self.changed", "owner"),
        ("hold_slot", "wait_for_slot", "semaphore", "self.slots", "with"),
        ("meet_late", "meet", "barrier", "self.meeting", "wait"),
        ("fill", "take", "queue", "self.batches", "put"),
        ("respond", "wait_for_answer", "future", "self.answer", "set_result"),
        ("respond", "wait_for_any", "future", "", "set_result"),
    ],
)
def test_who_owes_it(held_in: str, waits_in: str, kind: str, awaits: str, how: str) -> None:
    """The thread that holds it, or whose function provides it, and by what that is known."""
    loader, other = Loader(), Loader()  # the other has things of the same names
    with (
        running(
            other,
            ("Stranger", getattr(other, held_in if held_in != "hold_module_lock" else "fill")),
        ),
        running(
            loader, ("Prefetch", getattr(loader, held_in)), ("Waiter", getattr(loader, waits_in))
        ),
    ):
        waiter = told("Waiter")
        assert (waiter["kind"], waiter["awaits"] or awaits) == (kind, awaits), waiter
        assert waiter["where"][0] == waits_in
        assert owners("Waiter") == [("Prefetch", how, held_in)]
        assert told("Prefetch").get("kind") is None


def test_lock_that_has_been_left() -> None:
    """Behind its `with` a function holds nothing."""
    loader = Loader()
    with running(loader, ("Prefetch", loader.hold_lock)):
        loader.let_go.send(b"1")
        wait_for(lambda: not loader._lock.locked(), lambda: "held")
        wait_for(lambda: is_blocked("Prefetch"), lambda: told("Prefetch"))
        with loader._lock, running(Loader(), ("Waiter", loader.wait_for_lock)):
            assert told("Waiter")["held"]
            assert owners("Waiter") == []


def test_lock_taken_twice() -> None:
    """A thread that waits for what it holds itself."""
    loader = Loader()
    with running(loader, ("Waiter", loader.wait_twice)):
        assert owners("Waiter") == [("Waiter", "acquire", "wait_twice")]
        loader._lock.release()


def test_end_of_a_thread() -> None:
    loader = Loader()
    runs = start("Runs", loader.stand)
    with running(loader, ("Waiter", lambda: runs.join())):
        assert told("Waiter")["kind"] == "thread"
        assert owners("Waiter") == [("Runs", "end", "")]


def test_task_of_a_pool() -> None:
    """The thread that runs it; for one that is queued, all threads of the pool."""
    loader = Loader()
    with ThreadPoolExecutor(1, "Pool") as pool:
        runs, queued = pool.submit(loader.stand), pool.submit(int)
        with running(loader, ("First", lambda: runs.result()), ("Second", lambda: queued.result())):
            assert owners("First") == [("Pool_0", "run", "")]
            assert owners("Second") == [("Pool_0", "queued", "")]


def test_two_locks_in_different_orders() -> None:
    """Each owes the other."""
    one, two = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def first() -> None:
        with one:
            both.wait()
            two.acquire()

    def second() -> None:
        with two:
            both.wait()
            with one:
                pass

    for name, call in (("A", first), ("B", second)):
        start(name, call)
    wait_for(lambda: owners("A") == [("B", "with", "second")], lambda: owners("A"))
    wait_for(lambda: owners("B") == [("A", "with", "first")], lambda: owners("B"))


def test_owner_that_does_not_exist() -> None:
    """As in the child of a fork: the RLock's owner is no thread of this process."""
    loader = Loader()

    def hold_and_end() -> None:
        loader.again.acquire()
        loader.stand()

    with running(loader, ("Holder", hold_and_end), ("Orphan", loader.wait_again)):
        pass
    started["Holder"].join()
    (owner,) = told("Orphan")["owners"]
    assert (owner["thread"], owner["how"]) == (0, "gone")
    assert active.forked is False


def test_import_of_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python knows which thread imports a module."""
    loader = Loader()
    (tmp_path / "slow_plugin.py").write_text("import slow_host\nslow_host.stand()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "slow_host", SimpleNamespace(stand=loader.stand))  # type: ignore[arg-type]

    def load() -> None:
        importlib.import_module("slow_plugin")

    with running(loader, ("Prefetch", load), ("Waiter", load)):
        waiter = told("Waiter")
        assert (waiter["kind"], waiter["awaits"]) == ("import", "slow_plugin"), waiter
        assert owners("Waiter") == [("Prefetch", "import", "")]


class Hostile:
    """Whatever is called of it fails."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise AssertionError

    @property
    def __class__(self) -> Any:
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __bool__(self) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


def test_nothing_of_the_program_is_called() -> None:
    hostile: Any = Hostile()
    loader = Loader()

    def run() -> None:
        if loader.stand() is not None:
            hostile.lock.acquire()
            hostile.set()

    with running(loader, ("Prefetch", run), ("Waiter", loader.wait_until_ready)):
        assert told("Waiter")["kind"] == "event"
        assert owners("Waiter") == []
