"""Which stops a command is for: `thread=trainer`, and the actors of processes that have several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankdbg import selection
from rankdbg.errors import BadInput
from rankdbg.investigations.rank_labels import label
from rankdbg.investigations.stops.stop_sources import Sources
from rankdbg.types import Answer, Rank, Reply
from rankdbg.wire.answers import StopReport


@dataclass(frozen=True)
class StopAddress:
    """Ranks, and the globs of the threads or actors whose stops are meant; none: the stop of the
    main thread of each rank."""

    ranks: selection.Selection
    threads: tuple[str, ...]
    actors: tuple[str, ...]


def parse_address(text: str) -> StopAddress:
    ranks, threads = selection.take_threads(selection.parse(text))
    return StopAddress(ranks, threads, selection.actors_in(ranks))


def command(
    sources: Sources,
    address: StopAddress,
    ranks: Sequence[Rank],
    all_ranks: Sequence[Rank],
    line: str | None,
    wait: float | None = None,
) -> list[Reply[StopReport]]:
    """One line for one stop of each rank: of the same actor in all of them. `continue` is for all."""
    threads = address.threads or _actors(address, ranks)
    if threads or not any(has_several_actors(rank) for rank in ranks):
        return sources.command(ranks, line, wait, threads=threads)
    stopped = _stopped_threads(sources, ranks)
    if line is not None and line.split()[:1] in (["c"], ["cont"], ["continue"]):
        return _continue_all(sources, stopped, ranks, line, wait)
    if len(stopped) > 1:
        raise several_actors(stopped, all_ranks)
    return sources.command(ranks, line, wait, threads=[*stopped])


def has_several_actors(rank: Rank) -> bool:
    return "+" in rank.names.get("actors", "")


def _actors(address: StopAddress, ranks: Sequence[Rank]) -> tuple[str, ...]:
    """An actor that shares its process is a thread of it."""
    return address.actors if any(rank.names.get("actors") for rank in ranks) else ()


def _stopped_threads(sources: Sources, ranks: Sequence[Rank]) -> dict[str, list[Rank]]:
    """The threads that are stopped, and in which ranks."""
    found: dict[str, list[Rank]] = {}
    for answer in sources.stops(ranks):
        if isinstance(answer, Answer):
            for stop in answer.value.stops:
                found.setdefault(stop.thread, []).append(answer.rank)
    return found


def several_actors(stopped: dict[str, list[Rank]], all_ranks: Sequence[Rank]) -> BadInput:
    told = [f"{name}: {label(ranks, all_ranks)}" for name, ranks in sorted(stopped.items())]
    first = min(stopped)
    return BadInput(
        "several actors are stopped in one process: which one is meant?",
        *told,
        hint=f"add the thread to the ranks: thread={selection.glob(first)}",
    )


def _continue_all(
    sources: Sources,
    stopped: dict[str, list[Rank]],
    ranks: Sequence[Rank],
    line: str,
    wait: float | None,
) -> list[Reply[StopReport]]:
    answers: list[Reply[StopReport]] = []
    for name, some in stopped.items():
        answers += sources.command(some, line, wait, threads=[selection.glob(name).strip('"')])
    reached = {answer.rank.process for answer in answers}
    rest = [rank for rank in ranks if rank.process not in reached]
    return answers + (sources.command(rest, line, wait) if rest else [])
