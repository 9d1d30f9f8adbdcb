"""thread_links.py: threads of a process that wait for each other -> links of a chain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.evidence import Seen
from rankdbg.verdicts.hangs.patience import owing_thread_moves
from rankdbg.verdicts.waits.thread_links import (
    have_tasks_moved,
    is_certain_circle,
    is_circle,
    is_copied,
    native_ids,
)
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence, follow
from rankdbg.verdicts.waits.wait_links import Link, last_place
from rankdbg.wire.answers import ThreadOwner, ThreadWaits, WaitingThread
from rankdbg.wire.node_answers import AwaitedThing, ThreadThings, WaitingProcess, WaitOwners

RANK = Rank(ProcessKey("a", 100, 1), "job", number=3, world=8)
MAIN, PREFETCH, WRITER = 11, 12, 13
NAMES = {MAIN: "MainThread", PREFETCH: "Prefetch", WRITER: "Writer"}
LINE = Frame("fetch", "/home/me/data.py", 41)


def thread(ident: int, kind: str = "", *owners: ThreadOwner, held: bool = True) -> WaitingThread:
    name = NAMES.get(ident, f"T{ident}")
    awaits = "self._lock" if kind else ""
    return WaitingThread(ident, name, ident + 1000, ident == MAIN, LINE, kind, awaits, owners, held)


def chain(*threads: WaitingThread, forked: bool = False, **more: object) -> tuple[Link, ...]:
    waits = {RANK.process: ThreadWaits(threads, forked)}
    return follow(RANK, OwnerEvidence(threads=waits, **more))  # type: ignore[arg-type]


def texts(links: tuple[Link, ...]) -> list[str]:
    return [f"{link.thing} {link.whom.name}" for link in links]


def test_lock_held_by_a_thread() -> None:
    """With the line at which it was taken, and what shows it."""
    main = thread(MAIN, "lock", ThreadOwner(PREFETCH, "with", LINE))
    links = chain(main, thread(PREFETCH))
    assert texts(links) == ["the lock self._lock, held by thread Prefetch (fetch data.py:41)"]
    assert links[0].evidence == (
        "thread Prefetch is inside `with self._lock` (fetch data.py:41)",
        "thread Prefetch is in fetch data.py:41",
    )
    assert last_place(links) == ("a", 100)


def test_from_the_thread_to_a_process() -> None:
    """What the kernel says of that thread, not of the main one."""
    main = thread(MAIN, "lock", ThreadOwner(PREFETCH, "owner"))
    things = ThreadThings(1012, (AwaitedThing("pipe", "a pipe", (7,)),))
    behind = WaitOwners((WaitingProcess(7, 1, "rsync"),), (things,))
    waits = ThreadWaits((main, thread(PREFETCH)))
    assert native_ids(waits) == [1012]
    links = chain(main, thread(PREFETCH), of_threads={RANK.process: behind})
    assert texts(links)[1:] == ["a pipe, of pid 7 (rsync)"]
    assert last_place(links) == ("a", 7)


def test_circle() -> None:
    one = thread(MAIN, "lock", ThreadOwner(WRITER, "with", LINE))
    two = thread(WRITER, "lock", ThreadOwner(MAIN, "with", LINE))
    links = chain(one, two)
    assert links[-1].whom.name == "its main thread (fetch data.py:41)"
    assert is_circle(links)
    assert not is_circle(links[:1])


def test_lock_copied_by_a_fork() -> None:
    """An RLock's owner that does not exist; a Lock that no thread holds is said to be likely."""
    gone = chain(thread(MAIN, "lock", ThreadOwner(0, "gone")), forked=True)
    nobody = chain(thread(MAIN, "lock"), forked=True)
    assert gone[0].whom.name.startswith("a thread that does not exist: the process was forked")
    assert nobody[0].whom.name.startswith("no thread of the process: probably the process was")
    assert is_copied(gone[0])
    assert is_copied(nobody[0])


def test_owner_that_has_ended() -> None:
    """Without a fork nothing is said about why no thread has it."""
    links = chain(thread(MAIN, "lock", ThreadOwner(0, "gone")))
    assert not is_copied(links[0])
    assert texts(chain(thread(MAIN, "lock"))) == ["the lock self._lock, held by no known thread"]


def test_nobody_fills_a_queue() -> None:
    """An agent knows all threads that use it; from outside some may not be seen."""
    waiting = thread(MAIN, "queue")
    assert texts(chain(waiting)) == ["the queue self._lock, for no known thread"]
    told = {RANK.process: ThreadWaits((waiting,), outside=True)}
    assert follow(RANK, OwnerEvidence(threads=told)) == ()


def test_likely_owner() -> None:
    """From outside: said to be probable, with what makes it so; never a certain circle."""
    one = thread(MAIN, "lock", ThreadOwner(WRITER, "beside"))
    two = thread(WRITER, "lock", ThreadOwner(MAIN, "alone"))
    links = chain(one, two)
    assert links[0].thing == "the lock self._lock, probably held by"
    assert links[0].evidence[0] == "thread Writer has the same objects among its variables"
    assert is_circle(links)
    assert not is_certain_circle(links)


def test_likely_owner_of_an_event() -> None:
    """The thread that waits for this one's end is the only other: that it should set the event is a
    guess, and no circle."""
    one = thread(MAIN, "thread", ThreadOwner(WRITER, "end"))
    two = thread(WRITER, "event", ThreadOwner(MAIN, "alone"))
    links = chain(one, two)
    assert links[1].whom.id == links[0].who.id
    assert not is_circle(links)


