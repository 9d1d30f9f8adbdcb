"""Jobs, steps and nodes of Slurm, from squeue, sinfo and scontrol."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rankdbg.errors import BadInput, ChooseJob, NodeFailed, NoJob

_SECONDS = 10.0
# 17   17_3 (of an array)   17+1 (of a heterogeneous job); with a step: 17.0
_TARGET = re.compile(r"(?P<job>[0-9]+(?:[_+][0-9]+)?)(?:\.(?P<step>[0-9]+))?")
_FIELDS = "%A|%i|%T|%u|%N|%r|%M|%j"
# In all other states (DRAINING, RESERVED, ...) a node keeps running its jobs.
_NO_USE = ("down", "powered_down", "powering", "reboot", "future", "unknown")
# Variables set by an enclosing srun, salloc or sbatch are for its own steps. These come from
# the user or the site.
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")


# States of a job that has not ended for good.
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "SUSPENDED")  # fmt: skip
_ALIVE = (*_WAITING, "RUNNING", "RESIZING", "SIGNALING", "STOPPED", "STAGE_OUT", "RESV_DEL_HOLD")

# The name of rankdbg's own steps. Those of `srun rankdbg run` are called `rankdbg`.
OWN_STEPS = "rankdbg-node"


class SlurmCommandFailed(NodeFailed):
    """A Slurm command that has failed, with its message."""


@dataclass(frozen=True)
class SlurmJob:
    """A job, an element of an array, or a component of a heterogeneous job."""

    number: str  # unique also within an array or a heterogeneous job
    shown: str  # as squeue shows it: 17, 17_3, 17+1
    state: str
    user: str
    node_list: str
    reason: str
    running_for: str
    name: str

    @property
    def component(self) -> str:
        """`1` for 17+1, which srun knows as --jobid=17 --het-group=1; `` for other jobs."""
        return self.shown.partition("+")[2]

    @property
    def srun_number(self) -> str:
        """The number for srun, which tasks have in SLURM_JOB_ID: in all components of a
        heterogeneous job that of the first (measured, Slurm 22.05)."""
        return self.shown.partition("+")[0] if self.component else self.number

    @property
    def array(self) -> str:
        """`17` for 17_3."""
        return self.shown.partition("_")[0] if "_" in self.shown else ""


def find_jobs(text: str) -> tuple[list[SlurmJob], str]:
    """The running job of a target, and the step (empty: all). Several jobs only if they are
    the components of one heterogeneous job."""
    if not text:
        return _only_job(), ""
    match = _TARGET.fullmatch(text)
    if match is None:
        raise BadInput(
            f"invalid Slurm job {text!r}",
            hint="expected slurm:JOB, slurm:JOB.STEP, or slurm: for your only running job",
        )
    return _named_job(match["job"]), match["step"] or ""


def _only_job() -> list[SlurmJob]:
    jobs = [job for job in _jobs("--me", "--states=all") if job.state == "RUNNING"]
    if not jobs:
        raise NoJob("you have no running Slurm job", hint="to list your jobs: squeue --me")
    return _the_one(f"you have {len(jobs)} running Slurm jobs", jobs)


def _named_job(number: str) -> list[SlurmJob]:
    jobs = _look_up(number)
    running = [job for job in jobs if job.state == "RUNNING"]
    if running:
        chosen = _the_one(f"{len(running)} running jobs match {number}", running)
        owner = chosen[0].user
        if owner != _user():
            raise NoJob(
                f"job {number} belongs to {owner}, and Slurm allows only its owner to enter it",
                hint=f"run rankdbg as that user: sudo -u {owner} rankdbg ps -t slurm:{number}",
            )
        return chosen
    if not jobs:
        raise NoJob(f"Slurm has no job {number}", hint="to list your jobs: squeue --me")
    state = jobs[0].state
    if state in _WAITING:
        reason = f" ({jobs[0].reason})" if jobs[0].reason not in ("None", "") else ""
        hint = f"to see when it will start: squeue --start -j {number}"
        raise NoJob(f"job {number} is not running: its state is {state}{reason}", hint=hint)
    hint = f"for details: scontrol show job {number}"
    raise NoJob(f"job {number} has ended: its state is {state}", hint=hint)


def _look_up(number: str) -> list[SlurmJob]:
    """squeue fails in the same way for an unknown number and for a controller that is down; a
    second request distinguishes the two."""
    try:
        found = _jobs(f"--jobs={number}", "--states=all")
        # squeue shows all components if asked for one.
        return [job for job in found if "+" not in number or job.shown == number]
    except SlurmCommandFailed as error:
        _jobs("--me")
        what = f"Slurm has no job {number}"
        raise NoJob(what, *error.why, hint="to list your jobs: squeue --me") from None


def _the_one(what: str, jobs: Sequence[SlurmJob]) -> list[SlurmJob]:
    """The only job, or all components of it."""
    if len({job.srun_number if job.component else job.shown for job in jobs}) == 1:
        return sorted(jobs, key=lambda job: int(job.component or 0))
    width = max(len(job.shown) for job in jobs)
    lines = [
        f"-t slurm:{job.shown:{width}}  {job.name}, on {job.node_list} for {job.running_for}"
        for job in jobs
    ]
    raise ChooseJob(what, *lines, hint="choose one, or name several: -t A -t B")


def state_of(job: SlurmJob) -> str:
    """RUNNING, COMPLETED, ...; `GONE` if Slurm no longer lists it. Raises NodeFailed if Slurm
    does not respond, which proves nothing about the job."""
    try:
        # The last element of an array has the number of the array, which lists all elements.
        found = [row for row in _look_up(job.number) if row.number == job.number]
    except NoJob:
        found = []
    return found[0].state if found else "GONE"


def why_lost(job: SlurmJob) -> str:
    """Why the connections to a running job were lost; empty if it still runs or Slurm does not
    respond."""
    try:
        state = state_of(job)
    except NodeFailed:
        return ""
    if state in ("RUNNING", "SUSPENDED"):
        return ""
    does = "is not running" if state in _WAITING else "has ended"
    return f"job {job.shown} {does}: {_in_words(state)}"


def why_ended(job: SlurmJob) -> str:
    """Empty unless it is certain that the job has ended for good."""
    try:
        state = state_of(job)
    except NodeFailed:
        return ""
    return "" if state in _ALIVE else f"job {job.shown} has ended: {_in_words(state)}"


def _in_words(state: str) -> str:
    return "Slurm no longer lists it" if state == "GONE" else f"its state is {state}"


def end_time(job: SlurmJob) -> float | None:
    """When Slurm will end it, in seconds since the epoch; None without a limit."""
    said = call("squeue", "--noheader", f"--jobs={job.number}", "--format=%A|%e")
    for line in said.splitlines():
        number, _, moment = line.strip().partition("|")
        with contextlib.suppress(ValueError):  # N/A, Unknown
            if number == job.number:
                return datetime.fromisoformat(moment).timestamp()
    return None


def nodes_of(job: SlurmJob, step: str) -> list[str]:
    if not step:
        return _expanded(job.node_list)
    steps = steps_of(job)
    if step not in steps:
        known = [f"{job.shown}.{number} ({name})" for number, (_, name) in steps.items()]
        said = f"running steps: {', '.join(known) or 'none'}"
        raise NoJob(f"job {job.shown} has no step {step}", said)
    return _expanded(steps[step][0])


def steps_of(job: SlurmJob) -> dict[str, tuple[str, str]]:
    """By number: the nodes and the name of each running step, but those of rankdbg itself."""
    lines = call("squeue", "--noheader", "--steps", f"--jobs={job.number}", "--format=%i|%N|%j")
    steps = {}
    for line in lines.splitlines():
        ident, nodes, name = _parts(line, 3)
        of_job, _, number = ident.rpartition(".")
        # The last element of an array has the number of the array, which lists all elements.
        is_own = of_job in (job.number, job.shown)
        if is_own and number.isdigit() and name != OWN_STEPS:
            steps[number] = nodes, name
    return steps


def outputs_of(number: str) -> list[tuple[str, bool]]:
    """The output files of its batch script, and whether each is for errors only. Also for a
    job that has ended recently."""
    lines = [line.strip() for line in call("scontrol", "show", "job", number).splitlines()]
    said = dict(line.split("=", 1) for line in lines if line.startswith(("StdOut=", "StdErr=")))
    paths = {said[name]: name == "StdErr" for name in ("StdErr", "StdOut") if said.get(name)}
    return [(path, errors) for path, errors in paths.items() if path != "/dev/null"]


def nodes_out_of_use(nodes: Sequence[str]) -> dict[str, str]:
    """Nodes on which nothing can be started, and why."""
    listed = f"--nodes={','.join(nodes)}"
    lines = call("sinfo", "--all", "--noheader", "--Node", listed, "--format=%N|%T|%E")
    out = {}
    for line in lines.splitlines():
        node, state, reason = (part.strip() for part in line.split("|", 2))
        if state.startswith(_NO_USE) or state.endswith("*"):
            said = f": {reason}" if reason not in ("none", "") else ""
            not_responding = " (it does not respond)" * state.endswith("*")
            out[node] = f"Slurm reports {node} as {state.rstrip('*').upper()}{not_responding}{said}"
    return out


def _expanded(node_list: str) -> list[str]:
    """node-[0-3] -> the four names, in order."""
    return call("scontrol", "show", "hostnames", node_list).split()


def _jobs(*options: str) -> list[SlurmJob]:
    lines = call("squeue", "--noheader", f"--format={_FIELDS}", *options).splitlines()
    return [SlurmJob(*_parts(line, 8)) for line in lines]


def _parts(line: str, count: int) -> list[str]:
    """The fields of a line that squeue has printed in the format that was requested."""
    parts = [part.strip() for part in line.split("|", count - 1)]
    if len(parts) != count:
        raise NodeFailed(
            "invalid output of squeue: not in the format that was requested",
            f"its first such line: {line[:100]!r}",
            hint="is another program called squeue? type -a squeue",
        )
    return parts


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def environment() -> dict[str, str]:
    """The environment for Slurm commands: as outside of a job."""
    ours = ("SLURM", "SRUN_", "SBATCH_", "SALLOC_")
    return {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(ours)}


def call(*command: str) -> str:
    name = command[0]
    try:
        done = subprocess.run(
            command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", check=False, timeout=_SECONDS,
        )  # fmt: skip
    except FileNotFoundError:
        raise NodeFailed(
            f"{name} not found: slurm: targets need the Slurm commands",
            hint="run rankdbg on a login node of the cluster",
        ) from None
    except OSError as error:
        raise NodeFailed(f"cannot run {name}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        what = f"{name} did not respond within {_SECONDS:g} s"
        raise NodeFailed(what, hint="is the Slurm controller reachable? scontrol ping") from None
    if done.returncode:
        complaint = [line for line in done.stderr.splitlines() if line.strip()][:1]
        raise SlurmCommandFailed(f"{name} failed", *complaint)
    return done.stdout
