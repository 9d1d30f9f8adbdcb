"""Which jobs run inside another: Ray in a job of Slurm, torchrun in a pod, an accelerate launch in a
Ray actor."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rankdbg.roster.members import Member, Place, by_place


def surrounding_jobs(members: Sequence[Member]) -> dict[str, str]:
    """By job: the one around it, as most of its ranks know it."""
    known = by_place([*members])
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for member in members:
        if member.kind == "rank" and (outer := _outer(member, known)):
            found[member.job][outer] += 1
    around = {job: counted.most_common(1)[0][0] for job, counted in sorted(found.items())}
    return {job: outer for job, outer in around.items() if around.get(outer) != job}


def _outer(member: Member, known: Mapping[Place, Member]) -> str:
    """The job of the nearest ancestor of another one, else what its environment or its pod says."""
    for place in member.places_above:
        ancestor = known.get(place)
        if ancestor is not None and ancestor.alive and ancestor.job != member.job:
            return ancestor.job
    outer = member.text("outer")
    return outer if outer != member.job else ""
