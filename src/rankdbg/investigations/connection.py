"""`rankdbg.connect()`: the investigations, for Python programs and notebooks.

    with rankdbg.connect() as job:
        job.why()
        job.select("tp=0").ask("loss")

Every method asks the job as it is now and returns an immutable result. Methods may be called from
several threads at once. What goes wrong is a RankdbgError; a rank that does not answer is no
error, but part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankdbg import selection
from rankdbg.investigations.job_lists import JobList, list_jobs
from rankdbg.investigations.job_view import JobView
from rankdbg.investigations.reached_job import ReachedJob
from rankdbg.session import Session, path_maps
from rankdbg.session.targets import Options

Progress = Callable[[int, int], None]


def connect(
    target: str | Sequence[str] = "local",
    job: str | None = None,
    *,
    timeout: float | None = None,
    progress: Progress | None = None,
    maps: Sequence[str] = (),
    python: str = "",
    container: str = "",
    context: str = "",
    kubectl: str = "",
    srun: Sequence[str] = (),
    patience: float = 0.0,
) -> JobConnection:
    """Look at a job: here, or wherever `target` says (as `-t` of the command line does).

    `job`: its name, if several run there. `timeout`: seconds that a rank has to answer (5).
    `progress`: called with how many nodes have answered, and how many there are, in the thread that
    asks; what it raises ends the question. `maps`: folders that lie elsewhere there, LOCAL=REMOTE.
    The others: how nodes are reached, as the options of the command line with the same names.

    Nodes are reached with the first question; what cannot be reached raises a RankdbgError then.
    """
    options = Options(python, container, context, kubectl, tuple(srun), patience)
    session = Session(target, timeout, options)
    session.maps = path_maps.parse(maps)
    session.reopens = True
    if progress is not None:
        session.progress = progress
    named = session.cluster.aliases.get(job, job) if job else None
    return JobConnection(ReachedJob(session, named))


class JobConnection(JobView):
    """All ranks of a job. Close it, or use it in a `with`: it holds a process on every node."""

    def __enter__(self) -> JobConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def of(self, job: str | None) -> JobView:
        """Another job there, or the only one, through the same connection."""
        return JobView(self._reached.of(job))

    def jobs(self, ranks: str = "all", job: str | None = None) -> JobList:
        """All jobs there, or this one, with their ranks, or these."""
        return list_jobs(self._reached.session(), selection.parse(ranks), job)

    def close(self) -> None:
        """Breaks and stops stay in the ranks."""
        self._reached.close()
