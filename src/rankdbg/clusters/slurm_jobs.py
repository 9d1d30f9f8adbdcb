"""What Slurm says about jobs, their steps and their nodes: squeue, sinfo, scontrol."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from rankdbg.errors import BadInput, ChooseJob, NodeFailed, NoJob

_SECONDS = 10.0
# 17   17_3 (of an array)   17+1 (of a heterogeneous job); with a step: 17.0
_TARGET = re.compile(r"(?P<job>[0-9]+(?:[_+][0-9]+)?)(?:\.(?P<step>[0-9]+))?")
_FIELDS = "%A|%i|%T|%u|%N|%r|%M|%j"
# Of the states that begin in other ways, a node runs what it has (DRAINING, RESERVED, ...).
_NO_USE = ("down", "powered_down", "powering", "reboot", "future", "unknown")
# What the srun, salloc or sbatch around us has set is for its own steps. These are the
# user's or the site's.
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")


OWN_STEPS = "rankdbg"  # the name of the steps through which we look


class Refused(NodeFailed):
    """A command of Slurm's that has failed, in its own words."""


@dataclass(frozen=True)
class Job:
    number: str  # as srun wants it, unique also within an array
    shown: str  # as squeue shows it
    state: str
    user: str
    node_list: str
    reason: str
    running_for: str
    name: str


def find_job(text: str) -> tuple[Job, str]:
    """The running job that a target means, and the step (``: all)."""
    if not text:
        return _only_job(), ""
    match = _TARGET.fullmatch(text)
    if match is None:
        raise BadInput(
            f"{text!r} is not a job of Slurm",
            hint="slurm:JOB, slurm:JOB.STEP, or slurm: for your only running job",
        )
    return _named_job(match["job"]), match["step"] or ""


def _only_job() -> Job:
    jobs = [job for job in _jobs("--me", "--states=all") if job.state == "RUNNING"]
    if not jobs:
        raise NoJob("no job of yours runs under Slurm", hint="all of your jobs: squeue --me")
    return _the_one(f"{len(jobs)} jobs of yours run under Slurm", jobs)


def _named_job(number: str) -> Job:
    try:
        jobs = _jobs(f"--jobs={number}", "--states=all")
    except Refused as error:
        what = f"Slurm does not show a job {number}"
        raise NoJob(what, *error.why, hint="your jobs: squeue --me") from None
    running = [job for job in jobs if job.state == "RUNNING"]
    if running:
        job = _the_one(f"{len(running)} jobs run as {number}", running)
        if job.user != _user():
            raise NoJob(
                f"job {number} belongs to {job.user}, and Slurm lets only its owner into it",
                hint=f"look as that user: sudo -u {job.user} rankdbg ps -t slurm:{number}",
            )
        return job
    if not jobs:
        raise NoJob(f"Slurm does not show a job {number}", hint="your jobs: squeue --me")
    state = jobs[0].state
    if state in ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"):
        reason = f" ({jobs[0].reason})" if jobs[0].reason not in ("None", "") else ""
        hint = f"when it will: squeue --start -j {number}"
        raise NoJob(f"job {number} does not run: it is {state}{reason}", hint=hint)
    hint = f"what it left: scontrol show job {number}"
    raise NoJob(f"job {number} has ended: it is {state}", hint=hint)


def _the_one(what: str, jobs: Sequence[Job]) -> Job:
    if len(jobs) == 1:
        return jobs[0]
    width = max(len(job.shown) for job in jobs)
    lines = [
        f"-t slurm:{job.shown:{width}}  {job.name}, on {job.node_list} for {job.running_for}"
        for job in jobs
    ]
    raise ChooseJob(what, *lines, hint="choose one, or name several: -t A -t B")


def state_of(job: Job) -> str:
    """In words, for a job that was seen running; `` if it still is, or nobody can say."""
    try:
        found = _jobs(f"--jobs={job.number}", "--states=all")
    except NodeFailed:
        return ""
    state = found[0].state if found else "gone"
    return "" if state == "RUNNING" else f"job {job.shown} has ended: it is {state}"


def nodes_of(job: Job, step: str) -> list[str]:
    if not step:
        return _expanded(job.node_list)
    lines = call("squeue", "--noheader", "--steps", f"--jobs={job.number}", "--format=%i|%N|%j")
    steps = {}
    for line in lines.splitlines():
        ident, nodes, name = (part.strip() for part in line.split("|", 2))
        number = ident.rpartition(".")[2]
        if number.isdigit() and name != OWN_STEPS:
            steps[number] = nodes, name
    if step not in steps:
        known = [f"{job.shown}.{number} ({name})" for number, (_, name) in steps.items()]
        said = f"steps that run: {', '.join(known) or 'none'}"
        raise NoJob(f"job {job.shown} has no step {step}", said)
    return _expanded(steps[step][0])


def outputs_of(number: str) -> list[tuple[str, bool]]:
    """Where the output of its batch script goes, and whether that is for errors alone. Also of a
    job that has ended a short while ago."""
    lines = [line.strip() for line in call("scontrol", "show", "job", number).splitlines()]
    said = dict(line.split("=", 1) for line in lines if line.startswith(("StdOut=", "StdErr=")))
    paths = {said[name]: name == "StdErr" for name in ("StdErr", "StdOut") if said.get(name)}
    return [(path, errors) for path, errors in paths.items() if path != "/dev/null"]


def nodes_out_of_use(nodes: Sequence[str]) -> dict[str, str]:
    """Those on which nothing can be started, and why."""
    listed = f"--nodes={','.join(nodes)}"
    lines = call("sinfo", "--all", "--noheader", "--Node", listed, "--format=%N|%T|%E")
    out = {}
    for line in lines.splitlines():
        node, state, reason = (part.strip() for part in line.split("|", 2))
        if state.startswith(_NO_USE) or state.endswith("*"):
            said = f": {reason}" if reason not in ("none", "") else ""
            not_responding = " (it does not respond)" * state.endswith("*")
            out[node] = f"Slurm has {node} as {state.rstrip('*').upper()}{not_responding}{said}"
    return out


def _expanded(node_list: str) -> list[str]:
    """node-[0-3] -> the four names, in order."""
    return call("scontrol", "show", "hostnames", node_list).split()


def _jobs(*options: str) -> list[Job]:
    lines = call("squeue", "--noheader", f"--format={_FIELDS}", *options).splitlines()
    return [Job(*(part.strip() for part in line.split("|", 7))) for line in lines]


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def environment() -> dict[str, str]:
    """For Slurm's commands: as it is outside of every job."""
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
            f"there is no {name} here: the target slurm needs Slurm's own commands",
            hint="run rankdbg on a login node of the cluster",
        ) from None
    except OSError as error:
        raise NodeFailed(f"{name} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        what = f"{name} did not answer within {_SECONDS:g} s"
        raise NodeFailed(what, hint="is Slurm's controller there? scontrol ping") from None
    if done.returncode:
        complaint = [line for line in done.stderr.splitlines() if line.strip()][:1]
        raise Refused(f"{name} failed", *complaint)
    return done.stdout
