"""Threads and tasks of one process that wait for each other: what agents tell -> links of a chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankdbg.process.user_code import short_name
from rankdbg.types import Frame
from rankdbg.verdicts.waits.wait_links import MUTEX, Link, Party, ProcessPlace
from rankdbg.wire.answers import ThreadOwner, ThreadWaits, WaitingThread

MAIN = 0  # stands for the main thread, whose identifier only an agent knows
_MANY = 3  # threads are named one by one
_THINGS = {
    "lock": "the lock {name}, held by",
    "thread": "the end of",
    "event": "the event {name}, set by",
    "condition": "the condition {name}, notified by",
    "semaphore": "the semaphore {name}, held by",
    "barrier": "the barrier {name}, for",
    "queue": "the queue {name}, for",
    "future": "the future {name}, set by",
    "import": "the import of {name}, by",
    "task": "",
    "child": "the end of a child, through",
}
_BY_SIGN = {
    "run": "a task, run by",
    "queued": "a task, queued behind that of",
    "await": "",
    "loop": "a coroutine, to be run by the event loop of",
}
# Seen from outside: what is likely, and not known.
_LIKELY = {
    "shares": "has the same {kind} among its variables",
    "beside": "has the same objects among its variables",
    "alone": "is the only other thread in the program's code",
}
# What tasks pass on to each other.
_PASSED = ("task", "lock", "event", "condition", "semaphore", "barrier", "queue")
PROBABLY = "probably"
TASK = "task "  # with this, the names of tasks begin
NO_THREAD = "no known thread"
_COPIED = "the process was forked while another thread held it"


def find(waits: ThreadWaits, thread: int) -> WaitingThread | None:
    """One with this identifier, or the main one."""
    return next((t for t in waits.threads if t.id == thread or (thread == MAIN and t.main)), None)


def number_of(thread: WaitingThread) -> int:
    return MAIN if thread.main else thread.id


def native_ids(waits: ThreadWaits) -> list[int]:
    """Of the threads that may owe something, and wait for no other thread themselves."""
    owed = {owner.thread for thread in waits.threads for owner in thread.owners}
    return [
        thread.native
        for thread in waits.threads
        if thread.id in owed and not thread.kind and not thread.main and thread.native
    ]


def links(
    place: ProcessPlace, who: Party, thread: int, waits: ThreadWaits
) -> Iterator[tuple[Link, int | None]]:
    """What a thread waits for, and the thread that owes it; None if that is none, or one of
    several."""
    waiting = find(waits, thread)
    if waiting is None or not waiting.kind:
        return
    if waiting.kind == "sleep":
        asleep = Party("thread", "", waiting.awaits)
        yield Link(who, "sleeps for", asleep, thing="a sleep of"), None
        return
    if not waiting.owners:
        if waiting.kind == "lock" and waiting.held and waits.forked and not waiting.task:
            whom = absent_thread(f"no thread of the process: probably {_COPIED}")
            yield _link(waiting, who, whom), None
        elif waiting.kind in _THINGS and not waiting.child and _is_complete(waiting, waits):
            yield _link(waiting, who, absent_thread(_nobody(waiting))), None
        return
    if all(owner.how == "gone" for owner in waiting.owners):
        why = _COPIED if waits.forked else "it has ended without releasing it"
        yield _link(waiting, who, absent_thread(f"a thread that does not exist: {why}")), None
        return
    owners = [(owner, found) for owner in waiting.owners if (found := find(waits, owner.thread))]
    owners = _last_to_act(owners, waits)
    if len(owners) == 1:
        (owner, found) = owners[0]
        whom = party(place, found, owner.where)
        yield _link(waiting, who, whom, _evidence(waiting, owner, found)), number_of(found)
    elif owners:
        several = [found for _, found in owners]
        # If all of them wait for the same, any leads to it.
        same = len({(each.kind, each.owners) for each in several}) == 1 and several[0].owners
        yield _link(waiting, who, _several(several)), number_of(several[0]) if same else None


def _last_to_act(
    owners: list[tuple[ThreadOwner, WaitingThread]], waits: ThreadWaits
) -> list[tuple[ThreadOwner, WaitingThread]]:
    """Without those that wait for another one of them."""
    idents = {found.id for _, found in owners}
    last = [each for each in owners if not _awaited_by(each[1], waits) & (idents - {each[1].id})]
    return last or owners


def _awaited_by(thread: WaitingThread, waits: ThreadWaits) -> set[int]:
    """All for whom it waits, however many are between."""
    by_ident = {each.id: each for each in waits.threads}
    seen: set[int] = set()
    ahead = [thread]
    while ahead:
        new = {owner.thread for owner in ahead.pop().owners} - seen
        seen |= new
        ahead += [by_ident[ident] for ident in new if ident in by_ident]
    return seen


def _is_complete(waiting: WaitingThread, waits: ThreadWaits) -> bool:
    """Whether all threads that could owe it were looked at: an agent knows whose code uses a thing,
    but not who is to end a thread, or what C does."""
    is_free = waiting.kind == "lock" and not waiting.held
    return waiting.task or (waiting.kind in _PASSED and not is_free and not waits.outside)


def _nobody(waiting: WaitingThread) -> str:
    if waiting.kind == "lock" and waiting.held and waiting.task:
        return "no task that still runs: one that has ended has not released it"
    return "no known task or thread" if waiting.task else NO_THREAD


def party(place: ProcessPlace, thread: WaitingThread, holds: Frame | None = None) -> Party:
    """With where it holds, or where it is."""
    at = holds or thread.where
    if thread.main:
        return main_party(place, at)
    where = f" ({frame_text(at)})" if at else ""
    if thread.task:
        name = f"{TASK}{thread.name}{where}"
        return Party("thread", f"{place.host}/{place.pid}/task {thread.id}", name)
    return Party("thread", f"{place.host}/{place.pid}/{thread.id}", f"thread {thread.name}{where}")


def main_party(place: ProcessPlace, at: Frame | None) -> Party:
    where = f" ({frame_text(at)})" if at else ""
    return Party("thread", f"{place.host}/{place.pid}", f"its main thread{where}")


def absent_thread(name: str) -> Party:
    return Party("thread", "", name)


def copied_thread() -> Party:
    return absent_thread(f"a thread that does not exist: {_COPIED}")


def is_copied(link: Link) -> bool:
    """Whether a lock is held by no thread because a fork has copied it."""
    return link.whom.kind == "thread" and link.whom.name.endswith(_COPIED)


def is_task(party: Party) -> bool:
    return party.kind == "thread" and party.name.startswith(TASK)


def is_circle(chain: Sequence[Link]) -> bool:
    """Whether threads of one process wait for each other in the end. A guess at who may set an event
    does not make one: the thread that waits for this one is often the only other."""
    if not chain or (PROBABLY in chain[-1].thing and not chain[-1].thing.startswith("the lock")):
        return False
    last = chain[-1].whom
    return last.kind == "thread" and last.id in {link.who.id for link in chain}


def is_certain_circle(chain: Sequence[Link]) -> bool:
    """Whether each of them holds what another waits for, or is awaited itself. That a task will put
    something into a queue is only likely: two that serve each other wait so if there is no work."""
    held = all(
        link.thing in ("", MUTEX, _THINGS["thread"])
        or (link.thing.startswith("the lock") and link.thing.endswith(", held by"))
        for link in chain
    )
    return held and is_circle(chain)


def have_tasks_moved(before: ThreadWaits, after: ThreadWaits) -> bool:
    """Whether a task that waited for another one has got what it waited for. Those that sleep, or
    wait for a while and try again, do not count."""
    now = {each.id: each.wait for each in after.threads if each.task}
    waited = [
        each for each in before.threads if each.wait and (each.kind in _PASSED or each.owners)
    ]
    return any(now.get(each.id) not in (0, each.wait) for each in waited)


def _link(waiting: WaitingThread, who: Party, whom: Party, evidence: tuple[str, ...] = ()) -> Link:
    owner = waiting.owners[0] if waiting.owners else None
    thing = _BY_SIGN.get(owner.how) if owner else None
    if thing is None:
        # The waiting function has no name for it.
        thing = " ".join(_THINGS[waiting.kind].format(name=waiting.awaits).split())
        thing = thing.replace(" ,", ",")
    if owner is not None and owner.how == "release":
        thing = thing.replace("held by", "released by")
    if owner is not None and owner.how in _LIKELY:
        thing = thing.replace(", ", f", {PROBABLY} ")
    return Link(who, f"waits for {thing}".strip(), whom, evidence, thing=thing)


def _several(owners: Sequence[WaitingThread]) -> Party:
    names = ", ".join(owner.name for owner in owners[:_MANY])
    more = f" and {len(owners) - _MANY} more" if len(owners) > _MANY else ""
    kind = "tasks" if all(owner.task for owner in owners) else "threads"
    return Party("thread", "", f"one of the {kind} {names}{more}")


def _evidence(waiting: WaitingThread, owner: ThreadOwner, thread: WaitingThread) -> tuple[str, ...]:
    who = f"{TASK if thread.task else 'thread '}{thread.name}"
    who = "the main thread" if thread.main else who
    at = f" ({frame_text(owner.where)})" if owner.where else ""
    thing = owner.name or waiting.awaits or f"the {waiting.kind}"
    match owner.how:
        case "import":
            first = f"Python has {who} as the one that imports {waiting.awaits}"
        case "owner":
            first = f"Python has {who} as the owner of {thing}{at}"
        case "with":
            first = f"{who} is inside `{'async ' * thread.task}with {thing}`{at}"
        case "acquire":
            first = f"{who} has called {thing}.acquire() and not release(){at}"
        case "run":
            first = f"{who} runs the task"
        case "end" | "queued" | "await" | "loop":
            first = ""
        case how if how in _LIKELY:
            first = f"{who} {_LIKELY[how].format(kind=waiting.kind)}"
        case call:
            first = f"{who} is in a function that calls {thing}.{call}(){at}"
    is_at = f"{who} is in {frame_text(thread.where)}" if thread.where else ""
    return tuple(filter(None, (first, is_at)))


def frame_text(frame: Frame) -> str:
    return f"{frame.function} {short_name(frame.file)}:{frame.line}"
