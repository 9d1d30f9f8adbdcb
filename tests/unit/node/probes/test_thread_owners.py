"""Threads seen by py-spy, with the addresses of their variables -> who of them may owe what."""

from __future__ import annotations

from typing import Any

from rankdbg.node.probes.thread_owners import waits

THREADING = "/usr/lib/python3.11/threading.py"
FUTURES = "/usr/lib/python3.11/concurrent/futures"
MAIN, WRITER, READER = 100, 101, 102


def frame(name: str, file: str, line: int = 1, **variables: str) -> dict[str, Any]:
    given = [{"name": key, "repr": value} for key, value in variables.items()]
    return {"name": name, "filename": file, "line": line, "locals": given}


def thread(number: int, name: str, *frames: dict[str, Any]) -> dict[str, Any]:
    begin = frame("Thread._bootstrap", THREADING, self=f"<Thread at 0x{number}>")
    below = () if number == MAIN else (begin,)
    return {"thread_name": name, "os_thread_id": number, "frames": [*frames, *below]}


def of_main(*threads: dict[str, Any], in_futex: bool = True) -> tuple[str, list[tuple[int, str]]]:
    """What the main thread waits for, and who may owe it."""
    told = waits(threads, MAIN, {MAIN} if in_futex else set())
    (main,) = [each for each in told if each["main"]]
    return main["kind"], [(owner["thread"], owner["how"]) for owner in main["owners"]]


IN_READ = frame("read", "/job/data.py", 7, path="'/data'")


def test_the_end_of_a_thread() -> None:
    """The one that the object of class Thread is about, by its address, wherever it is."""
    join = frame("Thread.join", THREADING, self="<Reader at 0x102>")
    main = thread(MAIN, "MainThread", join, frame("<module>", "/job/train.py"))
    writer, reader = thread(WRITER, "w", IN_READ), thread(READER, "r", IN_READ)
    assert of_main(main, writer, reader) == ("thread", [(READER, "end")])


def test_a_queue_that_another_thread_has() -> None:
    get = frame("Queue.get", "/usr/lib/python3.11/queue.py", self="<Queue at 0xa>")
    wait = frame("Condition.wait", THREADING, self="<Condition at 0xb>")
    main = thread(MAIN, "MainThread", wait, get, frame("train", "/job/train.py"))
    feeds = thread(WRITER, "w", frame("feed", "/job/data.py", out="<Queue at 0xa>"))
    assert of_main(main, feeds, thread(READER, "r", IN_READ)) == ("queue", [(WRITER, "shares")])


def test_a_lock_of_the_same_object() -> None:
    """py-spy shows no attributes: that both are methods of one object makes it likely."""
    main = thread(MAIN, "MainThread", frame("add", "/job/store.py", self="<Store at 0xc>"))
    holds = thread(WRITER, "w", frame("flush", "/job/store.py", 9, self="<Store at 0xc>"))
    assert of_main(main, holds, thread(READER, "r", IN_READ)) == ("lock", [(WRITER, "beside")])
    # Two that wait at the same line do not wait for each other.
    same = thread(WRITER, "w", frame("add", "/job/store.py", self="<Store at 0xc>"))
    told = waits([main, same], MAIN, {MAIN, WRITER})
    assert [each["owners"] for each in told] == [[], []]


def test_no_thread_is_likely() -> None:
    """Of two that are as likely none is named; the only one in the program's code is."""
    wait = frame("Event.wait", THREADING, self="<Event at 0xb>")
    main = thread(MAIN, "MainThread", wait, frame("train", "/job/train.py"))
    library = thread(READER, "pool", frame("_worker", f"{FUTURES}/thread.py"))
    one, two = thread(WRITER, "w", IN_READ), thread(103, "x", IN_READ)
    assert of_main(main, one, two) == ("event", [])
    assert of_main(main, one, library) == ("event", [(WRITER, "alone")])


def test_a_future_of_a_pool() -> None:
    """Of a thread that runs a task; not of one without work."""
    result = frame("Future.result", f"{FUTURES}/_base.py", self="<Future at 0xb>")
    main = thread(MAIN, "MainThread", result, frame("train", "/job/train.py"))
    runs = thread(WRITER, "w", IN_READ, frame("_WorkItem.run", f"{FUTURES}/thread.py"))
    idle = thread(READER, "r", frame("_worker", f"{FUTURES}/thread.py"))
    assert of_main(main, runs, idle) == ("future", [(WRITER, "run")])


def test_a_thread_that_waits_for_none() -> None:
    """In a system call of its own, its line says nothing about a lock."""
    main = thread(MAIN, "MainThread", IN_READ)
    assert of_main(main, thread(WRITER, "w", IN_READ), in_futex=False) == ("", [])
