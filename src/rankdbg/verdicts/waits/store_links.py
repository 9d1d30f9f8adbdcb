"""A rank that waits for a key of torch's store: what agents tell of all ranks -> who is to set it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rankdbg.process.user_code import short_name
from rankdbg.verdicts.waits.wait_links import Link, Party, ProcessPlace, process_at
from rankdbg.wire.answers import StoreKey, ThreadWaits

_SETS = ("set", "multi_set", "compare_set")
KEY = "the key "  # with this, the words for such a wait begin
_NOBODY = "none of the functions that ranks are in"


def links(
    place: ProcessPlace, who: Party, facts: Mapping[ProcessPlace, ThreadWaits]
) -> Iterator[tuple[Link, ProcessPlace | None]]:
    """The key, and the rank that is in a function which sets it; None: none, or several."""
    awaited = awaited_key(facts.get(place, ThreadWaits()))
    if awaited is None:
        return
    setting = {
        other: key
        for other, waits in facts.items()
        for key in waits.keys
        if key.call in _SETS and key.key == awaited.key and not _waits_too(waits, awaited)
    }
    thing = f"{KEY}{awaited.key!r} of the store, set by"
    if len(setting) == 1:
        ((other, key),) = setting.items()
        at = f"{key.where.function} {short_name(key.where.file)}:{key.where.line}"
        proof = f"process {other.pid} is in a function that calls {key.call}({key.key!r}) ({at})"
        yield Link(who, f"waits for {thing}", process_at(other), (proof,), thing), other
        return
    whom = f"one of {len(setting)} ranks whose functions set it" if setting else _NOBODY
    yield Link(who, f"waits for {thing}", Party("process", "", whom), thing=thing), None


def _waits_too(waits: ThreadWaits, key: StoreKey) -> bool:
    """Whether a rank waits for this key itself: it sets none before."""
    own = awaited_key(waits)
    return own is not None and own.key == key.key


def awaited_key(waits: ThreadWaits) -> StoreKey | None:
    """By the main thread."""
    main = {thread.id for thread in waits.threads if thread.main}
    waiting = (key for key in waits.keys if key.thread in main and key.call not in _SETS)
    return next(waiting, None)
