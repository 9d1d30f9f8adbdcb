"""A rank that waits for a file's lock or for an answer, which another rank owes that is in a collective
with it: a chain that goes on from that rank's collective comes back."""

from __future__ import annotations

from dataclasses import replace

from rankdbg.process.user_code import is_user_code
from rankdbg.verdicts.hangs.accusations import Accusation, in_order, waits_for_accused
from rankdbg.verdicts.hangs.case import WAITING, Case
from rankdbg.verdicts.hangs.evidence import Seen
from rankdbg.verdicts.hangs.hang_rules import HangRule, Sign
from rankdbg.verdicts.waits.wait_links import LOCK_OF_FILE, Link, place_of, process_at

HELD_IN_COLLECTIVE = HangRule(
    cause="held-in-collective",
    says="waiting for the lock of a file, which another rank holds while it is in a collective with it",
    why="The ranks wait for each other: one side for the lock, the other, which holds it, in a collective.",
    fix="release the lock before the collective, or let all ranks take it after the collective",
)
OWED_IN_COLLECTIVE = HangRule(
    cause="owed-in-collective",
    says="waiting for an answer of another rank, which is in a collective with it",
    why="The ranks wait for each other: one side for an answer, the other, which should send it, in a "
    "collective.",
    fix="answer before the collective, or in another thread",
)


def follow_into_collective(case: Case, accused: Accusation) -> Accusation:
    """Both sides are named: either may have the wrong order."""
    owing = _owing(case, accused)
    if owing is None or _may_be_served_by_thread(owing.seen):
        return accused
    last, called = accused.behind[-1], owing.words["called"]
    awaited = process_at(place_of(accused.ranks[0]))
    back = Link(last.whom, f"waits in {called} for", awaited, thing=f"{called}, for")
    is_lock = last.thing.startswith(LOCK_OF_FILE)
    rule = HELD_IN_COLLECTIVE if is_lock else OWED_IN_COLLECTIVE
    first = accused.signs[0]
    through = last.thing.removesuffix(", held by").removesuffix(", of")
    return replace(
        accused,
        cause=rule.cause,
        ranks=in_order((*accused.ranks, owing.seen.rank)),
        signs=(*accused.signs, owing),
        says=f"waiting in {first.words['place']} for {through.partition(', for which')[0]}, "
        f"{'held by a rank' if is_lock else 'of a rank'} that is in {called} in {owing.words['place']}",
        why=rule.why,
        next=rule.fix,
        behind=(*accused.behind, back),
    )


def _owing(case: Case, accused: Accusation) -> Sign | None:
    """The rank at which the chain of one that is accused ends, if it waits for that one."""
    if len(accused.ranks) != 1 or not accused.signs or not accused.behind:
        return None
    if accused.signs[0].rule.role in WAITING:  # it waits in a call with others, or for a key
        return None
    whom = accused.behind[-1].whom
    signs = {place_of(sign.seen.rank): sign for sign in case.waiting}
    owing = signs.get(whom.place) if whom.kind == "process" and whom.place else None
    if owing is None or owing.rule.role != "collective" or owing in accused.signs:
        return None
    return owing if waits_for_accused(owing.seen.rank, accused) else None


def _may_be_served_by_thread(seen: Seen) -> bool:
    """Whether another of its threads is in the program's own code, or works: that one may answer,
    or release the lock."""
    threads = seen.others.values()
    return seen.works or any(is_user_code(frame.file) for frames, _ in threads for frame in frames)
