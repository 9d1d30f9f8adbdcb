"""The nodes of a Slurm job, through one `srun --overlap` for all of them.

slurm:17      slurm:17.0 (one step)      slurm:17_3 (of an array)      slurm: (your only job)
slurm:17+1 (one component of a heterogeneous job; slurm:17 is all of them, with one srun for each)
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rankdbg.clusters import NO_OPTIONS, Cluster, Options
from rankdbg.clusters.slurm import slurm_jobs
from rankdbg.clusters.slurm.slurm_jobs import SlurmJob
from rankdbg.clusters.slurm.srun import NodeChannel, Step, srun_command
from rankdbg.clusters.transport.sending import REMOTE
from rankdbg.errors import NodeFailed, RankdbgError

# How long the node states reported by Slurm are reused.
NODES_SECONDS = 2.0


def find_cluster(rest: str, options: Options = NO_OPTIONS) -> Cluster:
    found, step = slurm_jobs.find_jobs(rest)
    jobs = _with_step(found, step)
    if len(jobs) == 1:
        return Slurm(jobs[0], step, options)
    from rankdbg.clusters.several import SeveralClusters

    # To the user it is one job: all its components have one name.
    return SeveralClusters([Slurm(job, step, options, job.srun_number) for job in jobs])


def _with_step(jobs: Sequence[SlurmJob], step: str) -> Sequence[SlurmJob]:
    """A step may run in some components of a heterogeneous job only."""
    if not step or len(jobs) == 1:
        return jobs
    return [job for job in jobs if step in slurm_jobs.steps_of(job)] or jobs


class Slurm(Cluster):
    """`shown`: the name of the job, if it differs from that in squeue."""

    def __init__(self, job: SlurmJob, step: str, options: Options, shown: str = "") -> None:
        self._options = options
        self._job, self._step = job, step
        self.target = f"slurm:{self._job.shown}" + f".{self._step}" * bool(self._step)
        self.job_name = f"slurm-{shown or job.shown}"
        self._nodes = slurm_jobs.nodes_of(self._job, self._step)
        self._channels: dict[str, NodeChannel] = {}
        self._out: dict[str, str] = {}  # nodes that cannot be used, and why
        self._out_at = float("-inf")
        self._no_answer: RankdbgError | None = None  # set if Slurm did not respond

    @property
    def aliases(self) -> dict[str, str]:
        """Other names of the job, also in batch scripts: both an array and each of its elements
        have a number."""
        numbers = (self._job.number, self._job.srun_number, self._job.array, self._job.shown)
        names = {name for n in numbers if n for name in (n, f"slurm-{n}")}
        return dict.fromkeys(names, self.job_name)

    def why_ended(self) -> str:
        return slurm_jobs.why_ended(self._job)

    def end_time(self) -> float | None:
        return slurm_jobs.end_time(self._job)

    def nodes(self) -> list[str]:
        return list(self._nodes)

    def slurm_logs(self) -> list[tuple[str, bool]]:
        try:
            return slurm_jobs.outputs_of(self._job.number)
        except NodeFailed:  # the nodes search by themselves
            return []

    def open(self, node: str) -> NodeChannel:
        """The first call connects all nodes, and so does the next call after srun has ended. A
        single lost node is reconnected alone."""
        known = self._channels.get(node)
        if known is None or not known.usable:
            self._reach([each for each in self._nodes if self._needs_reaching(each, node)], node)
        return self._channels[node]

    def _needs_reaching(self, node: str, asked_for: str) -> bool:
        known = self._channels.get(node)
        if known is None or node == asked_for:
            return True
        return not known.usable and (known.step is None or known.step.is_over)

    def _reach(self, nodes: Sequence[str], asked_for: str) -> None:
        self._look_at_nodes()
        if asked_for in self._out:
            raise NodeFailed(self._out[asked_for])
        usable = [node for node in nodes if node not in self._out]
        channels = [NodeChannel(node, self._scope(node), self._options) for node in usable]
        Step(channels, self._command, lambda: slurm_jobs.why_lost(self._job), self._options)
        self._channels.update({channel.node: channel for channel in channels})

    def _look_at_nodes(self) -> None:
        """A controller that does not respond is not asked again for each node."""
        if time.monotonic() - self._out_at > NODES_SECONDS:
            self._no_answer = None
            try:
                self._out = slurm_jobs.nodes_out_of_use(self._nodes)
            except RankdbgError as error:
                self._no_answer = error
            self._out_at = time.monotonic()
        if self._no_answer is not None:
            raise self._no_answer

    def _command(self, nodes: Sequence[str]) -> list[str]:
        of_component = (f"--het-group={self._job.component}",) * bool(self._job.component)
        options = (*of_component, *self._options.srun)
        return srun_command(self._job.srun_number, nodes, options, self._options.python)

    def _scope(self, node: str) -> dict[str, object]:
        """Nodes may be shared with other jobs of the same user."""
        wanted = {"SLURM_JOB_ID": self._job.srun_number, "SLURMD_NODENAME": node}
        if self._step:
            wanted["SLURM_STEP_ID"] = self._step
        return {**REMOTE, "environment": wanted, "job": self.job_name}
