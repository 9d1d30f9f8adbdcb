"""Hashes of all ranks' tensors at one step -> which differ, how far they are apart, and since when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from rankdbg.errors import BadInput
from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.replicas.common_steps import CommonSteps
from rankdbg.investigations.replicas.findings import KeptSteps, Sinces
from rankdbg.investigations.replicas.first_difference import ComparedStep, find_first
from rankdbg.investigations.replicas.measuring import measure_differences
from rankdbg.investigations.replicas.results import KINDS, Replicas
from rankdbg.session import Session
from rankdbg.types import Answer, Rank, Silence
from rankdbg.verdicts.replicas.differences import (
    Difference,
    Tensors,
    count_undecided,
    find_differences,
)
from rankdbg.verdicts.replicas.kept_steps import find_since
from rankdbg.verdicts.replicas.random_states import RandomNote, find_random_notes

TIMEOUT = 30.0  # seconds for a step to come
# What a cause is found by.
FOR_CAUSES = ("parameter", "buffer", "gradient", "optimizer", "random")
# Hashes of so many tensors, in all ranks together, are read from what was kept.
MOST_HISTORIES = 20_000


def compare(
    session: Session,
    ranks: Sequence[Rank],
    all_ranks: Sequence[Rank],
    kinds: Sequence[str] = KINDS,
    equal_across: Collection[str] = (),
    *,
    first: bool = False,
    timeout: float = TIMEOUT,
) -> Replicas:
    """`first`: find the first difference, and what kind of mistake it is."""
    _check_dimensions(ranks, equal_across)
    steps = CommonSteps(session, timeout)
    asked = tuple({*kinds, *FOR_CAUSES}) if first else tuple(kinds)
    found = steps.ask(ranks, lambda step: session.replicas(ranks, asked, step, timeout))
    tensors = {rank.process: value.tensors for rank, value in found.answers}
    present = [rank for rank, _ in found.answers]
    everything = find_differences(present, tensors, equal_across)
    differences = [each for each in everything if each.kind in kinds]
    figures, magnitudes = measure_differences(session, steps, differences)
    keeping, sinces = _since(session, present, differences)
    shown = {(e.kind, e.name): e for told in tensors.values() for e in told if e.kind in kinds}
    result = Replicas(
        ranks,
        all_ranks,
        differences,
        found.step,
        len(shown),
        max((value.bytes for _, value in found.answers), default=0),
        max((value.seconds for _, value in found.answers), default=0.0),
        figures,
        magnitudes,
        sinces,
        keeping,
        _random_notes(present, tensors, "random" in kinds, bool(differences)),
        sum(each.resynced for each in shown.values()),
        0 if equal_across else count_undecided(present, tensors),
        without=found.without,
    )
    if not first:
        return result
    evidence = ComparedStep(present, tensors, everything, equal_across)
    return replace(result, first=find_first(session, steps, result, evidence))


def _random_notes(
    ranks: Sequence[Rank], tensors: Tensors, all_of_them: bool, differ: bool
) -> list[RandomNote]:
    """Unasked, and where something differs, those that can be its cause."""
    notes = find_random_notes(ranks, tensors)
    return [each for each in notes if all_of_them or (differ and not each.equal)]


def keep_every(session: Session, found: Replicas, every: int, kinds: Sequence[str]) -> Replicas:
    """From now on; 0: no longer. Ranks that do not answer are added to what was found."""
    kept = [kind for kind in kinds if kind != "random"]
    replies = session.keep_replicas(found.ranks, every, kept)
    silent = [each for each in replies if isinstance(each, Silence)]
    known = {each.rank.process for each in found.without}
    without = [*found.without, *(each for each in silent if each.rank.process not in known)]
    return replace(found, keeping=KeptSteps(every), without=without)


def check_steps(session: Session, ranks: Sequence[Rank], all_ranks: Sequence[Rank]) -> None:
    """Raises BadInput for ranks that report no steps."""
    wanted = {rank.process for rank in ranks}
    job = ranks[0].job if ranks else None
    roster = session.roster(where=False, job=job).processes if ranks else []
    without = [rank for rank in roster if rank.process in wanted and rank.step is None]
    if without:
        raise BadInput(
            f"{named(without, all_ranks)} reports no steps, and hashes are kept by step"
            if len(without) == 1
            else f"{named(without, all_ranks)} report no steps, and hashes are kept by step",
            hint="call rankdbg.progress(step) in the training loop",
        )


def _check_dimensions(ranks: Sequence[Rank], wanted: Collection[str]) -> None:
    known = sorted({name for rank in ranks for name in rank.coordinates})
    for name in wanted:
        if name not in known:
            raise BadInput(
                f"no dimension {name} in this job",
                hint=f"there are: {', '.join(known)}" if known else "give the job a mesh: --mesh",
            )


def _since(
    session: Session, ranks: Sequence[Rank], differences: Sequence[Difference]
) -> tuple[KeptSteps, Sinces]:
    """From the hashes that ranks have kept."""
    keys = [*{each.key: None for each in differences}][: MOST_HISTORIES // max(1, len(ranks))]
    replies = session.kept_replicas(ranks, tensors=keys) if ranks else []
    kept = {
        each.rank.process: each.value
        for each in replies
        if isinstance(each, Answer) and each.value.every
    }
    sinces: Sinces = {}
    for difference in differences:
        if difference.key in keys:
            place = keys.index(difference.key)
            histories = {
                process: {s: h for s, h in zip(v.steps, v.histories[place], strict=False) if h}
                for process, v in kept.items()
                if place < len(v.histories)
            }
            if since := find_since(difference.ranks, histories):
                sinces[difference.place] = since
    steps = [step for value in kept.values() for step in value.steps]
    ended = [(rank, kept[rank.process].why) for rank in ranks if rank.process in kept]
    return (
        KeptSteps(
            max((value.every for value in kept.values()), default=0),
            (min(steps), max(steps)) if steps else None,
            max((value.seconds for value in kept.values()), default=0.0),
            tuple((rank, why) for rank, why in ended if why),
        ),
        sinces,
    )
