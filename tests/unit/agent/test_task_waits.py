"""task_waits.py: what tasks of asyncio await, and which tasks and threads owe it."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from rankdbg.agent import thread_waits
from waiting import PATIENCE, wait_for


class Server:
    """Its coroutines stop at `self.never`, until the test ends."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.other = asyncio.Lock()
        self.ready = asyncio.Event()
        self.slots = asyncio.Semaphore(1)
        self.batches: asyncio.Queue[int] = asyncio.Queue(1)
        self.never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.let_go, self.stands = socket.socketpair()
        self.pool = ThreadPoolExecutor(1, "Pool")

    # --- those who owe ---

    async def hold(self) -> None:
        async with self.lock:
            await self.never

    async def hold_by_acquire(self) -> None:
        await self.lock.acquire()
        try:
            await self.never
        finally:
            self.lock.release()

    async def put_later(self) -> None:
        await self.never
        await self.batches.put(1)

    async def set_later(self) -> None:
        await self.never
        self.ready.set()

    async def hold_slot(self) -> None:
        async with self.slots:
            await self.never

    async def take_other_then_lock(self) -> None:
        async with self.other:
            while not self.lock.locked():
                await asyncio.sleep(0)
            async with self.lock:
                pass

    # --- those who wait ---

    async def take(self) -> None:
        async with self.lock:
            pass

    async def take_lock_then_other(self) -> None:
        async with self.lock, self.other:
            pass

    async def get(self) -> None:
        await self.batches.get()

    async def wait_ready(self) -> None:
        await self.ready.wait()

    async def wait_ready_for_a_while(self) -> None:
        await asyncio.wait_for(self.ready.wait(), 1000)

    async def take_slot(self) -> None:
        await self.slots.acquire()

    async def sleep(self) -> None:
        await asyncio.sleep(1000)

    async def take_in_group(self) -> None:
        await asyncio.gather(asyncio.create_task(self.take(), name="member"), asyncio.sleep(0))

    async def take_by_wait(self) -> None:
        await asyncio.wait([asyncio.create_task(self.take(), name="member")])

    async def take_shielded(self) -> None:
        await asyncio.shield(asyncio.create_task(self.take(), name="member"))

    async def take_in_generator(self) -> None:
        async def batches() -> Any:
            async with self.lock:
                yield 1

        async for _ in batches():
            pass

    async def run_in_pool(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self.pool, self.stands.recv, 1)

    async def receive(self) -> None:
        reader, _ = await asyncio.open_connection(sock=self.stands)
        await reader.readline()

    async def await_future(self) -> None:
        await self.never


@contextmanager
def running(*names: str) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """A loop in a thread; the last of these methods is its main task, the others are before it."""
    made: list[Any] = []

    async def main() -> None:
        server = Server()
        made.extend((server, asyncio.get_running_loop()))
        methods: list[Callable[[], Awaitable[None]]] = [getattr(server, name) for name in names]
        before = [asyncio.create_task(m(), name=m.__name__) for m in methods[:-1]]  # type: ignore[arg-type]
        await asyncio.sleep(0)
        last = asyncio.create_task(methods[-1](), name=names[-1])  # type: ignore[arg-type]
        await asyncio.wait([last, server.never], return_when="FIRST_COMPLETED")
        for task in (*before, last):
            task.cancel()

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="Loop")
    thread.start()

    def chain() -> list[dict[str, Any]]:
        """From the last task on, as long as there is one that owes it."""
        told = {each["id"]: each for each in thread_waits.collect()["threads"]}
        step = next((each for each in told.values() if each["name"] == names[-1]), None)
        found: list[dict[str, Any]] = []
        while step is not None and step not in found:
            found.append(step)
            step = next((told.get(each["thread"]) for each in step.get("owners", ())), None)
        return found

    try:
        yield chain
    finally:
        server, loop = made
        loop.call_soon_threadsafe(server.never.cancel)
        thread.join(PATIENCE)
        server.let_go.close()
        server.pool.shutdown(wait=False)
        server.stands.close()


def described(chain: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each["name"], each.get("kind", ""), each.get("awaits", "")) for each in chain]


