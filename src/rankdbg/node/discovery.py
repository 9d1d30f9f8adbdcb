"""Cards and /proc -> all processes of jobs on this machine."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat as stat_module
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankdbg import identity, rendezvous, wire
from rankdbg.errors import RankdbgError
from rankdbg.node import processes

LARGEST_CARD = 1 << 20


@dataclass
class Process:
    """A process that belongs to a job, as it was found."""

    pid: int
    start: int
    ppid: int
    alive: bool
    labels: dict[str, Any]
    command: list[str]
    python: str = ""
    socket: str = ""  # the path of its agent's socket, `` if it has no agent
    no_agent_because: str = ""
    modules: int = 0
    files: tuple[str, ...] = ()
    kind: str = "rank"
    number: int | None = None
    where: list[Any] | None = None
    step: int | None = None
    stops: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start

    @property
    def job(self) -> str:
        return str(self.labels.get("job", ""))


@dataclass
class Found:
    processes: list[Process] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_processes(others: Collection[int] = ()) -> Found:
    """Those with an agent by their cards, those without by /proc. `others` are wanted too,
    whatever they are."""
    found = Found()
    directories = [rendezvous.directory()]
    known: set[int] = set()
    _add_carded(directories[0], found, known)
    for pid, (command, environ) in _python_processes(known, found).items():
        elsewhere = environ.get("RANKDBG_DIR", "")
        if elsewhere and os.path.abspath(elsewhere) not in directories:
            # The job was started with a directory of its own: its agents are there.
            directories.append(os.path.abspath(elsewhere))
            _add_carded(directories[-1], found, known)
        if pid not in known:
            process = _just_started(pid, directories) or _without_agent(
                pid, command, environ, pid in others
            )
            if process is not None:
                found.processes.append(process)
    return found


def _just_started(pid: int, directories: list[str]) -> Process | None:
    """A process whose card has come since the directory was listed."""
    for directory in directories:
        path = os.path.join(directory, f"{pid}.json")
        card = _read_card(path)
        if card is not None and card["pid_namespace"] == rendezvous.pid_namespace():
            return _from_card(card, path)
    return None


def _add_carded(directory: str, found: Found, known: set[int]) -> None:
    try:
        rendezvous.check(directory)
        names = sorted(os.listdir(directory))
    except (OSError, rendezvous.Refused) as refusal:
        if os.path.exists(directory):
            found.notes.append(f"agents are not looked for: {refusal}")
        return
    namespace = rendezvous.pid_namespace()
    unreadable = 0
    for name in names:
        if not name.endswith(".json"):
            continue
        path = os.path.join(directory, name)
        card = _read_card(path)
        if card is None:
            unreadable += os.path.lexists(path)  # or its process has just ended
        elif card["pid_namespace"] == namespace and card["pid"] not in known:
            process = _from_card(card, path)
            found.processes.append(process)
            if process.alive:
                known.add(process.pid)
    if unreadable:
        found.notes.append(f"{unreadable} files in {directory} are not cards of rankdbg")


def _read_card(path: str) -> dict[str, Any] | None:
    """None for whatever is no card. The directory is the user's, but not ours alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            if not stat_module.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            card = wire.decode(file.read(LARGEST_CARD))
    except (OSError, RankdbgError):
        return None
    wanted = {"pid": int, "start": int, "ppid": int, "labels": dict, "command": list}
    wanted.update({"pid_namespace": str, "python": str})
    if all(type(card.get(name)) is kind for name, kind in wanted.items()):
        return card
    return None


def _from_card(card: dict[str, Any], path: str) -> Process:
    socket = path.removesuffix(".json") + ".sock"
    return Process(
        pid=card["pid"],
        start=card["start"],
        ppid=card["ppid"],
        alive=processes.is_alive(card["pid"], card["start"]),
        labels=card["labels"],
        command=[str(word) for word in card["command"]],
        python=card["python"],
        socket=socket,
        files=(path, socket),
    )


def _python_processes(known: set[int], found: Found) -> dict[int, tuple[list[str], dict[str, str]]]:
    candidates = [
        pid
        for pid in processes.all_pids()
        if pid not in known and pid != os.getpid() and processes.is_python(pid)
    ]
    results, stuck = processes.read_all(
        candidates, lambda pid: (processes.command(pid), processes.environment(pid))
    )
    for pid in stuck:
        stat = processes.read_stat(pid)
        found.notes.append(
            f"process {pid} ({stat.name if stat else '?'}) cannot be read: "
            f"{(stat and processes.explain_state(stat)) or 'its memory map is locked'}"
        )
    return results


def _without_agent(
    pid: int, command: list[str], environ: dict[str, str], wanted: bool
) -> Process | None:
    """A Python process without an agent, if it is wanted, or if its environment or title shows
    it to be of a job."""
    stat = processes.read_stat(pid)
    if stat is None or not command or _is_rankdbg(command):
        return None
    under_rankdbg = environ.get("RANKDBG", "0") != "0"
    labels = identity.of_process(" ".join(command), command, environ)
    wanted = wanted or under_rankdbg or "rank" in labels or "engine" in labels
    if not wanted:
        return None
    labels.setdefault("job", _made_up_job(labels, command, stat))
    reason = "not started under rankdbg run"
    if under_rankdbg:
        reason = identity.flags_without_agent(command) or "its agent did not start"
    return Process(
        pid=pid,
        start=stat.start,
        ppid=stat.ppid,
        alive=True,
        labels=labels,
        command=command,
        no_agent_because=reason,
    )