def test_lock_that_is_free_by_now() -> None:
    """It was released between two looks: nobody is named."""
    assert chain(thread(MAIN, "lock", held=False), forked=True) == ()


def test_one_of_several() -> None:
    """The chain ends there."""
    main = thread(MAIN, "event", *(ThreadOwner(each, "set") for each in (21, 22, 23, 24)))
    links = chain(main, *(thread(each) for each in (21, 22, 23, 24)))
    assert texts(links) == [
        "the event self._lock, set by one of the threads T21, T22, T23 and 1 more"
    ]


def test_thread_that_moves() -> None:
    """The twin: one that was seen at different lines may come to the release; another thread of
    the process says nothing."""
    links = chain(thread(MAIN, "lock", ThreadOwner(PREFETCH, "with", LINE)), thread(PREFETCH))

    def seen(name: str, *lines: int) -> Seen:
        frames = [LINE._replace(line=line) for line in lines]
        return Seen(RANK, [(Stack(name, False, (frame,)),) for frame in frames])

    assert owing_thread_moves(seen("Prefetch", 42, 44), links)
    assert not owing_thread_moves(seen("Prefetch", 42, 42), links)
    assert not owing_thread_moves(seen("Writer", 42, 44), links)


def test_nothing_is_awaited() -> None:
    assert chain(thread(MAIN), thread(PREFETCH)) == ()


EDGES = st.lists(st.tuples(st.integers(11, 18), st.integers(0, 20)), max_size=20)


@given(EDGES, st.booleans())
def test_chains_end(edges: list[tuple[int, int]], forked: bool) -> None:
    """Whatever waits for whatever, also for threads that are not there."""
    threads = [
        thread(each, "lock", *(ThreadOwner(to, "with") for who, to in edges if who == each))
        for each in range(11, 19)
    ]
    assert len(chain(*threads, forked=forked)) <= 9


STEP, SAVE, LOAD = 21, 22, 23


def task(ident: int, name: str, kind: str = "", *owners: int, **more: object) -> WaitingThread:
    how = {"lock": "with", "queue": "put", "event": "set"}.get(kind, "await")
    owing = tuple(ThreadOwner(owner, how) for owner in owners)
    fields = {"where": LINE, "kind": kind, "owners": owing, "task": True, **more}
    return WaitingThread(ident, name, **fields)  # type: ignore[arg-type]


def in_loop(*tasks: WaitingThread) -> tuple[Link, ...]:
    """Of a main thread whose event loop runs the first of these."""
    return chain(thread(MAIN, "task", ThreadOwner(tasks[0].id, "await")), *tasks)


def test_tasks_up_to_one_that_sleeps() -> None:
    links = in_loop(task(STEP, "step", "task", SAVE), task(SAVE, "save", "sleep", awaits="9 s"))
    assert [text.strip() for text in texts(links)] == [
        "task step (fetch data.py:41)",
        "task save (fetch data.py:41)",
        "a sleep of 9 s",
    ]
    assert not is_circle(links)


def test_of_several_tasks_the_last_to_act() -> None:
    """One of the two that are awaited waits for the other."""
    both = task(STEP, "step", "task", SAVE, LOAD)
    links = in_loop(both, task(SAVE, "save", "lock", LOAD), task(LOAD, "load", "sleep"))
    assert links[1].whom.name.startswith("task load ")
    neither = in_loop(both, task(SAVE, "save", "sleep"), task(LOAD, "load", "sleep"))
    assert neither[-1].whom.name == "one of the tasks save, load"


def test_tasks_in_a_circle() -> None:
    """Those that serve each other at two queues may only have no work."""
    for kind, certain in (("lock", True), ("task", True), ("queue", False), ("event", False)):
        links = in_loop(task(STEP, "a", kind, SAVE), task(SAVE, "b", kind, STEP))
        assert is_circle(links)
        assert is_certain_circle(links) is certain, kind


def test_lock_of_a_task_that_has_ended() -> None:
    (_, link) = in_loop(task(STEP, "step", "lock", held=True))
    assert link.whom.name.startswith("no task that still runs")


def test_stream_of_a_task() -> None:
    """Of all that the loop waits for, the one with its descriptor."""
    things = tuple(AwaitedThing("pipe", "a pipe", (7 + n,), descriptor=5 + n) for n in range(2))
    told = WaitingProcess(100, 1, "python", things=things)
    owners = WaitOwners((told, WaitingProcess(7, 1, "cat"), WaitingProcess(8, 1, "rsync")))
    main = thread(MAIN, "task", ThreadOwner(STEP, "await"))
    tasks = main, task(STEP, "step", "stream", descriptor=6)
    assert chain(*tasks, owners={RANK.process: owners})[-1].whom.name == "pid 8 (rsync)"


def test_tasks_that_get_what_they_wait_for_move() -> None:
    """One that sleeps again, or waits for a while again, may only look again."""

    def moved(kind: str, before: int, after: int) -> bool:
        looks = [ThreadWaits((task(STEP, "step", kind, wait=wait),)) for wait in (before, after)]
        return have_tasks_moved(*looks)

    assert moved("lock", 1, 2)
    assert not moved("lock", 1, 1)
    assert not moved("sleep", 1, 2)
    assert not moved("task", 0, 0)
    assert have_tasks_moved(ThreadWaits((task(STEP, "step", "lock", wait=1),)), ThreadWaits())
