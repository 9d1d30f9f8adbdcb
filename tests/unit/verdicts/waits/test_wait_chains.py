"""wait_chains.py: facts of machines -> links from a rank to whoever owes what it waits for."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence, follow, unjoined
from rankdbg.wire.node_answers import AwaitedThing, WaitingProcess, WaitOwners


def rank(number: int, host: str = "a") -> Rank:
    return Rank(ProcessKey(host, 100 + number, 1), "job", number=number, world=8)


def pipe(*owners: int) -> AwaitedThing:
    return AwaitedThing("pipe", "a pipe", owners)


def process(pid: int, *things: AwaitedThing) -> WaitingProcess:
    return WaitingProcess(pid, 1, f"python {pid}", things=things)


def told(*facts: tuple[Rank, WaitOwners], **ends: object) -> OwnerEvidence:
    return OwnerEvidence({each.process: owners for each, owners in facts}, **ends)  # type: ignore[arg-type]


def names(evidence: OwnerEvidence) -> list[str]:
    links = follow(rank(0), evidence)
    return [links[0].who.name, *(link.whom.name for link in links)] if links else []


def test_through_a_child_to_a_stranger() -> None:
    """Each is named with its command; whose it is, if it is another user's."""
    lock = AwaitedThing("lock", "/data/index.lock", (9,))
    stranger = WaitingProcess(9, 1, "rsync -a", user="backup")
    facts = WaitOwners((process(100, pipe(7)), process(7, lock), stranger))
    links = follow(rank(0), told((rank(0), facts)))
    assert [link.reason for link in links] == [
        "waits at a pipe for",
        "waits for the lock of /data/index.lock, held by",
    ]
    assert links[-1].whom.name == "pid 9 (rsync -a, of backup)"


def test_other_end_on_another_machine() -> None:
    """Found by its mirrored addresses; and from that rank on."""
    here, there = ("10.0.0.1:50", "10.0.0.2:80"), ("10.0.0.2:80", "10.0.0.1:50")
    connection = AwaitedThing("connection", "socket to 10.0.0.2:80", (), *here)
    first = WaitOwners((process(100, connection),))
    assert unjoined([first]) == [there]
    far = rank(1, host="b")
    second = WaitOwners((process(101, pipe(7)), process(7)))
    evidence = told((rank(0), first), (far, second), ends={there: far})
    links = follow(rank(0), evidence)
    assert [link.whom.place for link in links] == [("b", 101), ("b", 7)]


def test_two_ranks_in_a_circle() -> None:
    """It ends where it began."""
    one = WaitOwners((process(100, pipe(101)), process(101, pipe(100))))
    links = follow(rank(0), told((rank(0), one), (rank(1), one)))
    assert [link.whom.place for link in links] == [("a", 101), ("a", 100)]


def test_one_of_several() -> None:
    """A pipe that many children have inherited is owed by one of them; nobody says by which."""
    facts = WaitOwners((process(100, pipe(7, 8, 9, 10)), *map(process, (7, 8, 9, 10))))
    assert names(told((rank(0), facts)))[-1] == "one of the processes 7, 8, 9 and 1 more"


def test_connections_that_a_fork_has_inherited() -> None:
    """The chain goes to the rank that waits for what it has forked, and from there to that."""
    connection = AwaitedThing("connection", "socket to 127.0.0.1:80", (101, 7))
    waiting = WaitOwners((process(100, connection), process(101, pipe(7)), process(7)))
    links = follow(rank(0), told((rank(0), waiting)))
    assert [link.whom.place for link in links] == [("a", 101), ("a", 7)]
    independent = WaitOwners((process(100, connection), process(101), process(7)))
    assert names(told((rank(0), independent)))[-1] == "one of the processes 101, 7"


def test_nobody_is_known_to_owe_it() -> None:
    """The other end of a connection may be anywhere; that of a pipe is on this machine."""
    connection = AwaitedThing("connection", "socket to 10.0.0.2:80")
    assert names(told((rank(0), WaitOwners((process(100, connection),))))) == []
    assert names(OwnerEvidence()) == []
    assert names(told((rank(0), WaitOwners((process(100, pipe()),)))))[1:] == ["no other process"]
    both = process(100, pipe(), connection)  # of an event loop: one of them is its own
    assert names(told((rank(0), WaitOwners((both,))))) == []


def test_commands_of_a_pipeline() -> None:
    """A shell waits for all of them; the first one owes what the others wait for."""
    fifo = AwaitedThing("fifo", "/data/raw")
    shell = process(7, AwaitedThing("child", "a child", (8, 9, 10)))
    pipeline = process(8, fifo), process(9, pipe(8)), process(10, pipe(9))
    facts = WaitOwners((process(100, pipe(7, 10)), shell, *pipeline))
    chain = names(told((rank(0), facts)))
    assert chain[1:] == [
        "pid 10 (python 10)",
        "pid 9 (python 9)",
        "pid 8 (python 8)",
        "no other process",
    ]


EDGES = st.lists(st.tuples(st.integers(100, 107), st.integers(100, 109)), max_size=20)


@given(EDGES)
def test_chains_end(edges: list[tuple[int, int]]) -> None:
    """Whatever waits for whatever: each process is left at most once, and links join."""
    ranks = [rank(number) for number in range(4)]
    all_processes = [
        process(pid, *(pipe(to) for who, to in edges if who == pid)) for pid in range(100, 110)
    ]
    facts = WaitOwners(tuple(all_processes))
    links = follow(ranks[0], told(*((each, facts) for each in ranks)))
    left = [link.who.place for link in links]
    assert len(left) == len(set(left))
    assert all(a.whom.place == b.who.place for a, b in itertools.pairwise(links))


def test_file_system_of_a_server_elsewhere() -> None:
    """Its name is all that is known, and who else waits for it."""
    rank = Rank(ProcessKey("a", 100, 1), "job", number=1)
    thing = AwaitedThing("mount", "/data (nfs4)", remote="filer:/export", beside=(7, 8, 9, 10))
    told = WaitOwners((WaitingProcess(100, 1, "python", things=(thing,)),))
    (link,) = follow(rank, OwnerEvidence({rank.process: told}))
    assert link.thing == "the file system /data (nfs4), served by"
    assert link.whom.name == "filer:/export"
    assert link.evidence == ("processes 7, 8, 9 and 1 more wait for the same file system",)
