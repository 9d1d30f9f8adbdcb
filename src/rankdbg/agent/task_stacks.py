"""The tasks of asyncio as stacks: the coroutines of each, down to the innermost await, and for what that
waits."""

from __future__ import annotations

from rankdbg.agent import stacks, task_waits, thread_waits
from rankdbg.agent.lock_code import attribute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rankdbg.agent.task_waits import Task

    Names = dict[int, str]

_MOST_NAMES = 3  # of the tasks for which one waits
_MOST_WITH_LOCALS = 50  # tasks: a server may have a thousand alike
_OWED = {
    "lock": "held by",
    "semaphore": "held by",
    "event": "set by",
    "future": "set by",
    "condition": "notified by",
    "queue": "for",
    "barrier": "for",
}
_RUNNING = ("cr_running", "gi_running", "ag_running")


def collect(with_locals: bool) -> list[dict[str, Any]]:
    """One entry for each task that has not ended, as `stacks.collect` has them for threads."""
    threads, tasks, wait_of = thread_waits.look(with_tasks=True)
    names = {thread.ident: f"thread {stacks.thread_name(thread.ident)}" for thread in threads}
    names.update((task.ident, f"task {task.coroutine() or task.title()}") for task in tasks)
    found = []
    for place, task in enumerate(tasks):
        shown = with_locals and place < _MOST_WITH_LOCALS
        entry = stacks.describe_frames(task.frames, shown)
        awaits = _awaits(task, wait_of(task), names)
        title = task.title() if task.is_unnamed() else f"{task.title()} #{task.number()}"
        found.append({"name": title, "main": False, "task": True, "awaits": awaits, **entry})
    if left := task_waits.count_unread():
        unread = [[f"{left} more tasks, which were not read", "", 0]]
        found.append({"name": "of any name", "main": False, "task": True, "frames": unread})
    return sorted(found, key=lambda entry: str(entry["name"]))


def _awaits(task: Task, wait: dict[str, Any], names: Names) -> str:
    """`the lock self.lock, held by task save`; without what differs from process to process."""
    if not wait:
        coroutine = attribute(task.task, "_coro")
        runs = any(getattr(coroutine, name, False) for name in _RUNNING)
        return "nothing: it runs" if runs else "nothing: it is ready to run"
    kind, name = wait["kind"], wait["awaits"]
    owners = _listed([names[o["thread"]] for o in wait["owners"] if o["thread"] in names])
    owners += " and others" if len(wait["owners"]) == thread_waits.MOST_OWNERS else ""
    if kind == "sleep":
        return f"a sleep of {name}"
    if kind == "stream":
        return "a pipe or socket"
    if kind == "child":
        return "the end of a child process"
    if kind == "task":
        return owners or "a task"
    thing = f"the {kind} {name}".rstrip()
    return f"{thing}, {_OWED[kind]} {owners}" if owners and kind in _OWED else thing


def _listed(names: list[str]) -> str:
    """`task fetch (5), task save`"""
    counts = {name: names.count(name) for name in names}
    texts = [f"{name} ({count})" if count > 1 else name for name, count in counts.items()]
    more = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return ", ".join(texts[:_MOST_NAMES]) + more
