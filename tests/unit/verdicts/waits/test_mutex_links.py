"""mutex_links.py: threads that wait for a mutex of C -> links of a chain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rankdbg.types import Frame, ProcessKey, Rank
from rankdbg.verdicts.waits.thread_links import is_certain_circle, is_circle, is_copied
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence, follow
from rankdbg.verdicts.waits.wait_links import Link, last_place
from rankdbg.wire.answers import ThreadOwner, ThreadWaits, WaitingThread
from rankdbg.wire.node_answers import (
    AwaitedMutex,
    AwaitedThing,
    ThreadThings,
    WaitingProcess,
    WaitOwners,
)

RANK = Rank(ProcessKey("a", 100, 1), "job", number=1, world=2)
MAIN, WRITER, LOADER = 100, 101, 102  # the kernel's numbers
LINE = Frame("fetch", "/home/me/data.py", 41)


def waits(native: int, holder: int, **more: object) -> ThreadThings:
    return ThreadThings(native, mutex=AwaitedMutex(holder, 0x7F10), pid=100, **more)  # type: ignore[arg-type]


def chain(*threads: ThreadThings, agent: ThreadWaits | None = None) -> tuple[Link, ...]:
    told = {RANK.process: WaitOwners((WaitingProcess(7, 1, "rsync"),), threads)}
    by_agent = {RANK.process: agent} if agent else {}
    return follow(RANK, OwnerEvidence(threads=by_agent, of_threads=told))


def texts(links: tuple[Link, ...]) -> list[str]:
    return [f"{link.thing} {link.whom.name}" for link in links]


def test_thread_of_c() -> None:
    """Known by the kernel alone: by its name there, or its number, and what it is in."""
    for name, shown in (("loader", "loader"), ("", "102")):
        asleep = ThreadThings(LOADER, name=name, call="clock_nanosleep")
        links = chain(waits(MAIN, LOADER), asleep)
        assert texts(links) == [
            f"a mutex, held by thread {shown} (in the system call clock_nanosleep)"
        ]
        assert links[0].evidence == (
            "the mutex at 0x7f10 of process 100 has thread 102 as its owner",
        )
        assert last_place(links) == ("a", 100)


def test_from_one_to_the_next() -> None:
    """Through two mutexes to a process."""
    pipe = AwaitedThing("pipe", "a pipe", (7,))
    links = chain(
        waits(MAIN, WRITER),
        waits(WRITER, LOADER, name="Writer", where=LINE),
        ThreadThings(LOADER, (pipe,), name="loader"),
    )
    assert texts(links) == [
        "a mutex, held by thread Writer (fetch data.py:41)",
        "a mutex, held by thread loader",
        "a pipe, of pid 7 (rsync)",
    ]


def test_thread_that_an_agent_knows() -> None:
    """By its name and line; and what it waits for in Python is followed: here the main thread."""
    main = WaitingThread(1, "MainThread", MAIN, main=True, where=LINE)
    held = (ThreadOwner(1, "with", LINE),)
    writer = WaitingThread(2, "Writer", WRITER, where=LINE, kind="lock", owners=held, held=True)
    known = ThreadWaits((main, writer))
    links = chain(waits(MAIN, WRITER), ThreadThings(WRITER), agent=known)
    assert texts(links) == [
        "a mutex, held by thread Writer (fetch data.py:41)",
        "the lock, held by its main thread (fetch data.py:41)",
    ]
    assert is_certain_circle(links)


def test_mutex_that_is_taken_twice() -> None:
    """A circle of one."""
    links = chain(waits(MAIN, MAIN))
    assert texts(links) == ["a mutex, held by its main thread"]
    assert is_certain_circle(links)


def test_mutex_copied_by_a_fork() -> None:
    """Held by a thread of the parent, for ever."""
    (link,) = chain(waits(MAIN, 0))
    assert is_copied(link)


def test_no_mutex() -> None:
    """The twin: in the same system call, and nobody holds anything."""
    assert chain(ThreadThings(MAIN, call="futex"), ThreadThings(LOADER)) == ()


EDGES = st.lists(st.tuples(st.integers(100, 107), st.integers(100, 109)), max_size=20)


@given(EDGES, st.booleans())
def test_chains_end(edges: list[tuple[int, int]], knows: bool) -> None:
    """Whatever holds whatever, also threads that are not told of; each is left once."""
    known = ThreadWaits(tuple(WaitingThread(n, f"T{n}", n, n == MAIN) for n in range(100, 104)))
    links = chain(*(waits(*edge) for edge in edges), agent=known if knows else None)
    left = [link.who.id for link in links]
    assert len(left) == len({*left})
    assert is_circle(links) == (bool(links) and links[-1].whom.id in left)
