"""Which ranks were replaced by a restart: a launcher that starts its ranks again, or the same job
started again after it was killed.

Both ranks have the same role and number. They are two ranks, not two generations of one, if each
has a launcher of its own that still runs (two torchruns in one job). A rank whose launcher was
killed may live on: it is the older generation once a launcher has started its number again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rankdbg.roster.members import Member, Place

Meshes = Mapping[int, Place | None]  # by id of a rank: its living launcher


def number_generations(ranks: Sequence[Member], meshes: Meshes) -> None:
    """Set `generation`: 1 for the first, 2 for the rank that replaced it, and so on."""
    same: dict[tuple[object, ...], list[Member]] = defaultdict(list)
    for rank in ranks:
        rank.generation = 1 + max(0, rank.whole("restart") or 0)
        same[rank.number, rank.text("role"), step_of(rank)].append(rank)
    for several in same.values():
        if len(several) == 1:
            continue
        left = [rank for rank in several if rank.alive and _is_left_behind(rank, several)]
        living = [rank for rank in several if rank.alive and rank not in left]
        dead = [rank for rank in several if not rank.alive]
        replaced = left + [d for d in dead if _is_replaced(d, living, several, meshes)]
        replaced.sort(key=lambda rank: (rank.generation, rank.start))
        for generation, rank in enumerate(replaced, 1):
            rank.generation = max(rank.generation, generation)
        for rank in several:
            if rank not in replaced:
                rank.generation = max(rank.generation, len(replaced) + 1)


def _is_left_behind(rank: Member, several: Sequence[Member]) -> bool:
    """Whether a living rank has outlived its launcher, and another launcher of the same host has
    started its number since."""
    return lost_launcher(rank) and any(
        other.alive
        and other.host == rank.host
        and other.start > rank.start
        and (other.above or _of_another_launcher(rank, other))
        for other in several
    )


def lost_launcher(rank: Member) -> bool:
    """Whether no process above it lives. (A process that adopts others is none of its ancestors.)"""
    return rank.alive and not rank.above


def _of_another_launcher(rank: Member, other: Member) -> bool:
    """Agents know the process that started them after it has ended."""
    return rank.ppid != other.ppid and min(rank.ppid, other.ppid) > 1


def _is_replaced(
    dead: Member, living: Sequence[Member], several: Sequence[Member], meshes: Meshes
) -> bool:
    if not living:  # all are dead: the last one counts
        return any(other.host == dead.host and other.start > dead.start for other in several)
    mesh, now = meshes[id(dead)], {meshes[id(rank)] for rank in living}
    moved = all(rank.host != dead.host for rank in living)
    return mesh is None or mesh in now or None in now or moved


def step_of(rank: Member) -> str:
    """The Slurm step: the ranks of each are numbered from 0."""
    environment = rank.labels.get("environment")
    return str(environment.get("SLURM_STEP_ID", "")) if isinstance(environment, dict) else ""
