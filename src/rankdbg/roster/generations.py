"""Which ranks were replaced by a restart: a launcher that starts its ranks again, or the same job
started again after it was killed.

The dead rank and the living one have the same role and number. They are two ranks, not two
generations of one, if each has a launcher of its own that still runs (two torchruns in one job).
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
        living = [rank for rank in several if rank.alive]
        replaced = [d for d in several if not d.alive and _is_replaced(d, living, several, meshes)]
        replaced.sort(key=lambda rank: (rank.generation, rank.start))
        for generation, rank in enumerate(replaced, 1):
            rank.generation = max(rank.generation, generation)
        for rank in several:
            if rank not in replaced:
                rank.generation = max(rank.generation, len(replaced) + 1)


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
