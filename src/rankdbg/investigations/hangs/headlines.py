"""First lines of a verdict that take several facts together."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.investigations.rank_labels import named
from rankdbg.text.amounts import duration
from rankdbg.types import Rank
from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.judgement import Verdict


def how_ranks_wait(verdict: Verdict, all_ranks: Sequence[Rank], among: Sequence[Rank]) -> str:
    """In a job that may be making progress. `among`: all ranks, and others that are named."""
    waited = verdict.waited
    is_usual = waited is not None and waited <= max(1.0, 10 * (verdict.usual or 0.0))
    if not verdict.suspects or is_usual:
        return "ranks wait, but no longer than usual"
    ranks = [sign.seen.rank for sign in verdict.waiting]
    several = len(ranks) > 1
    wait = "wait" if several else "waits"
    if waited is not None:
        wait = f"{'have' if several else 'has'} waited {duration(waited)}"
    suspects = [sign.seen.rank for sign in verdict.suspects]
    return f"{named(ranks, all_ranks)} {wait} for {named(suspects, among)}, which may be at work"


def of_starved(
    verdict: Verdict, names: Sequence[str], all_ranks: Sequence[Rank], among: Sequence[Rank]
) -> str:
    """`names`: of those that get no processor."""
    ready = f"{' and '.join(names)} {'waits' if len(names) == 1 else 'wait'} for a processor"
    if not verdict.suspects:
        return ready
    return f"{how_ranks_wait(verdict, all_ranks, among)}; {ready}"


def of_dumps(verdict: Verdict, finding: Accusation, all_ranks: Sequence[Rank]) -> str:
    culprit = named(finding.ranks, all_ranks)
    waiting = named([sign.seen.rank for sign in verdict.waiting], all_ranks)
    verb = "waits" if len(verdict.waiting) == 1 else "wait"
    text = f"{waiting} {verb} for {culprit}" if waiting else ""
    if verdict.stuck:
        return "The job is stuck, by its stack dumps" + (f": {text}." if waiting else ".")
    text = text[:1].upper() + text[1:] if text else f"It may be held up by {culprit}"
    return f"{text}; dumps cannot tell whether it makes progress."