STANDS = ("future", "")  # that nobody resolves


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("hold", "take"), [("take", "lock", "self.lock"), ("hold", *STANDS)]),
        (("hold_by_acquire", "take"), [("take", "lock", "self.lock"), ("hold_by_acquire", *STANDS)]),
        (("put_later", "get"), [("get", "queue", "self.batches"), ("put_later", *STANDS)]),
        (("set_later", "wait_ready"), [("wait_ready", "event", "self.ready"), ("set_later", *STANDS)]),
        (("hold_slot", "take_slot"), [("take_slot", "semaphore", "self.slots"), ("hold_slot", *STANDS)]),
        (("sleep",), [("sleep", "sleep", "1000 s")]),
        (("await_future",), [("await_future", *STANDS)]),
        (
            ("hold", "take_in_group"),
            [("take_in_group", "task", ""), ("member", "lock", "self.lock"), ("hold", *STANDS)],
        ),
        (
            ("hold", "take_by_wait"),
            [("take_by_wait", "task", ""), ("member", "lock", "self.lock"), ("hold", *STANDS)],
        ),
        (
            ("hold", "take_shielded"),
            [("take_shielded", "future", ""), ("member", "lock", "self.lock"), ("hold", *STANDS)],
        ),
        (("hold", "take_in_generator"), [("take_in_generator", "lock", "self.lock"), ("hold", *STANDS)]),
        (
            ("take_other_then_lock", "take_lock_then_other"),
            [("take_lock_then_other", "lock", "self.other"), ("take_other_then_lock", "lock", "self.lock")],
        ),
        (("run_in_pool",), [("run_in_pool", "future", ""), ("Pool_0", "", "")]),
        (("receive",), [("receive", "stream", "")]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) else "",
)  # fmt: skip
def test_chain_of_tasks(names: tuple[str, ...], expected: list[tuple[str, str, str]]) -> None:
    """Each task, what it waits for, and the one that owes it."""
    seen: list[Any] = []
    with running(*names) as chain:
        wait_for(lambda: seen.append(chain()) or described(seen[-1]) == expected, lambda: seen[-1:])


def test_stream_is_known_by_its_descriptor() -> None:
    seen: list[Any] = []
    with running("receive") as chain:
        wait_for(
            lambda: seen.append(chain()) or [s for s in seen[-1] if s.get("kind") == "stream"],
            lambda: seen,
        )
        (step,) = seen[-1]
        assert step["descriptor"] >= 0
        assert step["where"][0] == "receive"


def test_thread_whose_loop_has_nothing_to_run() -> None:
    """It waits for the task that was given to asyncio.run()."""
    seen: list[Any] = []

    def loop() -> Any:
        seen[:] = thread_waits.collect()["threads"]
        return next((each for each in seen if each["name"] == "Loop" and each.get("owners")), None)

    with running("sleep"):
        waits = wait_for(loop, lambda: seen)
        (main,) = [each for each in seen if each["id"] == waits["owners"][0]["thread"]]
        assert waits["kind"] == "task"
        assert (main["task"], main["where"][0]) == (True, "main")
        assert main["name"].startswith("main (Task-")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup is new in Python 3.11")
def test_task_group() -> None:
    async def take_in_task_group(self: Server) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.take(), name="member")

    Server.take_in_task_group = take_in_task_group  # type: ignore[attr-defined]
    seen: list[Any] = []
    with running("hold", "take_in_task_group") as chain:
        expected = [("take_in_task_group", "task", ""), ("member", "lock", "self.lock")]
        wait_for(
            lambda: seen.append(chain()) or described(seen[-1])[:2] == expected, lambda: seen[-1:]
        )


def test_loop_that_a_call_holds() -> None:
    """The call waits for a coroutine that the same loop would have to run."""
    given: list[Any] = []

    async def answer() -> int:
        return 1

    async def block() -> None:
        future = asyncio.run_coroutine_threadsafe(answer(), asyncio.get_running_loop())
        given.append(future)
        with pytest.raises(RuntimeError, match="enough"):
            future.result()

    thread = threading.Thread(target=asyncio.run, args=(block(),), name="Loop")
    thread.start()
    seen: list[Any] = []

    def waits() -> Any:
        seen[:] = thread_waits.collect()["threads"]
        return next((each for each in seen if each["name"] == "Loop" and each.get("owners")), None)

    try:
        found = wait_for(waits, lambda: seen)
        assert [(each["thread"], each["how"]) for each in found["owners"]] == [
            (thread.ident, "loop")
        ]
    finally:
        given[0].set_exception(RuntimeError("enough"))
        thread.join(PATIENCE)
