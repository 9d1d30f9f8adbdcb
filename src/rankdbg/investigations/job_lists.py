"""Jobs and their ranks as a value: what `rankdbg ps` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankdbg import selection
from rankdbg.investigations.rank_labels import frame_json
from rankdbg.investigations.results import Result
from rankdbg.session import Roster, Session, check_job
from rankdbg.text.amounts import counted
from rankdbg.types import ProcessKey, Rank

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

RANK_COLUMNS = ("rank", "mesh", "role", "host", "pid", "state")


@dataclass(frozen=True, repr=False)
class JobList(Result):
    """`jobs`: by name; `inside`: the job that a job runs inside; `ages`: seconds; `no_response_nodes`: and
    why they gave no response; `origin`: of a snapshot, when and of what."""

    jobs: Mapping[str, Sequence[Rank]]
    inside: Mapping[str, str]
    ages: Mapping[ProcessKey, float]
    no_response_nodes: Mapping[str, str]
    notes: Sequence[str]
    origin: str

    def as_json(self) -> dict[str, Any]:
        return {
            "origin": self.origin,
            "jobs": [
                _job_json(job, ranks, self.inside.get(job, "")) for job, ranks in self.jobs.items()
            ],
            "ranks": self.records(),
            "no_response_nodes": self.no_response_nodes,
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        told = [
            f"{job}: {counted(len(only_ranks(ranks)), 'rank')}" for job, ranks in self.jobs.items()
        ]
        lost = len(self.no_response_nodes)
        return ", ".join(told) + (f"; nodes without a response: {lost}" if lost else "")

    def records(self) -> list[dict[str, Any]]:
        """One for each process."""
        return [self._rank_json(rank) for ranks in self.jobs.values() for rank in ranks]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        rows = [TableRow((job, *rank_cells(r))) for job, ranks in self.jobs.items() for r in ranks]
        lost = [f"no response: {node}: {why}" for node, why in self.no_response_nodes.items()]
        texts = [Paragraph(text) for text in (*lost, *self.notes)]
        return [Table(("job", *RANK_COLUMNS), rows), *texts]

    def _rank_json(self, rank: Rank) -> dict[str, Any]:
        return {
            "job": rank.job,
            "rank": rank.number,
            "kind": rank.kind,
            "coordinates": dict(rank.coordinates),
            "role": rank.role,
            "names": dict(rank.names),
            "generation": rank.generation,
            "host": rank.host,
            "pid": rank.pid,
            "start": rank.process.start,
            "state": rank.state,
            "detail": rank.detail,
            "where": frame_json(rank.where),
            "step": rank.step,
            "agent": rank.agent,
            "world": rank.world,
            "local_rank": rank.local_rank,
            "seconds": round(self.ages[rank.process], 1),
            "python": rank.python,
            "command": list(rank.command),
        }


def list_jobs(
    session: Session, chosen: selection.Selection, job: str | None, everything: bool = False
) -> JobList:
    """`everything`: also launchers and helpers. Raises NoJob if there is none."""
    roster = session.roster(job=job)
    jobs = roster.jobs(everything, replaced=selection.names_generations(chosen))
    job = check_job(roster, jobs, job)
    if job is not None:
        jobs = {job: jobs[job]}
    picked = selection.pick(chosen, [rank for ranks in jobs.values() for rank in ranks])
    ids = {id(rank) for rank in picked}
    shown = {
        name: [rank for rank in _in_order(ranks) if id(rank) in ids] for name, ranks in jobs.items()
    }
    origin = session.cluster.origin
    notes = [*roster.notes, *_left_behind(roster, shown)]
    return JobList(shown, roster.inside, roster.ages, roster.silent_nodes, notes, origin)


def _left_behind(roster: Roster, shown: Mapping[str, Sequence[Rank]]) -> Iterator[str]:
    """Which ranks of the shown jobs still run although they were replaced: they hold memory, ports and
    GPUs that the new ones need."""
    for job, ranks in roster.jobs(replaced=True).items():
        last = {rank.process for rank in selection.last_generations(ranks)}
        left = [r for r in ranks if r.process not in last and r.state not in ("gone", "zombie")]
        if job in shown and left:
            older = selection.format_ranks(left, ranks)
            yield (
                f"job {job}: {older} still {'run' if len(left) > 1 else 'runs'}, of an older "
                "generation that has lost its launcher"
            )


def rank_cells(rank: Rank) -> tuple[str, ...]:
    """The RANK_COLUMNS of a rank."""
    mesh = " ".join(f"{name}={place}" for name, place in rank.coordinates.items())
    state = f"{rank.state} ({rank.detail})" if rank.detail else rank.state
    number = str(rank.pid if rank.number is None else rank.number)
    return number, mesh, rank.role, rank.host, str(rank.pid), state


def _in_order(ranks: Sequence[Rank]) -> list[Rank]:
    return sorted(ranks, key=lambda r: (r.number is None, r.number or 0, r.host, r.pid))


def only_ranks(ranks: Sequence[Rank]) -> list[Rank]:
    """Without launchers and helpers."""
    return [rank for rank in ranks if rank.kind == "rank"]


def extents(ranks: Sequence[Rank]) -> dict[str, int]:
    """Of the mesh: the size of each dimension."""
    sizes: dict[str, int] = {}
    for rank in ranks:
        for name, value in rank.coordinates.items():
            sizes[name] = max(sizes.get(name, 0), value + 1)
    return sizes


def mesh_text(ranks: Sequence[Rank]) -> str:
    """hosts=2 gpus=8; hosts=2 gpus=3-5, where the hosts have different numbers of ranks"""
    sizes: dict[str, object] = {**extents(ranks)}
    if sizes.keys() == {"hosts", "gpus"}:
        counts = Counter(rank.coordinates.get("hosts") for rank in ranks).values()
        if min(counts) != max(counts):
            sizes["gpus"] = f"{min(counts)}-{max(counts)}"
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def _job_json(job: str, ranks: Sequence[Rank], inside: str) -> dict[str, Any]:
    own = only_ranks(ranks)
    text = selection.format_ranks(own, ranks)
    return {
        "job": job,
        "inside": inside,
        "ranks": text,
        "count": len(own),
        "mesh": extents(own),
    }
