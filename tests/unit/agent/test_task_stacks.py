"""task_stacks.py: the coroutines of each task, and what it awaits, in words that are the same in all
ranks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rankdbg.agent import task_stacks, task_waits
from waiting import PATIENCE, wait_for

Story = Callable[[], Coroutine[Any, Any, None]]


async def sleeps() -> None:
    await asyncio.sleep(3600)


async def takes_turns() -> None:
    lock = asyncio.Lock()

    async def saves() -> None:
        async with lock:
            await sleeps()

    async def steps() -> None:
        async with lock:
            pass

    saving = asyncio.create_task(saves(), name="saver")
    await asyncio.sleep(0)
    stepping = [asyncio.create_task(steps()) for _ in range(3)]
    await asyncio.gather(*stepping, saving)


async def reads() -> None:
    end, other = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    with os.fdopen(end) as file, os.fdopen(other, "w"):
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        await reader.readline()


async def blocks() -> None:
    threading.Event().wait(60)


@contextmanager
def running(story: Story) -> Iterator[None]:
    """In a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_run, args=(loop, story), daemon=True)
    thread.start()
    try:
        yield
    finally:
        if story is not blocks:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
            thread.join(PATIENCE)


def _run(loop: asyncio.AbstractEventLoop, story: Story) -> None:
    try:
        loop.run_until_complete(story())
    except asyncio.CancelledError:
        loop.close()


def collected() -> dict[str, tuple[str, list[str]]]:
    """By name: what it awaits, and its functions of this file, outermost first."""
    return {
        entry["name"].partition(" ")[0]: (
            entry["awaits"],
            [f.rpartition(".")[2] for f, file, _ in reversed(entry["frames"]) if file == __file__],
        )
        for entry in task_stacks.collect(with_locals=False)
    }


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (sleeps, {"sleeps": ("a sleep of 3600 s", ["sleeps"])}),
        (
            takes_turns,
            {
                "takes_turns": ("task steps (3), task saver", ["takes_turns"]),
                "saver": ("a sleep of 3600 s", ["saves", "sleeps"]),
                "steps": ("the lock lock, held by task saver", ["steps"]),
            },
        ),
        (reads, {"reads": ("a pipe or socket", ["reads"])}),
        (blocks, {"blocks": ("nothing: it runs", ["blocks"])}),
    ],
)
def test_tasks(story: Story, expected: dict[str, tuple[str, list[str]]]) -> None:
    with running(story):
        seen: list[Any] = []

        def as_expected() -> bool:
            seen[:] = [collected()]
            return {name: seen[0].get(name) for name in expected} == expected

        wait_for(as_expected, lambda: seen)


def test_variables() -> None:
    """As those of threads; and entries are marked as tasks."""
    with running(sleeps):
        wait_for(lambda: "sleeps" in collected())
        entry = next(e for e in task_stacks.collect(True) if e["name"].startswith("sleeps"))
        assert entry["task"] and not entry["main"]
        assert len(entry["locals"]) == len(entry["frames"])


def test_more_tasks_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted. One that has begun since they were read is not said to be left out."""
    assert task_waits.count_unread() == 0
    monkeypatch.setattr(task_waits, "_MOST_TASKS", 2)
    with running(takes_turns):
        wait_for(lambda: task_waits.count_unread() >= 3)  # with those of other tests
        told = [entry["frames"][0][0] for entry in task_stacks.collect(with_locals=False)]
        assert f"{task_waits.count_unread()} more tasks, which were not read" in told
