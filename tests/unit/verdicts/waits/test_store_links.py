"""store_links.py: the key of a store that a rank waits for -> who is to set it."""

from __future__ import annotations

from rankdbg.types import Frame, ProcessKey, Rank
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence, follow
from rankdbg.wire.answers import StoreKey, ThreadWaits, WaitingThread

RANKS = [Rank(ProcessKey("a", 100 + n, 1), "job", number=n) for n in range(3)]
LINE = Frame("prepare", "/home/me/train.py", 41)
MAIN = WaitingThread(1, "MainThread", main=True)


def waits(*keys: tuple[str, str]) -> ThreadWaits:
    return ThreadWaits((MAIN,), keys=tuple(StoreKey(key, call, 1, LINE) for call, key in keys))


def chain(*ranks: ThreadWaits) -> list[str]:
    told = {rank.process: each for rank, each in zip(RANKS, ranks, strict=False)}
    links = follow(RANKS[0], OwnerEvidence(threads=told))
    return [f"{link.thing} {link.whom.name}" for link in links]


def test_function_that_sets_the_key() -> None:
    (step,) = chain(waits(("get", "k")), waits(("set", "other")), waits(("set", "k")))
    assert step == "the key 'k' of the store, set by process 102"


def test_ranks_that_wait_for_a_key_of_each_other() -> None:
    steps = chain(waits(("get", "a"), ("set", "b")), waits(("wait", "b"), ("set", "a")))
    assert [step[-11:] for step in steps] == ["process 101", "process 100"]


def test_key_that_nobody_is_about_to_set() -> None:
    (nobody,) = chain(waits(("get", "k")), waits(("get", "k")))
    assert nobody.endswith("set by none of the functions that ranks are in")
    (several,) = chain(waits(("get", "k")), waits(("set", "k")), waits(("set", "k")))
    assert several.endswith("one of 2 ranks whose functions set it")


def test_ranks_that_wait_for_the_key_themselves() -> None:
    """Their functions set it as well, but not before they have it."""
    both = waits(("get", "k"), ("set", "k"))
    assert chain(both, both, waits(("set", "k"))) == [
        "the key 'k' of the store, set by process 102"
    ]


def test_rank_that_waits_for_no_key() -> None:
    assert chain(waits(("set", "k")), waits(("get", "k"))) == []
