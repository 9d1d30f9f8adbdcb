"""Tasks of asyncio in merged stacks: by name, with what they await."""

from __future__ import annotations

import io
from typing import Any

from rankdbg.frontends.reports.stacks import print_stacks
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.types import Frame, ProcessKey, Rank, Sampled, Stack

LOOP = Stack("MainThread", True, (Frame("<module>", "/job/serve.py", 90),))
LOCK = "the lock self.lock, held by task save"


def fetch(number: int, line: int = 12, awaits: str = LOCK) -> Stack:
    frames = (Frame("Server.fetch", "/job/serve.py", line),)
    return Stack(f"fetch (Task-{number})", False, frames, (), True, awaits)


def merged(*ranks: tuple[tuple[Stack, ...], ...]) -> MergedStacks:
    """Of each rank its samples."""
    seen = [
        Sampled(Rank(ProcessKey("node-1", 10 + n, 1), "job", n), samples, "agent")
        for n, samples in enumerate(ranks)
    ]
    return MergedStacks(seen, (), [sampled.rank for sampled in seen])


def tasks(found: MergedStacks) -> list[dict[str, Any]]:
    return [group for group in found.as_json()["groups"] if group["thread"].startswith("task ")]


def test_tasks_of_several_ranks() -> None:
    """Tasks of one coroutine belong together, whatever numbers Python has given them."""
    found = merged(((LOOP, fetch(3), fetch(4)),), ((LOOP, fetch(7)),))
    (group,) = tasks(found)
    frame = {"function": "Server.fetch", "file": "/job/serve.py", "line": 12}
    assert (group["ranks"], group["count"], group["thread"]) == ("0-1", 3, "task fetch")
    assert (group["frames"], group["awaits"]) == ([frame], LOCK)
    printed = io.StringIO()
    print_stacks(Terminal(printed), found)
    lines = printed.getvalue().splitlines()
    assert lines[3:5] == ["task fetch (3)", f"└─ Server.fetch serve.py:12 {'.' * 48} 0-1"]
    assert lines[5].startswith(f"   awaits {LOCK} ...")


def test_one_that_awaits_something_else() -> None:
    """Two places are two groups; where the program is does not depend on what is awaited."""
    found = merged(((LOOP, fetch(3)),), ((LOOP, fetch(3, awaits="a pipe or socket")),))
    assert [group["awaits"] for group in tasks(found)] == [LOCK, "a pipe or socket"]
    places = {(row["function"], row["line"]) for row in found.records() if row["thread"] != LOOP}
    assert places == {("<module>", 90), ("Server.fetch", 12)}


def test_task_that_moves() -> None:
    """Its samples are those of one task: by its own name, before numbers are left out."""
    found = merged(((LOOP, fetch(3), fetch(4)), (LOOP, fetch(3, 14), fetch(4))))
    assert [(group["count"], group["moving"]) for group in tasks(found)] == [(1, True), (1, False)]
    assert found.summary().endswith("nothing moved")  # of main threads
