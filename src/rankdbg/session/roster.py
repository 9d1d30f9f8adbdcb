"""All processes of a target, and the jobs among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from rankdbg.errors import ChooseJob, NoJob, RankdbgError
from rankdbg.process import identity
from rankdbg.selection import last_generations, mesh
from rankdbg.session.roster_decisions import decide
from rankdbg.types import Kind, ProcessKey, Rank, State
from rankdbg.wire.answers import Labels, OfRanks, ProcessEntry, ProcessList


@dataclass
class Roster:
    """All processes that were found, ranks and others."""

    processes: list[Rank]
    notes: list[str] = field(default_factory=list)
    other_users: list[str] = field(default_factory=list)
    silent_nodes: dict[str, str] = field(default_factory=dict)
    ages: dict[ProcessKey, float] = field(default_factory=dict)
    stops: dict[str, OfRanks] = field(default_factory=dict)  # by node, if requested
    inside: dict[str, str] = field(default_factory=dict)  # by job: the one that it runs inside
    # A machine may be reached by two names; its processes are listed once.
    _seen: dict[tuple[str, int, int], str] = field(default_factory=dict)
    _entries: list[tuple[str, int, ProcessEntry]] = field(default_factory=list)

    def add(self, node: str, index: int, answer: ProcessList) -> None:
        self.notes += answer.notes
        self.other_users += answer.other_users
        if answer.stops is not None:
            self.stops[node] = answer.stops
        for entry in answer.processes:
            twin = answer.machine or node, entry.pid, entry.start
            if self._seen.setdefault(twin, node) == node:
                self._entries.append((node, index, entry))

    def settle(self) -> None:
        """All nodes have answered: who is who."""
        found = [(node, entry) for node, _, entry in self._entries]
        entries, self.inside = decide(found)
        for (node, index, _), entry in zip(self._entries, entries, strict=True):
            rank = _rank(entry, node, index)
            self.processes.append(rank)
            self.ages[rank.process] = entry.age

    def jobs(self, everything: bool = False, replaced: bool = False) -> dict[str, list[Rank]]:
        """The ranks; also those that a restart has `replaced`; or everything."""
        jobs: dict[str, list[Rank]] = defaultdict(list)
        for process in self.processes:
            if everything or process.kind == "rank":
                jobs[process.job].append(process)
        if everything or replaced:
            return dict(jobs)
        return {job: [*last_generations(ranks)] for job, ranks in jobs.items()}


def _rank(entry: ProcessEntry, node: str, node_index: int) -> Rank:
    labels = entry.labels
    # A child inherits the number of its rank, but is not that rank.
    number = entry.number if entry.kind == "rank" else None
    return Rank(
        process=ProcessKey(node, entry.pid, entry.start),
        job=entry.job,
        number=number,
        kind=cast(Kind, entry.kind),
        world=labels.world,
        local_rank=labels.local_rank,
        coordinates=_coordinates(labels, number, node_index) if number is not None else {},
        role=labels.role,
        generation=entry.generation,
        names=_names(labels),
        state=cast(State, entry.state),
        detail=entry.detail,
        where=entry.where,
        step=entry.step,
        agent=entry.agent,
        command=entry.command,
        python=entry.python,
    )


def _names(labels: Labels) -> dict[str, str]:
    """What its launcher and its scheduler call it."""
    variables = labels.environment
    given = {
        "step": variables.get("SLURM_STEP_ID"),
        "slurm_job": variables.get("SLURM_JOB_ID"),
        "het": labels.het,
        "run": labels.run,
    }
    known = {kind: name for kind, name in given.items() if name not in (None, "")}
    return {kind: str(name) for kind, name in {**labels.names, **known}.items()}


def _coordinates(labels: Labels, number: int, node_index: int) -> dict[str, int]:
    if labels.coordinates:
        return labels.coordinates
    if labels.mesh:
        return mesh.coordinates(number, dict(labels.mesh))
    if labels.local_rank is not None:
        hosts = node_index if labels.node_rank is None else labels.node_rank
        return {"hosts": hosts, "gpus": labels.local_rank}
    return {}


# The parts of names that tell where a job has its name from.
_ORIGINS = ("slurm", "torchrun", "ray", "mpi", "monarch")


def _other_names(job: str, ranks: Sequence[Rank]) -> set[str]:
    """What else a job is called: `17` for slurm-17, the array of slurm-17_3 and that element's own
    number, Ray's ids and entrypoint, the run of torchrun, and the script of its ranks."""
    origin, _, rest = job.partition("-")
    names = {rest} if origin in _ORIGINS else set()
    names |= _called("slurm", rest.partition("_")[0]) if origin == "slurm" else set()
    for rank in ranks:
        names |= {rank.names.get(kind, "") for kind in ("submission", "ray_job", "entrypoint")}
        names |= _called("torchrun", rank.names.get("run", ""))
        names |= _programs(rank.command)
        if origin == "slurm":
            names |= _called("slurm", rank.names.get("slurm_job", ""))
    return names - {""}


