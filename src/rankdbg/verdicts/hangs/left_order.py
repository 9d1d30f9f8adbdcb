"""Of ranks that are in another collective than most, the one that has left the common order: what
they have called, by their histories, tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rankdbg.types import Rank
from rankdbg.verdicts.hangs.accusations import in_order
from rankdbg.verdicts.hangs.culprits import OF_CULPRITS
from rankdbg.verdicts.hangs.judgement import Verdict

_BY_CALLS = ("missing-from-collective", "collective-mismatch")


def name_departed(verdict: Verdict, departed: Iterable[Rank], says: str) -> Verdict:
    """Others that are accused wait for it: they have called what all ranks call. `says`: what it has
    called, and they."""
    if not verdict.findings or verdict.findings[0].cause not in _BY_CALLS:
        return verdict
    first, *rest = verdict.findings
    left = {rank.process for rank in departed}
    guilty = [rank for rank in first.ranks if rank.process in left]
    if not guilty or len(guilty) == len(first.ranks):
        return verdict
    signs = tuple(sign for sign in first.signs if sign.seen.rank.process in left)
    innocent = tuple(sign for sign in first.signs if sign not in signs)
    cause, why, fix = OF_CULPRITS["mismatch"]
    says = f"left the common order: {says}"
    first = replace(
        first, cause=cause, ranks=in_order(guilty), signs=signs, says=says, why=why, next=fix
    )
    waiting = (*verdict.waiting, *innocent)
    return replace(verdict, findings=(first, *rest), waiting=waiting)
