"""Who is accused, of what, and what to do: made from the signs of ranks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.collectives.culprits import Culprit
from rankdbg.verdicts.collectives.worlds import World
from rankdbg.verdicts.hangs.hang_rules import HangRule, Sign, fix_for
from rankdbg.verdicts.waits.store_links import KEY
from rankdbg.verdicts.waits.thread_links import is_certain_circle, is_circle, is_copied, is_task
from rankdbg.verdicts.waits.wait_links import (
    MOUNT,
    MUTEX,
    Link,
    Party,
    ProcessPlace,
    last_of,
    last_place,
    place_of,
)


@dataclass(frozen=True)
class Accusation:
    """Ranks that hold others up, all for one cause."""

    cause: str
    ranks: tuple[Rank, ...]
    signs: tuple[Sign, ...]  # of these ranks, where they could be seen
    says: str
    why: str
    next: str  # what the user can do
    level: int
    culprit: Culprit | None = None
    world: World | None = None  # in which recorders miss the culprit
    party: Party | None = None  # what holds others up, if that is no process
    chain: tuple[Link, ...] = ()  # from one that waits to the culprit
    behind: tuple[
        Link, ...
    ] = ()  # from it, or from whom it holds up, to who owes what it waits for
    waited: float | None = None  # seconds, as a scheduler's tables know
    usual: float | None = None  # seconds that others took for the same


def accuse(signs: Sequence[Sign]) -> Accusation:
    sign = signs[0]
    return Accusation(
        sign.rule.cause,
        ranks_of(signs),
        tuple(signs),
        sign.says,
        sign.rule.why,
        fix_for(signs),
        sign.level,
    )


def ranks_of(signs: Iterable[Sign]) -> tuple[Rank, ...]:
    return in_order(sign.seen.rank for sign in signs)


def in_order(ranks: Iterable[Rank]) -> tuple[Rank, ...]:
    return tuple(sorted(ranks, key=lambda r: (r.number is None, r.number or 0, r.process)))


def waits_for_accused(rank: Rank, accused: Accusation) -> bool:
    """By recorders, where there are any: its collective may be one of other ranks."""
    if accused.world is None:
        return True
    members = {rank.process: number for number, rank in accused.world.ranks.items()}
    wait = accused.world.findings.waits.get(members.get(rank.process, -1))
    accused_numbers = {members.get(each.process) for each in accused.ranks}
    return wait is not None and bool(accused_numbers & {*wait.others})


def with_owners(
    accused: Accusation,
    chains: Mapping[ProcessKey, tuple[Link, ...]],
    places: Collection[ProcessPlace],
) -> Accusation:
    """With who owes what it waits for, or else with one that waits for it. `places`: all ranks'."""
    members = {place_of(rank) for rank in accused.ranks}
    own = [chains[rank.process] for rank in accused.ranks if rank.process in chains]
    to_it = [links for links in chains.values() if last_of(links, places) in members]
    if own:
        accused = replace(accused, behind=own[0])
        accused = _naming_task(_naming_thread(_naming_key(accused)))
    # One that comes from another rank goes on as the rank's own does.
    longest = max(own[:1] + to_it, key=len, default=())
    return _naming_holder(replace(accused, behind=longest))


# Signs that a rank waits for one of its threads, of which a chain says more.
_FOR_THREADS = {
    "lock-cycle", "waits-for-lock", "waits-for-thread", "waits-for-queue", "thread-join", "unknown",
}  # fmt: skip


def _naming_thread(accused: Accusation) -> Accusation:
    first = accused.behind[0]
    if first.whom.kind == "thread" and accused.cause in _FOR_THREADS:
        place = accused.signs[0].words["place"]
        says = f"{first.reason.replace('waits', 'waiting', 1)} {first.whom.name}, in {place}"
        accused = replace(accused, says=says)
    if accused.cause != "fork-with-lock" and any(map(is_copied, accused.behind)):
        why = (
            "fork() copies locks in their current state: a lock held by another thread at that "
            "moment is never released in the child."
        )
        fix = "start such processes with spawn, or fork before threads take locks"
        return replace(accused, cause="fork-with-lock", why=why, next=fix)
    in_circle = is_circle(accused.behind) and last_place(accused.behind) == first.who.place
    if in_circle and accused.cause in _FOR_THREADS:  # an import lock has advice of its own
        return _in_a_circle(accused)
    if first.whom.kind == "thread" and accused.cause in ("lock-cycle", "waits-for-lock", "unknown"):
        why = "The thread has not released it."
        return replace(accused, cause="waits-for-thread", why=why)
    return accused


LOOP_AWAITS = HangRule(
    cause="event-loop-awaits",
    role="outside",
    says="its event loop has nothing to run: a task waits for a lock, queue, thread, child or stream",
    why="No task of the loop can run: each awaits something that has not happened.",
    fix="give the await at the end of the chain a timeout; all waits: rankdbg why --graph",
)
# Signs that the event loop of a rank has nothing to do, of which a chain says more.
_FOR_TASKS = {"idle-server", "unknown"}


def _naming_key(accused: Accusation) -> Accusation:
    """Of a store, for which it waits."""
    thing = accused.behind[0].thing
    if accused.cause != "store-key-never-set" or not thing.startswith(KEY):
        return accused
    key = thing.removesuffix(", set by")
    return replace(accused, says=f"waiting for {key}, in {accused.signs[0].words['place']}")


def _naming_task(accused: Accusation) -> Accusation:
    """The last one of the tasks that wait for each other, and for what it waits."""
    of_tasks = [link for link in accused.behind if is_task(link.who)]
    if not is_task(accused.behind[0].whom) or accused.cause not in _FOR_TASKS:
        return accused
    link = of_tasks[-1] if of_tasks else accused.behind[0]
    says = f"its event loop has nothing to run: {link.who.name} {link.reason} {link.whom.name}"
    if not of_tasks:
        says = f"its event loop has nothing to run until {link.whom.name} continues"
    rule = LOOP_AWAITS
    accused = replace(accused, cause=rule.cause, says=says, why=rule.why, next=rule.fix)
    if is_certain_circle(accused.behind):
        why = "Tasks wait for each other: none of them can continue."
        fix = "take the locks in the same order everywhere"
        return replace(accused, cause="lock-cycle", why=why, next=fix)
    return accused


def _in_a_circle(accused: Accusation) -> Accusation:
    if len(accused.behind) == 1:
        why = "The thread holds this lock already; only an RLock can be taken twice."
        fix = "use threading.RLock, or take the lock once"
        if accused.behind[0].thing == MUTEX:
            why = "The thread holds this mutex already; only a recursive one can be taken twice."
            fix = "use a recursive mutex, or take it once: rankdbg stacks --native shows the calls"
        return replace(accused, cause="waits-for-lock", why=why, next=fix)
    why = "Threads of the process wait for each other: none of them can continue."
    fix = "take the locks in the same order everywhere"
    return replace(accused, cause="lock-cycle", why=why, next=fix)


def _naming_holder(accused: Accusation) -> Accusation:
    """One that is known need not be looked for."""
    last = accused.behind[-1] if accused.behind else None
    if last is None or last.whom.place is None or not accused.signs:
        return accused
    if last.whom.place in {place_of(rank) for rank in accused.ranks}:
        return accused
    there = accused.signs[0].seen.command_prefix
    look = f"{there}ps -fp {last.whom.place.pid}"
    if last.thing.startswith(MOUNT):
        return replace(accused, next=f"look at the process that serves it: {look}")
    if accused.cause == "file-lock":
        return replace(accused, next=f"look at the holder: {look}")
    return accused
