"""The nodes of a Slurm job, through one `srun --overlap` for all of them.

slurm:17      slurm:17.0 (one step)      slurm:17_3 (of an array)      slurm: (your only job)
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rankdbg.clusters import NO_OPTIONS, Options, slurm_jobs
from rankdbg.clusters.sending import REMOTE
from rankdbg.clusters.srun import NodeChannel, Step, srun_command
from rankdbg.errors import NodeFailed

# For so long, what Slurm has said about its nodes is taken to be true.
NODES_SECONDS = 2.0


class Slurm:
    origin = ""

    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        self._options = options
        self._job, self._step = slurm_jobs.find_job(rest)
        self.target = f"slurm:{self._job.shown}" + f".{self._step}" * bool(self._step)
        self._nodes = slurm_jobs.nodes_of(self._job, self._step)
        self._channels: dict[str, NodeChannel] = {}
        self._out: dict[str, str] = {}  # nodes that cannot be used, and why
        self._out_at = float("-inf")

    def nodes(self) -> list[str]:
        return list(self._nodes)

    def log_question(self) -> dict[str, object]:
        """What a node cannot know about where logs are."""
        try:
            return {"slurm": slurm_jobs.outputs_of(self._job.number)}
        except NodeFailed:  # nodes find what they find
            return {}

    def open(self, node: str) -> NodeChannel:
        """The first brings all others with it. So does the next after srun itself has ended,
        and one node that is lost is reached again alone."""
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
        channels = [NodeChannel(node, self._scope(node)) for node in usable]
        Step(channels, self._command, lambda: slurm_jobs.state_of(self._job))
        self._channels.update({channel.node: channel for channel in channels})

    def _look_at_nodes(self) -> None:
        if time.monotonic() - self._out_at > NODES_SECONDS:
            self._out = slurm_jobs.nodes_out_of_use(self._nodes)
            self._out_at = time.monotonic()

    def _command(self, nodes: Sequence[str]) -> list[str]:
        options = self._options
        return srun_command(self._job.number, nodes, options.srun, options.python)

    def _scope(self, node: str) -> dict[str, object]:
        """Nodes may be shared with other jobs of the same user."""
        wanted = {"SLURM_JOB_ID": self._job.number, "SLURMD_NODENAME": node}
        if self._step:
            wanted["SLURM_STEP_ID"] = self._step
        return {**REMOTE, "environment": wanted, "job": f"slurm-{self._job.shown}"}
