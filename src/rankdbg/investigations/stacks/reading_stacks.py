"""Reading the stacks of ranks: with which engine, how often, and whom closely."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.errors import NO_PTRACE, BadInput, CannotLook
from rankdbg.investigations.rank_labels import named
from rankdbg.investigations.stacks.child_stacks import ChildStacks
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.session import Sampled, Session
from rankdbg.types import Rank, Silence

# A sample stops a rank for 0.1 s with pystack, and for seconds with a debugger.
SAMPLES = {"agent": 3, "py-spy": 3, "native": 2, "gdb": 1, "cuda": 1}
_PLAIN = ("agent", "py-spy")


def read_stacks(
    session: Session,
    ranks: Sequence[Rank],
    all_ranks: Sequence[Rank],
    *,
    engine: str = "agent",
    threads: str | None = None,
    samples: int | None = None,
    with_locals: bool = False,
    children: bool = False,
    tasks: bool = False,
    only_suspects: bool = False,
) -> MergedStacks:
    """`threads`: main or all; by default all where frames of C are asked for. `children`: also of
    the processes below the ranks. `tasks`: those of asyncio too. `only_suspects`: the engine looks
    at those alone who are odd at a glance."""
    if threads not in (None, "main", "all"):
        raise BadInput(f"invalid threads {threads!r}: expected 'main' or 'all'")
    if tasks and engine != "agent":
        raise BadInput("only agents know the tasks of asyncio: they cannot be read from outside")
    threads = threads or ("main" if engine in _PLAIN else "all")
    parents = [rank for rank in ranks if rank.kind == "rank"] if children else []
    found = session.children(parents) if parents else []
    below = {child.process for child, _ in found}
    asked = [rank for rank in ranks if rank.process not in below] + [child for child, _ in found]
    if only_suspects:
        seen, silent = look_closely_at_suspects(session, asked, engine, threads, with_locals)
    else:
        seen, silent = session.stacks(
            asked,
            threads=threads,
            samples=samples or SAMPLES.get(engine, 1),
            engine=engine,
            with_locals=with_locals,
            tasks=tasks,
        )
        if not seen and engine not in _PLAIN:
            _check_permitted(silent)
    child_stacks = ChildStacks.below(
        [sampled for sampled in seen if sampled.rank.process in below],
        [silence for silence in silent if silence.rank.process in below],
        found,
    )
    return MergedStacks(
        [sampled for sampled in seen if sampled.rank.process not in below],
        [silence for silence in silent if silence.rank.process not in below],
        all_ranks,
        child_stacks if children else None,
        _without_tasks(seen, all_ranks) if tasks else (),
    )


def _without_tasks(seen: Sequence[Sampled], all_ranks: Sequence[Rank]) -> tuple[str, ...]:
    """A note about ranks that were read from outside."""
    outside = [s.rank for s in seen if s.source != "agent" and s.rank.kind == "rank"]
    if not outside:
        return ()
    return (f"no tasks of {named(outside, all_ranks)}: only agents know the tasks of asyncio",)


def _check_permitted(silent: Sequence[Silence]) -> None:
    if silent and all(silence.reason.startswith(NO_PTRACE) for silence in silent):
        why, _, change = silent[0].reason.removeprefix(f"{NO_PTRACE}: ").partition("; ")
        raise CannotLook(
            f"cannot read process {silent[0].rank.pid}: {NO_PTRACE}",
            why,
            *([change] if change else []),
            hint="rankdbg stacks uses the agents, which need no permission",
        )


def suspects(seen: Sequence[Sampled]) -> list[Rank]:
    """Whom to look at closely, when looking costs seconds a rank: the ranks of all groups but the
    largest; if all are in one, its lowest."""
    groups = MergedStacks(seen, (), ()).main_groups  # smallest first
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
