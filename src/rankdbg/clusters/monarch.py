"""The procs of Monarch's actors on this machine.

The local machine, and of its processes those of jobs in which Monarch has started procs. The
hosts of a host mesh are reached as any others (ssh:, slurm:, k8s:): what a proc says about its
place in the mesh it says there too.
"""

from __future__ import annotations

from rankdbg.clusters import NO_OPTIONS, Options
from rankdbg.clusters.channel import ProcessChannel
from rankdbg.clusters.local import Local
from rankdbg.errors import BadInput

_ELSEWHERE = "Monarch's procs on other hosts are reached with -t ssh:HOST,HOST or -t slurm:JOB"
SCOPE = {"engine": "monarch", "if_no_ranks": [_ELSEWHERE]}


class Monarch:
    target = "monarch"
    origin = ""

    def __init__(self, rest: str = "", options: Options = NO_OPTIONS) -> None:
        if rest:
            raise BadInput(
                f"the target monarch takes nothing after it, not {rest!r}", hint=_ELSEWHERE
            )
        self._machine = Local(scope=SCOPE)

    def nodes(self) -> list[str]:
        return self._machine.nodes()

    def open(self, node: str) -> ProcessChannel:
        return self._machine.open(node)
