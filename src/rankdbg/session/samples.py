"""What nodes tell of stacks and of processes below ranks -> the values that reports are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rankdbg.types import Frame, ProcessKey, Rank, Sampled, Stack
from rankdbg.wire.answers import Child, StackSamples
from rankdbg.wire.node_questions import SampleStacks


def read_samples(
    node: str,
    answer: StackSamples,
    by_key: Mapping[ProcessKey, Rank],
    asked: SampleStacks,
    known: dict[Frame, Frame],
) -> Iterator[tuple[ProcessKey, Sampled]]:
    """A snapshot may have more than was asked for. `known` shares equal frames: the stacks of a job
    repeat the same few lines."""
    distinct = [
        tuple(
            Stack(
                thread.name,
                thread.main,
                tuple([known.setdefault(frame, frame) for frame in thread.frames]),
                thread.locals if asked.locals else (),
                thread.task,
                thread.awaits,
            )
            for thread in threads
            if (asked.tasks if thread.task else asked.threads == "all" or thread.main)
        )
        for threads in answer.distinct
    ]
    for entry in answer.processes:
        key = ProcessKey(node, *entry.process)
        if key in by_key:
            samples = tuple(distinct[n] for n in entry.samples if 0 <= n < len(distinct))
            told = entry.source, entry.why, entry.gil, entry.waits_for_gil, entry.kernels
            yield key, Sampled(by_key[key], samples, *told)


def child_process(child: Child, rank: Rank) -> Rank:
    """A process below a rank, to be asked about like any other."""
    return Rank(
        ProcessKey(rank.host, child.pid, child.start),
        rank.job,
        kind="child",
        state="zombie" if child.state in ("Z", "X") else "running",
        detail=child.why,
        command=tuple(child.command.split()) or (child.name,),
    )
