"""Whom to look at closely, when looking costs seconds a rank."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.frontends.reports.stacks import StackReport
from rankdbg.session import Sampled, Session
from rankdbg.types import Rank, Silence


def suspects(seen: Sequence[Sampled]) -> list[Rank]:
    """The ranks of all groups but the largest; if all are in one, its lowest."""
    groups = StackReport(seen, [], []).main_groups  # smallest first
    if not groups:
        return []
    *others, largest = groups
    few = [rank for group in others for rank in group.members]
    return few or [min(largest.members, key=lambda rank: (rank.number or 0, rank.process))]


def look_closely_at_suspects(
    session: Session, ranks: Sequence[Rank], engine: str, threads: str, with_locals: bool
) -> tuple[list[Sampled], list[Silence]]:
    """All ranks at a glance, and the suspects among them with an engine that takes its time."""
    glance, silent = session.stacks(ranks, threads=threads, with_locals=with_locals)
    chosen = suspects(glance)
    close, _ = session.stacks(chosen, threads=threads, engine=engine, with_locals=with_locals)
    by_process = {sampled.rank.process: sampled for sampled in close}
    return [by_process.get(sampled.rank.process, sampled) for sampled in glance], silent
