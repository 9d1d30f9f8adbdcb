"""The log files of a job, found on its nodes, and the state of the job and its nodes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rankdbg.errors import NodeFailed, NoJob, NoLogs, RankdbgError
from rankdbg.investigations.nodes.node_health import (
    DAY,
    Gpus,
    Healths,
    look_around,
    read_kernels,
    while_written,
)
from rankdbg.logs.patterns import FileScan, Hit, Pattern
from rankdbg.logs.places import RAY, FoundLogs, LogFile, ray_worker
from rankdbg.session import Roster, Session, check_job, known_as
from rankdbg.types import ContainerFailure, Rank
from rankdbg.verdicts.failures import ray_lines
from rankdbg.verdicts.failures.log_lines import read_stamp, year_of
from rankdbg.verdicts.failures.pod_failures import pod_scans

AT_START = 2.0  # seconds by which a kernel and /proc may differ
# Lines of a log from before the start of the job belong to an earlier run. Its launcher may have
# written before that, and the clocks of nodes differ slightly.
EARLIER_SECONDS = 120.0
SKEW_SECONDS = 0.5  # beyond the difference that their clocks show


@dataclass
class JobState:
    """The ranks and nodes of the job, as far as a source knows."""

    job: str = ""
    running: bool = False
    ranks: list[Rank] = field(default_factory=list)
    nodes: int = 0
    silent_nodes: dict[str, str] = field(default_factory=dict)  # and why
    notes: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)  # what may have to do with it
    # Node health, if requested.
    health: Healths = field(default_factory=dict)
    gpus: Gpus = field(default_factory=dict)


class JobFiles:
    """`around`: patterns for kernel messages, if node health is wanted too; `without_rays_own`:
    without the logs of Ray's daemons; `verb`: what is to be typed with paths instead."""

    find_every = 10.0  # new files appear when ranks start: no need to search at every turn

    def __init__(
        self,
        session: Session,
        job: str | None = None,
        paths: Sequence[str] = (),
        *,
        around: Sequence[Pattern] = (),
        without_rays_own: bool = False,
        verb: str = "doctor",
    ) -> None:
        # Its questions are dropped at each search; those of the caller may be saved.
        self.session = session.apart(session.timeout)
        self._around = around
        self._without_rays_own = without_rays_own
        self._verb = verb
        self._failed: list[ContainerFailure] = []
        self._job = job
        self._paths = paths
        self._found = FoundLogs()
        self._found_at = float("-inf")
        self._since: float | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # for what is fetched
        self._read_as_rotated: set[tuple[str, str]] = set()  # node and identity
        self.files: list[LogFile] = []
        self.state = JobState()

    def find(self) -> None:
        """Find the files and the ranks. Raises NoLogs or NoJob if there are none."""
        self.session.forget()
        fetched = [] if self._paths else self._fetch()
        untold = self._look_at_containers()
        roster, unreached = self._roster()
        jobs = roster.jobs()
        # Of a job that runs, the logs of an earlier run under its name are not wanted.
        left = not (known_as(roster, jobs, self._job) if self._job else jobs)
        self._found = self.session.find_logs(self._paths, not jobs, self._job, left)
        self._found.files = _called_as_their_jobs(self._found.files, roster)
        self._found.files += _of_their_ranks(fetched, roster)
        self._found_at = time.monotonic()
        self._choose_job(roster)
        self.state.nodes = len(self._found.clocks) + len(self._found.silent_nodes)
        self.state.silent_nodes = {**roster.silent_nodes, **self._found.silent_nodes}
        self.state.notes = self._found.notes + untold
        on_ray = any("ray_job" in rank.names for rank in self.state.ranks)
        wanted = self._found if self._paths else self._found.of_job(self.state.job, on_ray)
        self._add(wanted.files)
        if self._around and (self.files or self._failed or self.state.running):
            self._look_around()
        if not self.files and not self._failed and not self._is_in_kernel_logs():
            raise unreached or self._nothing(roster)

    def _look_at_containers(self) -> list[str]:
        """Failed containers, from the cluster. Returns what could not be determined."""
        if not self._around:
            return []
        self._failed, why = self.session.cluster.container_failures()
        return [f"events of the pods could not be read: {why}"] if why else []

    def _look_around(self) -> None:
        clocks, within = self._found.clocks.values(), DAY
        if self._since is not None and clocks:
            within = max(clocks) - self._since + AT_START
        folders = {os.path.dirname(file.path) for file in self.files}
        told = look_around(self.session, self._around, within, sorted(folders), self.state.ranks)
        self.state.health, self.state.gpus = told

    def _is_in_kernel_logs(self) -> bool:
        """Whether a kernel tells of a job that writes no logs."""
        return bool(read_kernels(self.state.health, self.state.ranks).scans)

    def _add(self, found: Sequence[LogFile]) -> None:
        """A renamed file keeps its number. If another file now has its old name, its content was
        read when that was noticed (logs/positions.py)."""
        numbers = {(file.node, file.path): n for n, file in enumerate(self.files)}
        same = {(file.node, file.identity): n for n, file in enumerate(self.files) if file.identity}
        there = {(file.node, file.path) for file in found}
        for file in found:
            if self._without_rays_own and _is_rays_own(file):
                continue
            number = numbers.get((file.node, file.path))
            if number is None:
                identity = file.node, file.identity
                number = same.get(identity, len(self.files))
                if number < len(self.files) and (file.node, self.files[number].path) in there:
                    self._read_as_rotated.add(identity)
                if identity in self._read_as_rotated:
                    continue
            self.files[number : number + 1] = [file]

    def _fetch(self) -> list[LogFile]:
        """Logs that are on no node: the output of containers."""
        if not self.session.cluster.keeps_logs:
            return []
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rankdbg-logs-")
        return self.session.cluster.fetch_logs(self._folder.name)

    def _roster(self) -> tuple[Roster, NodeFailed | None]:
        """Nodes that do not respond may have the ranks; those that do may have logs of them."""
        try:
            return self.session.roster(where=False, job=self._job), None
        except NodeFailed as error:
            return Roster([]), error

    def _choose_job(self, roster: Roster) -> None:
        jobs = roster.jobs()
        state = self.state
        if self._job is not None and self._job in {file.job for file in self._found.files}:
            state.job = self._job
        elif jobs and not self._paths and not state.job:
            self._job = check_job(roster, jobs, self._job)
            state.job = self._the_one(jobs)
        elif not state.job:
            latest = max(
                (file for file in self._found.files if file.job not in ("", RAY)),
                key=lambda file: file.modified,
                default=None,
            )
            state.job = self._job or (latest.job if latest else RAY)
        state.ranks = jobs.get(state.job, state.ranks)
        state.running = any(
            rank.state not in ("gone", "zombie") for rank in jobs.get(state.job, ())
        )
        ages = [roster.ages[p.process] for p in roster.processes if p.job == state.job]
        clocks = self._found.clocks.values()
        if ages and clocks and self._since is None:
            self._since = max(clocks) - max(ages)

    def _the_one(self, jobs: dict[str, list[Rank]]) -> str:
        if self._job is not None:
            return self._job
        if len(jobs) > 1:
            self.session.job(None)  # says which there are
        return next(iter(jobs))

    def _nothing(self, roster: Roster) -> RankdbgError:
        if self._paths:
            return NoLogs(f"no node has log files in {', '.join(self._paths)}")
        why = [
            f"{node}: {reason.removeprefix(f'{node}: ')}"
            for node, reason in self.state.silent_nodes.items()
        ]
        if self.state.running:
            usual = "its output goes to a terminal, to /dev/null, or into a pipe of another user"
            return NoLogs(
                f"job {self.state.job} is running, but no log file of it was found",
                *(why or [usual]),
                hint=f"rankdbg why   (or name the files: rankdbg {self._verb} PATH)",
            )
        nothing = "no job is running here, and no logs of an earlier job were found"
        return NoJob(
            f"{nothing}: no job {self._job!r}" if self._job else nothing,
            *why,
            *roster.notes,
            hint=f"name them: rankdbg {self._verb} PATH",
        )

    def _skew(self) -> float:
        clocks = self._found.clocks.values()
        return SKEW_SECONDS + (max(clocks) - min(clocks) if clocks else 0.0)

    def complete(self, scans: Iterable[tuple[LogFile, FileScan]]) -> list[FileScan]:
        """What was found in files, with what is known about them; without lines of other runs; and
        what kernels and pods say."""
        several = self.state.nodes > 1  # also if only one of them responds
        elapsed = time.monotonic() - self._found_at
        made = []
        for file, scan in scans:
            clock = self._found.clocks.get(file.node)
            now = clock + elapsed if clock is not None and self.state.running else None
            path = f"{file.node}:{file.path}" if several else file.path
            error = scan.error or file.error
            made.append(replace(scan, path=path, file=file, now=now, error=error))
        heads = (hit for scan in made if _is_shared(scan) for hit in scan.hits)
        jobs = ray_lines.Jobs(self._found.files, heads)
        made = _of_this_run(made, self._since, self._skew(), self.state.job, jobs)
        said = read_kernels(self.state.health, self.state.ranks, made)
        self.state.hints = said.hints
        kernels = [while_written(kernel, made, EARLIER_SECONDS) for kernel in said.scans]
        return made + kernels + pod_scans(self._failed, made, _numbers_by_host(self.state.ranks))


