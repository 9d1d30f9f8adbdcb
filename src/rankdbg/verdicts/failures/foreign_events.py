"""Events that are not of this job: another's process, pod or step, an earlier run, another time."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rankdbg.logs.patterns import FileScan
from rankdbg.logs.places import ray_worker
from rankdbg.verdicts.failures.earlier_runs import ANY_ZONE
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file
from rankdbg.verdicts.failures.identities import Identities
from rankdbg.verdicts.failures.pod_rows import pods_of_rows, row_pod
from rankdbg.verdicts.failures.slurm_records import NODE_DOWN, is_row
from rankdbg.verdicts.failures.subjects import pods_named
from rankdbg.verdicts.rules import clues

AROUND_JOB = 600.0
# Programs whose death by the OOM killer may be a job's.
_OF_JOBS = re.compile(
    r"(?i)python|ray:|ray_|pt_|torch|train|vllm|sglang|raylet|gcs_server|java|node(?!_|-exp)|deepspeed|accel|srun"
    r"|slurm|bash|sh$|mpi|orted|main|worker|[A-Z]\w+(Actor|Worker|Dict)"
)
# Namespaces in which no jobs run.
_OF_CLUSTER = {"kube-system", "kube-public", "kube-node-lease", "gpu-operator", "monitoring"}
_VICTIM = re.compile(
    r"(?:[Kk]illed process|reaped process) \d+ \(([^)]+)\)|\btask=([^,]+),pid="
    r"|(?:^|\s)([^\s\[]+)\[\d+\]:? (?:segfault at|general protection|trap )"
)
# Of the first job of a line: slurmctld tells of all jobs of the cluster, sacct of those that are asked for.
_SLURM_JOB = re.compile(r"\bJobId=(\d+)|\bREQUEST_KILL_JOB job (\d+)")
_SLURM_ROW = re.compile(r"^\s*(\d+)(?:_\d+)?(?:\.\w+)?[ |]")
_OWN_SLURM_JOB = re.compile(r"\*\*\* (?:JOB|STEP) (\d+)(?:\.\w+)? ON ")  # of slurmstepd
_SLURM_FILE = re.compile(r"(?:^|[/._-])slurm[-_](\d+)(?:_\d+)?(?:[-._]\w+)*\.(?:out|err|log)$")
_SLURM_STEP = re.compile(r"\b(?:StepId=|STEP )\d+\.(\d+)\b")
# The id of a driver as a worker is that of its job, filled up.
_RAY_JOB = re.compile(
    r"\b(?:job_id=(?=[0-9a-f]{8}\b)|worker id = (?=[0-9a-f]{8}f{48}))([0-9a-f]{8})"
)


class ForeignEvents:
    """`begin` and `end`: of the job's own logs."""

    def __init__(
        self,
        events: Sequence[Event],
        identities: Identities,
        scans: Mapping[str, FileScan],
        earlier_runs: Collection[str],
        begin: float | None,
        end: float | None,
    ) -> None:
        self._identities = identities
        self._scans = scans
        self._earlier_runs = earlier_runs
        self._begin, self._end = begin, end
        workers = (ray_worker(path.rpartition("/")[2]) for path in scans)
        self._ray_jobs = {worker[1] for worker in workers if worker}
        steps = (step for event in events for step in _slurm_steps(event))
        self._last_step = max(steps, default=None)  # of Slurm's job, of those that had trouble
        self._slurm_jobs = _own_slurm_jobs(events, scans)
        pods = pods_of_rows(scans.values())
        self._pods = pods & identities.hosts_at_work or pods & identities.own_hosts

    def why(self, event: Event) -> str:
        """`` if it is of this job, as far as that is known."""
        first = event.first
        if first.path in self._earlier_runs:
            return "an earlier run"
        job = _RAY_JOB.search(first.text)
        if job and self._ray_jobs and job[1] not in self._ray_jobs:
            return "another job of the same Ray cluster"
        if self._is_of_another_slurm_job(event):
            return "another job of Slurm"
        steps = _slurm_steps(event)
        if steps and self._last_step is not None and max(steps) < self._last_step:
            return "an earlier step of the Slurm job"
        if self._is_of_another_pod(event):
            return "another job's pod"
        if self._is_of_another_node(event):
            return "a node on which nothing of this job is known to run"
        if self._is_of_another_process(event):
            return "a process of another job"
        if not is_kernel_file(first.path):
            return ""
        if first.time is not None and self._begin is not None and self._end is not None:
            slack = AROUND_JOB if first.comparable else ANY_ZONE
            if first.time < self._begin - slack:
                return "before this job began"
            if first.time > self._end + slack:
                return "after this job had ended"
        return "long before the end of this log" if self._is_old_by_boot(event) else ""

    def _is_of_another_slurm_job(self, event: Event) -> bool:
        jobs = {_slurm_job(finding.text) for finding in event.findings}
        return "" not in jobs and bool(self._slurm_jobs) and not jobs & self._slurm_jobs

    def _is_of_another_node(self, event: Event) -> bool:
        """Slurm tells of all nodes of a cluster."""
        of_cluster = event.mode == NODE_DOWN or "setting DOWN" in event.first.text
        own = self._identities.own_hosts
        return bool(of_cluster and event.host and own) and event.host not in own

    def _is_of_another_pod(self, event: Event) -> bool:
        """Tables of a namespace list the pods of all jobs. The job's are called alike, and some of them
        have logs or are described."""
        pods = {row_pod(finding.text) for finding in event.findings}
        own = self._identities.pods or self._pods
        if "" in pods:
            named = {pod for finding in event.findings for pod in pods_named(finding.text)}
            if named and all(space in _OF_CLUSTER for space, _ in named):
                return True
            pods, own = {pod for _, pod in named}, self._identities.hosts_at_work
        if not pods or not own:
            return False
        return not any(
            pod.partition("-")[0] == known.partition("-")[0] for pod in pods for known in own
        )

    def _is_of_another_process(self, event: Event) -> bool:
        """Of OOM kills and crashes the pid is known, and mostly those of the job are, too."""
        kind, of_kernel = event.rule.kind, is_kernel_file(event.first.path)
        if event.ranks or not (kind == "host_memory" or (kind == "crash" and of_kernel)):
            return False
        if event.first.pid in self._identities.pids:
            return False
        texts = [finding.text for finding in event.findings]
        texts += [line for finding in event.findings for line in finding.beside]
        names = [name for text in texts for name in _victims(text)]
        return bool(names) and not any(map(_OF_JOBS.match, names))

    def without_strangers(self, judged: list[Event]) -> list[Event]:
        """Where the pids of all ranks are known, and a rank has failed by itself, the kernel has killed
        a process of another job."""
        own = any(e.outcome == "fatal" and e.ranks and e.tier <= 1 for e in judged)
        if not own or not self._identities.knows_all_pids:
            return judged
        why = "none of this job's ranks"
        return [
            replace(e, outcome="foreign", why=why) if self._is_kill_of_a_stranger(e) else e
            for e in judged
        ]

    def _is_kill_of_a_stranger(self, event: Event) -> bool:
        kill = event.rule.kind == "host_memory" and is_kernel_file(event.first.path)
        pid = event.first.pid
        return kill and not event.ranks and pid is not None and pid not in self._identities.pids

    def _is_old_by_boot(self, event: Event) -> bool:
        """Of a log whose clock counts from the boot, only how long before its end is known."""
        scan, at = self._scans.get(event.first.path), _since_boot(event.first.text)
        last = _since_boot(scan.ending) if scan is not None else None
        if at is None or last is None or self._begin is None or self._end is None:
            return False
        return last - at > self._end - self._begin + ANY_ZONE


def _slurm_job(text: str) -> str:
    """The number of the job that a line of Slurm's own logs and tables is about, or ``."""
    found = _SLURM_JOB.search(text) or (_SLURM_ROW.match(text) if is_row(text) else None)
    return next(filter(None, found.groups())) if found else ""


def _own_slurm_jobs(events: Sequence[Event], scans: Mapping[str, FileScan]) -> set[str]:
    """By the names of the files of its output, and by what Slurm writes into them."""
    files = (_SLURM_FILE.search(path) for path in scans)
    texts = (finding.text for event in events for finding in event.findings)
    return {found[1] for found in (*files, *map(_OWN_SLURM_JOB.search, texts)) if found}


def _slurm_steps(event: Event) -> set[int]:
    """The numbers of the steps that its lines name."""
    texts = (line for f in event.findings for line in (f.text, *f.beside))
    return {int(found[1]) for text in texts for found in _SLURM_STEP.finditer(text)}


def _since_boot(line: str) -> float | None:
    found = clues.find(clues.SINCE_BOOT, line)
    return float(found["seconds"]) if found else None


def _victims(text: str) -> list[str]:
    return [next(filter(None, found.groups())) for found in _VICTIM.finditer(text)]
