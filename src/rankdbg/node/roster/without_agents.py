"""Python processes without an agent, and why they have none."""

from __future__ import annotations

import os

from rankdbg.files.foreign_files import open_file
from rankdbg.node.machine import descriptors, processes
from rankdbg.node.roster.found_processes import FoundProcesses, Process
from rankdbg.node.roster.users import why_not_asked
from rankdbg.process import identity, rendezvous

EXITING = "its program has ended, and the process is exiting"
# A Python that starts with many others needs seconds until its agent starts.
AGENT_START_SECONDS = 10.0


def python_processes(found: FoundProcesses) -> dict[int, tuple[list[str], dict[str, str]]]:
    pids = {*processes.all_pids()}
    new = pids - found.carded - found.pids - {os.getpid()}
    candidates = [pid for pid in sorted(new) if processes.is_python(pid)]
    found.pids = pids
    if not candidates:
        return {}
    results, stuck = processes.read_all(
        candidates, lambda pid: (processes.command(pid), processes.environment(pid))
    )
    for pid in stuck:
        if processes.owner(pid) != os.geteuid():
            continue  # processes of other users are not examined
        stat = processes.read_stat(pid)
        found.notes.append(
            f"process {pid} ({stat.name if stat else '?'}) cannot be read: "
            f"{(stat and processes.explain_state(stat)) or 'its memory map is locked'}"
        )
    return results


def without_agent(
    pid: int, command: list[str], environ: dict[str, str], wanted: bool
) -> Process | None:
    """A Python process without an agent, if it is requested, or if its environment or title shows
    that it belongs to a job."""
    stat = processes.read_stat(pid)
    if stat is None or not command or _is_rankdbg(command):
        return None
    under_rankdbg = environ.get("RANKDBG", "0") != "0"
    labels = identity.of_process(" ".join(command), command, environ)
    wanted = wanted or under_rankdbg or "rank" in labels or "engine" in labels
    if not wanted:
        return None
    if labels.get("engine") == "ray" and (job := _ray_job(pid)):
        identity.name_job(labels, job)
    reason = "not started under rankdbg run"
    if under_rankdbg:
        reason = why_not_asked(pid) or (EXITING if is_exiting(pid) else "")
        reason = reason or identity.flags_without_agent(command) or _without_reason(stat)
    return Process(
        pid=pid,
        start=stat.start,
        ppid=stat.ppid,
        alive=True,
        labels=labels,
        command=command,
        no_agent_because=reason,
    )


def _without_reason(stat: processes.Stat) -> str:
    young = processes.age(stat.start) < AGENT_START_SECONDS
    return "its agent has not started yet" if young else "its agent did not start"


def is_exiting(pid: int) -> bool:
    """Whether the process is exiting, or its agent has ended: an agent removes its files at exit,
    and leaves its socket open until the end of the process."""
    stat = processes.read_stat(pid)
    if stat is None or stat.exiting or stat.state in "ZX":
        return True
    try:
        links = [target for _, target in descriptors.targets(pid)]
        with open(f"/proc/{pid}/net/unix", encoding="utf-8", errors="replace") as file:
            inside = processes.pid_inside(pid)
            sockets = (line for line in file if line.rstrip().endswith(".sock"))
            bound = [s.split() for s in sockets if rendezvous.pid_in_name(s.rstrip()) == inside]
    except OSError:
        return False
    return any(f"socket:[{words[6]}]" in links for words in bound if len(words) > 7)


def _ray_job(pid: int) -> str:
    """The job from the first lines of a Ray worker's log; an idle worker has none. The environment
    does not contain it: Ray starts workers before it assigns a job."""
    try:
        log = descriptors.target(pid, 1)
        if not os.path.basename(log).startswith("worker-"):
            return ""
        with open_file(log) as file:
            mark, _, job = file.readline(100).decode("ascii", "replace").strip().rpartition(":")
    except OSError:
        return ""
    return f"ray-{job}" if mark == ":job_id" and job.isalnum() else ""


def _is_rankdbg(command: list[str]) -> bool:
    _, form, name = identity.invocation(command)
    if form == "code":
        # A node, a watch, or the Ray driver of a session, with its source text.
        return bool({"rankdbg.node", "rankdbg.watch"} & {*command}) or "class RankdbgNode" in name
    return name.rpartition("/")[2] == "rankdbg"