def _is_rays_own(file: LogFile) -> bool:
    """Logs of Ray's daemons, which are long and about Ray itself. (Workers have some of them open.)"""
    name = file.path.rpartition("/")[2]
    return "/session_" in file.path and not (ray_worker(name) or name.startswith("job-driver-"))


def _called_as_their_jobs(files: Iterable[LogFile], roster: Roster) -> list[LogFile]:
    """A node without a process of the job knows only the job number of Ray."""
    called = {rank.names.get("ray_job", ""): rank.job for rank in roster.processes}
    return [
        replace(file, job=called.get(file.job, file.job)) if file.job else file for file in files
    ]


def _of_their_ranks(fetched: Iterable[LogFile], roster: Roster) -> list[LogFile]:
    """Add the ranks in the container."""
    ranks = _numbers_by_host(roster.processes)
    return [replace(file, ranks=tuple(sorted(ranks.get(file.node, ())))) for file in fetched]


def _numbers_by_host(ranks: Iterable[Rank]) -> dict[str, Sequence[int]]:
    numbers: dict[str, list[int]] = {}
    for rank in ranks:
        if rank.number is not None:
            numbers.setdefault(rank.host, []).append(rank.number)
    return {host: sorted(found) for host, found in numbers.items()}


def _is_shared(scan: FileScan) -> bool:
    """Whether Ray's daemons have written it, for all jobs of the cluster."""
    return scan.file is not None and scan.file.job == RAY


def _of_this_run(
    scans: list[FileScan], since: float | None, skew: float, job: str, jobs: ray_lines.Jobs
) -> list[FileScan]:
    """Without the lines of earlier runs, if a log is appended to, and of other jobs, if they share
    it."""
    year = year_of(scans)

    def is_wanted(hit: Hit, shared: bool) -> bool:
        when = read_stamp(hit.stamp, year) if since is not None and hit.stamp else None
        slack = skew if shared else EARLIER_SECONDS
        return when is None or since is None or when >= since - slack

    made = []
    for scan in scans:
        shared = _is_shared(scan)
        hits = jobs.without_others(scan.hits, job) if shared else scan.hits
        hits = tuple(hit for hit in hits if is_wanted(hit, shared))
        made.append(replace(scan, hits=hits))
    return made
