"""Profiles of large jobs that no machine here could run: what py-spy would have counted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from rankdbg.investigations.profiles.job_profiles import JobProfile
from rankdbg.investigations.profiles.profiling import RecordedFiles
from rankdbg.profiles.documents import Profile, Weighted
from rankdbg.types import Frame, Rank
from rankdbg.verdicts.rules.profile_rules import Phases, load_profile_rules
from simulated_jobs import C10D, LIBRARY

MAIN = Frame("main", "/job/train.py", 231)
STEP = Frame("train_step", "/job/train.py", 81)
NEXT = Frame("next_batch", "/job/data.py", 36)
LOADER = Frame("_BaseDataLoaderIter.__next__", f"{LIBRARY}/utils/data/dataloader.py", 733)
GET = Frame("Queue.get", "/usr/lib/python3.12/multiprocessing/queues.py", 113)
FORWARD = Frame("forward_step", "/job/pipeline.py", 133)
BLOCK = Frame("Block.forward", "/job/model.py", 190)
ATTENTION = Frame("attention", "/job/model.py", 88)
MLP = Frame("mlp", "/job/model.py", 120)
LINEAR = Frame("Linear.forward", f"{LIBRARY}/nn/modules/linear.py", 125)
BACKWARD = Frame("Tensor.backward", f"{LIBRARY}/_tensor.py", 521)
ENGINE = Frame("_engine_run_backward", f"{LIBRARY}/autograd/graph.py", 768)
REDUCE = Frame("reduce_gradients", "/job/ddp.py", 312)
ALL_REDUCE = Frame("all_reduce", C10D, 2810)
ADAM = Frame("AdamW.step", f"{LIBRARY}/optim/adamw.py", 220)
BEAT = Frame("beat", "/job/health.py", 9)
# What a usual rank does, in samples of a thousand; the last frame is the innermost.
USUAL: dict[tuple[Frame, ...], float] = {
    (MAIN, STEP, NEXT, LOADER, GET): 22,
    (MAIN, STEP, FORWARD, BLOCK, ATTENTION, LINEAR): 130,
    (MAIN, STEP, FORWARD, BLOCK, MLP, LINEAR): 118,
    (MAIN, STEP, FORWARD, BLOCK): 24,
    (MAIN, STEP, BACKWARD, ENGINE): 390,
    (MAIN, STEP, REDUCE, ALL_REDUCE): 252,
    (MAIN, STEP, ADAM): 64,
}


def profiles(ranks: Sequence[Rank], slow: Sequence[int] = ()) -> list[Profile]:
    """Those of these numbers load data for long, and the others wait for them."""
    dice = random.Random(7)
    return [_profile(rank, rank.number in slow, bool(slow), dice) for rank in ranks]


def _profile(rank: Rank, is_slow: bool, any_slow: bool, dice: random.Random) -> Profile:
    def wavering(samples: float) -> float:
        return max(1.0, round(dice.gauss(samples, samples**0.5 / 3)))

    counts = {frames: wavering(samples) for frames, samples in USUAL.items()}
    if is_slow:
        *_, reduces, _ = counts
        counts[reduces] = wavering(18)
        counts[(MAIN, STEP, NEXT, LOADER, GET)] = wavering(270)
    elif any_slow:
        counts[(MAIN, STEP, REDUCE, ALL_REDUCE)] = wavering(270)
    stacks = [Weighted("MainThread", True, frames, count) for frames, count in counts.items()]
    whole = sum(counts.values())
    stacks.append(Weighted("heartbeat", False, (BEAT,), whole))
    return Profile(rank, "samples", whole, tuple(stacks), 100.0)


def profiled(
    ranks: Sequence[Rank],
    all_ranks: Sequence[Rank] = (),
    slow: Sequence[int] = (),
    diff: tuple[Sequence[int], Sequence[int]] | None = None,
    folder: Path = Path("rankdbg-profile"),
) -> JobProfile:
    """`all_ranks`: those of the job, if others were not profiled."""
    recorded = RecordedFiles(10.0, ranks=[*ranks])
    phase_of = Phases(load_profile_rules()).of
    found = profiles(ranks, slow)
    every = all_ranks or ranks
    return JobProfile("cpu", 100, recorded, found, every, folder, [], diff, phase_of)