def _made_up_job(labels: dict[str, Any], command: list[str], stat: processes.Stat) -> str:
    """A name for a job that has none. The processes of an engine have that in common from
    which they all descend: two servers on one machine are two jobs."""
    if "engine" not in labels:
        return identity.made_up_job(command, stat.ppid)
    if labels["engine"] == "ray" and (job := _ray_job(stat.pid)):
        return job
    top = stat
    while (parent := processes.read_stat(top.ppid)) is not None and parent.pid != 1:
        words, _ = processes.read_all([parent.pid], processes.command)
        if labels["engine"] not in " ".join(words.get(parent.pid, ())).lower():
            break
        top = parent
    return f"{labels['engine']}-{top.pid:x}"


def _ray_job(pid: int) -> str:
    """The job that a worker of Ray has written first into its log; an idle one has none. Its
    environment does not say: Ray starts workers before it knows for which job."""
    try:
        log = os.readlink(f"/proc/{pid}/fd/1")
        if not os.path.basename(log).startswith("worker-"):
            return ""
        with open(log, "rb") as file:
            mark, _, job = file.readline(100).decode("ascii", "replace").strip().rpartition(":")
    except OSError:
        return ""
    return f"ray-{job}" if mark == ":job_id" and job.isalnum() else ""


def _is_rankdbg(command: list[str]) -> bool:
    _, form, name = identity.invocation(command)
    if form == "code":
        # A node, or the driver by which a session is on a Ray cluster, its text and all.
        return "rankdbg.node" in command or "class RankdbgNode" in name
    return name.rpartition("/")[2] == "rankdbg"


def remove_stale(found: list[Process]) -> list[Process]:
    """Remove the files of dead processes; those that remain are of interest.

    The dead ranks of a job that still lives remain: that they are gone is what its user
    wants to see.
    """
    running = {process.key for process in found if _runs(process)}
    living = {p.job for p in found if p.kind == "rank" and p.key in running}
    remaining = []
    for process in found:
        if process.key in running or (process.kind == "rank" and process.job in living):
            remaining.append(process)
            continue
        _remove_files(process)
    return remaining


def in_scope(found: list[Process], scope: Mapping[str, Any]) -> list[Process]:
    """Those that the session has come for: a node that a Slurm job shares with others runs
    their processes too. What a process has said itself counts, also after its death."""
    wanted: Mapping[str, str] = scope.get("environment", {})
    if wanted:
        said = {p.key: p.labels["environment"] for p in found if "environment" in p.labels}
        fits = {key for key, has in said.items() if wanted.items() <= has.items()}
        others = {p.pid: p.key for p in found if p.alive and p.key not in said}
        fits |= {others[pid] for pid in _with_environment(list(others), wanted)}
        found = [process for process in found if process.key in fits]
    if scope.get("engine"):
        jobs = {p.job for p in found if p.labels.get("engine") == scope["engine"]}
        found = [process for process in found if process.job in jobs]
    if scope.get("job"):
        for process in found:
            process.labels = {**process.labels, "job": scope["job"]}
    return found


def name_job(found: list[Process], name: str) -> None:
    """Processes whose job has no name of its own belong to this one: a pod is part of one job,
    and its launcher and ranks do not know what that is called."""
    for process in found:
        if process.job == identity.made_up_job(process.command, process.ppid):
            process.labels = {**process.labels, "job": name}


def _with_environment(pids: list[int], wanted: Mapping[str, str]) -> set[int]:
    """Where that cannot be read, the process from which one descends tells."""
    fits: set[int] = set()
    telling = {pid: pid for pid in pids}
    while telling:
        environments, _ = processes.read_all(set(telling.values()), processes.environment)
        undecided: dict[int, int] = {}
        for pid, teller in telling.items():
            has = environments.get(teller, {})
            if wanted.items() <= has.items():
                fits.add(pid)
            elif not wanted.keys() & has.keys() and (parent := processes.parent(teller)) > 1:
                undecided[pid] = parent
        telling = undecided
    return fits


def _remove_files(process: Process) -> None:
    """Unless they are by now those of a new process with the same number."""
    if not process.files:
        return
    card = _read_card(process.files[0])
    if card is None or (card["pid"], card["start"]) == process.key:
        for path in process.files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _runs(process: Process) -> bool:
    """Neither gone nor a zombie."""
    stat = processes.read_stat(process.pid)
    return stat is not None and stat.start == process.start and stat.state not in "ZX"


def other_users() -> list[str]:
    """Users other than this one whose agents have a directory here, and who run Python."""
    running = {_owner(f"/proc/{pid}") for pid in processes.all_pids()} - {os.geteuid(), -1}
    return sorted(_user_name(uid) for uid in running if uid == _owner(f"/tmp/rankdbg-{uid}"))


def _owner(path: str) -> int:
    try:
        return os.stat(path).st_uid
    except OSError:
        return -1


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
