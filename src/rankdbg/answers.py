"""From the messages of nodes to types: ranks, and the stacks that were seen of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankdbg import mesh, wire
from rankdbg.errors import NodeFailed
from rankdbg.types import Frame, ProcessKey, Rank, Sampled, Stack


def read_rank(entry: wire.Message, node: str, node_index: int) -> Rank:
    labels = entry["labels"]
    # A child inherits its rank's number, and is not that rank.
    number = entry["number"] if entry["kind"] == "rank" else None
    where = entry["where"]
    return Rank(
        process=ProcessKey(node, entry["pid"], entry["start"]),
        job=entry["job"],
        number=number,
        kind=entry["kind"],
        world=labels.get("world"),
        local_rank=labels.get("local_rank"),
        coordinates=_coordinates(labels, number, node_index) if number is not None else {},
        role=str(labels.get("role") or ""),
        names={str(kind): str(name) for kind, name in (labels.get("names") or {}).items()},
        state=entry["state"],
        detail=entry["detail"],
        where=Frame(*where) if where else None,
        step=entry.get("step"),
        agent=entry["agent"],
        command=tuple(entry["command"]),
        python=entry["python"],
    )


def _coordinates(labels: wire.Message, number: int | None, node_index: int) -> dict[str, int]:
    if labels.get("coordinates"):
        return dict(labels["coordinates"])
    if labels.get("mesh") and number is not None:
        return mesh.coordinates(number, labels["mesh"])
    if labels.get("local_rank") is not None:
        return {"hosts": labels.get("node_rank", node_index), "gpus": labels["local_rank"]}
    return {}


def read_sampled(
    rank: Rank, samples: tuple[tuple[Stack, ...], ...], entry: wire.Message
) -> Sampled:
    """What an older node does not say is not known."""
    return Sampled(
        rank,
        samples,
        entry["source"],
        entry["why"],
        gil=str(entry.get("gil", "")),
        waits_for_gil=tuple(entry.get("waits_for_gil", ())),
        kernels=tuple(entry.get("kernels", ())),
    )


def read_threads(
    entry: Any, threads: str, with_locals: bool, known: dict[Frame, Frame]
) -> tuple[Stack, ...]:
    """`known` keeps equal frames once: a job's stacks are the same few lines many times."""
    return tuple(
        Stack(
            thread["name"],
            thread["main"],
            tuple(known.setdefault(f, f) for f in (Frame(*frame) for frame in thread["frames"])),
            tuple(thread.get("locals", ())) if with_locals else (),
        )
        for thread in entry
        if threads == "all" or thread["main"]
    )


@contextmanager
def understanding(node: str, what: str) -> Iterator[None]:
    """What comes from elsewhere, or from a file, may be anything."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise NodeFailed(f"the answer of {node} about its {what} is damaged ({reason})") from None