def _called(origin: str, number: str) -> set[str]:
    return {number, f"{origin}-{number}"} if number else set()


def _programs(command: Sequence[str]) -> set[str]:
    """`train`, `train.py` and its path; `pkg.train` of a module."""
    _, form, name = identity.invocation(command)
    if form not in ("script", "module"):
        return set()
    return {identity.script_name(command), name, name.rpartition("/")[2]}


def known_as(roster: Roster, jobs: Mapping[str, Sequence[Rank]], name: str) -> list[str]:
    """The jobs that have this name."""
    if name in jobs:
        return [name]
    around = roster.inside
    found = {job: _other_names(job, ranks) | {around.get(job, "")} for job, ranks in jobs.items()}
    return sorted(job for job, names in found.items() if name and name in names)


def no_rank_seen(errors: Sequence[RankdbgError], answered: Sequence[str]) -> RankdbgError:
    """The error if some nodes do not respond and the others have no rank."""
    first = errors[0]
    others = {error.what: None for error in errors if error.what != first.what}  # each once
    why = [*first.why, *others]
    if answered:
        why.append(f"no rank is running on {', '.join(answered)}")
    return type(first)(first.what, *why, hint=first.hint) if others or answered else first


def check_job(roster: Roster, jobs: dict[str, list[Rank]], name: str | None) -> str | None:
    """The name of a job in the roster, which may have others. Raises NoJob with the existing jobs
    unless there is such a job."""
    if jobs and name is not None:
        known = known_as(roster, jobs, name)
        if len(known) == 1:
            return known[0]
        if known:
            what = f"{len(known)} jobs are called {name!r}: {', '.join(known)}"
            raise ChooseJob(what, hint=f"choose one: --job {known[0]}")
        hint = _of_step(roster, jobs, name)
        raise NoJob(f"no job {name!r}", f"there are: {', '.join(sorted(jobs))}", hint=hint)
    if jobs:
        return name
    why = [f"{user} has jobs here, which you may not inspect" for user in roster.other_users]
    why += [f"{node}: {reason}" for node, reason in roster.silent_nodes.items()]
    hint = "start one: rankdbg run -- COMMAND   (or try: rankdbg demo)"
    if roster.other_users:
        hint = f"run rankdbg as that user: sudo -u {roster.other_users[0]} rankdbg ps"
    raise NoJob("no job is running here", *why, *roster.notes, hint=hint)


def _of_step(roster: Roster, jobs: Mapping[str, Sequence[Rank]], name: str) -> str:
    """How to reach a step of a Slurm job (17.0), which is a part of a job; `` for another name."""
    job, point, step = name.rpartition(".")
    known = known_as(roster, jobs, job) if point else []
    steps = {rank.names.get("step") for each in known for rank in jobs[each]}
    return f"a step is a part of its job: --job {known[0]} step={step}" if step in steps else ""
