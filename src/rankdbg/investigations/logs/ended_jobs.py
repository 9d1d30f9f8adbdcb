"""The output of jobs that have ended, as far as the scheduler still lists them."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.clusters.slurm import slurm_jobs
from rankdbg.errors import NodeFailed
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.node.logs.slurm_outputs import find_outputs
from rankdbg.verdicts.rules.log_rules import load_rules


def outputs_of_ended(targets: Sequence[str]) -> list[str]:
    """The output files of jobs that have ended, if Slurm still lists them and they exist locally."""
    numbers = [rest for name, _, rest in (t.partition(":") for t in targets) if name == "slurm"]
    try:
        patterns = [(p, n) for n in numbers if n.isdigit() for p, _ in slurm_jobs.outputs_of(n)]
    except NodeFailed:
        return []
    return [o.path for pattern, number in patterns for o in find_outputs(pattern, "/", number)]


def diagnose_ended(targets: Sequence[str]) -> LogDiagnosis | None:
    """What the outputs of such jobs say; None if there are none."""
    paths = outputs_of_ended(targets)
    if not paths:
        return None
    rules = load_rules()
    return LogDiagnosis.of(given_logs(paths, rules.patterns()).scan(), rules, None)
