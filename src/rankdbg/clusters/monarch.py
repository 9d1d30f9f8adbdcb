"""The procs of Monarch's actors on this machine.

The local machine, restricted to jobs in which Monarch has started procs. The hosts of a host
mesh are reached like any others (ssh:, slurm:, k8s:); procs report their mesh position there
too.
"""

from __future__ import annotations

from rankdbg.clusters import NO_OPTIONS, Cluster, Options
from rankdbg.clusters.local import Local
from rankdbg.clusters.transport.channel import ProcessChannel
from rankdbg.errors import BadInput

_ELSEWHERE = "for Monarch procs on other hosts use -t ssh:HOST,HOST or -t slurm:JOB"
SCOPE = {"engine": "monarch", "if_no_ranks": [_ELSEWHERE]}


class Monarch(Cluster):
    target = "monarch"

    def __init__(self, rest: str = "", options: Options = NO_OPTIONS) -> None:
        if rest:
            raise BadInput(
                f"invalid target monarch:{rest}: monarch takes no argument", hint=_ELSEWHERE
            )
        self._machine = Local(options=options, scope=SCOPE)

    def nodes(self) -> list[str]:
        return self._machine.nodes()

    def open(self, node: str) -> ProcessChannel:
        return self._machine.open(node)
