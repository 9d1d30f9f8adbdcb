"""Of ranks that are in another collective than most, the one that has left the common order: what
they have called, by their histories, tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankdbg.verdicts.hangs.accusations import Accusation, in_order
from rankdbg.verdicts.hangs.culprits import OF_CULPRITS
from rankdbg.verdicts.hangs.hang_rules import Sign
from rankdbg.verdicts.hangs.judgement import Verdict
from rankdbg.verdicts.histories.departures import Departure

_BY_CALLS = ("missing-from-collective", "collective-mismatch")


def name_departed(verdict: Verdict, departed: Departure, says: str) -> Verdict:
    """Others that are accused wait for it: they have called what all ranks call. `says`: what it has
    called, and they."""
    if not verdict.findings or verdict.findings[0].cause not in _BY_CALLS:
        return verdict
    first, *rest = verdict.findings
    left = {rank.process for rank in departed.ranks}
    involved = [*first.signs, *(_other_side(verdict, departed) if _is_undecided(first) else ())]
    culprits = tuple(sign for sign in involved if sign.seen.rank.process in left)
    named = in_order(sign.seen.rank for sign in culprits)
    if not culprits or named == in_order(first.ranks):
        return verdict
    cause, why, fix = OF_CULPRITS["mismatch"]
    says = f"left the common order: {says}"
    accused = replace(first, cause=cause, ranks=named, signs=culprits, says=says, why=why, next=fix)
    waiting = (sign for sign in (*verdict.waiting, *first.signs) if sign not in culprits)
    return replace(verdict, findings=(accused, *rest), waiting=tuple(waiting))


def _is_undecided(first: Accusation) -> bool:
    """Whether two sides wait for each other, and the recorders do not tell which left the order: the
    one that is accused is then the one for which more ranks wait."""
    return first.culprit is not None and first.culprit.is_undecided


def _other_side(verdict: Verdict, departed: Departure) -> Sequence[Sign]:
    """Those that wait for the accused, if it is these that the departed have left."""
    both = {rank.process for rank in (*departed.ranks, *departed.others)}
    accused = {rank.process for rank in verdict.findings[0].ranks}
    return verdict.waiting if accused <= both else ()
