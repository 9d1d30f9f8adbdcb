"""Ranks that wait for a key of the store, which another rank sets only after a collective with them."""

from __future__ import annotations

from dataclasses import replace

from rankdbg.verdicts.hangs.accusations import Accusation, in_order, waits_for_accused
from rankdbg.verdicts.hangs.case import Case
from rankdbg.verdicts.hangs.hang_rules import HangRule, Sign
from rankdbg.verdicts.waits.store_links import KEY
from rankdbg.verdicts.waits.wait_links import Link, place_of, process_at

TOO_LATE = HangRule(
    cause="store-key-set-too-late",
    says="waiting for a key of the store, which another rank sets only after a collective with it",
    why="The ranks wait for each other: one side for the key, the other in a collective that it "
    "must leave before it sets the key.",
    fix="set the key before the collective, or wait for the key after it",
)


def name_both_sides(case: Case, accused: Accusation) -> Accusation:
    """The rank that waits for the key and the one that is to set it: either may have the wrong
    order. If several wait for the same key, the one that is to set it is the odd one out."""
    setter = _setter(case, accused)
    if setter is None:
        return accused
    first = accused.behind[0]
    waiting = [
        sign
        for sign in accused.signs
        if (links := case.chains.get(sign.seen.rank.process))
        and (links[0].thing, links[0].whom) == (first.thing, first.whom)
    ]
    called, key = setter.words["called"], first.thing.removesuffix(", set by")
    awaited = process_at(place_of(waiting[0].seen.rank))
    back = Link(first.whom, f"waits in {called} for", awaited, thing=f"{called}, for")
    signs = (*waiting, setter) if len(waiting) == 1 else (setter,)
    return replace(
        accused,
        cause=TOO_LATE.cause,
        ranks=in_order(sign.seen.rank for sign in signs),
        signs=signs,
        says=f"waiting in {waiting[0].words['place']} for {key}, which is set only after "
        f"{called} in {setter.words['place']}",
        why=TOO_LATE.why,
        next=TOO_LATE.fix,
        behind=(first, back),
    )


def _setter(case: Case, accused: Accusation) -> Sign | None:
    """The one that is to set the key, if it waits for the accused in a collective."""
    first = accused.behind[0] if accused.behind else None
    if accused.cause != "store-key-never-set" or first is None or not first.thing.startswith(KEY):
        return None
    signs = {place_of(sign.seen.rank): sign for sign in case.waiting}
    setter = signs.get(first.whom.place) if first.whom.place else None
    if setter is None or setter.rule.role != "collective" or setter in accused.signs:
        return None
    return setter if waits_for_accused(setter.seen.rank, accused) else None
