"""Cards and /proc -> all processes of jobs on this machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Iterable, Mapping

from rankdbg.files.foreign_files import open_file
from rankdbg.node.machine import descriptors, processes
from rankdbg.node.roster import containers, first_ranks
from rankdbg.node.roster.card_files import read_card, read_cards
from rankdbg.node.roster.labels import sound_labels
from rankdbg.process import ended_cards, identity, rendezvous
from rankdbg.roster.members import Member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXITING = "its program has ended, and the process is exiting"
# A Python that starts with many others needs seconds until its agent starts.
AGENT_START_SECONDS = 10.0
# Jobs whose names become known after the card was written (agent/card.py).
_NAMED_LATE = ("ray-", "monarch-")


class Process(Member):
    """A process of this machine that may belong to a job."""

    def __init__(
        self,
        pid: int,
        start: int,
        ppid: int,
        alive: bool,
        labels: dict[str, Any],
        command: list[str],
        python: str = "",
        socket: str = "",
        no_agent_because: str = "",
        modules: int = 0,
        files: tuple[str, ...] = (),
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(pid, start, ppid, alive, labels, command, modules=modules)
        self.python = python
        self.socket = socket  # the path of its agent's socket; empty without an agent
        self.no_agent_because = no_agent_because
        self.files = files
        self.outputs = outputs or {}  # the files of its stdout and stderr, by its card
        self.where: list[Any] | None = None
        self.step: int | None = None
        self.stops: list[dict[str, Any]] = []

    def copy(self) -> Process:
        other = Process.__new__(Process)
        other.__dict__.update(self.__dict__)
        return other


class FoundProcesses:
    """`directories`: of agents, and whether each is usable; `carded`: living processes with a
    card; `pids`: all processes that were examined; `contained`: the pids here of processes that were
    seen in containers, by namespace, pid and start inside."""

    def __init__(
        self,
        notes: Iterable[str] = (),
        directories: Mapping[str, bool] | None = None,
        pids: Collection[int] = (),
        contained: Mapping[tuple[str, int, int], int] | None = None,
    ) -> None:
        self.processes: list[Process] = []
        self.notes = [*notes]
        self.directories = {**(directories or {})}
        self.carded: set[int] = set()
        self.pids = {*pids}
        self.contained = {**(contained or {})}
        self.containers: set[tuple[int, int]] = set()  # whose dead processes were looked for

    def copy(self) -> FoundProcesses:
        other = FoundProcesses(self.notes, self.directories, self.pids, self.contained)
        other.processes, other.carded = [*self.processes], {*self.carded}
        return other


def find_processes(
    others: Collection[int] = (), before: FoundProcesses | None = None
) -> FoundProcesses:
    """Processes with an agent by their cards, those without by /proc. `others` are always
    included."""
    found = FoundProcesses(contained=before.contained if before else None)
    _list_directories([rendezvous.directory()], found)
    _look_at_new(found, others)
    return found


def find_more(
    before: FoundProcesses, others: Collection[int], changed: Collection[str]
) -> FoundProcesses:
    """The same at lower cost: only new processes in /proc, and only cards in directories that have
    `changed`."""
    found = FoundProcesses(before.notes, before.directories, before.pids, before.contained)
    for process in before.processes:
        if not process.files or os.path.dirname(process.files[0]) not in changed:
            found.processes.append(process)
            if process.files and process.alive:
                found.carded.add(process.pid)
    if changed:
        # A process whose card was removed may be exiting.
        found.pids = before.pids - (before.carded - found.carded)
        _list_directories(changed, found)
        with_card = {process.key for process in found.processes if process.files}
        found.processes = [p for p in found.processes if p.files or p.key not in with_card]
    _look_at_new(found, others)
    return found


def _list_directories(directories: Iterable[str], found: FoundProcesses) -> None:
    for directory in directories:
        found.directories[directory] = _add_carded(directory, found)


def _look_at_new(found: FoundProcesses, others: Collection[int]) -> None:
    new = _python_processes(found)
    for pid, (_, environ) in new.items():
        is_ours = processes.owner(pid) == os.geteuid()
        directory = _own_directory(pid, environ) if is_ours else ""
        if directory and directory not in found.directories:
            _list_directories([directory], found)
        if pid not in found.carded:
            usable = [directory for directory, is_usable in found.directories.items() if is_usable]
            process = _just_started(pid, usable if is_ours else ()) or _without_agent(
                pid, *new[pid], pid in others
            )
            if process is not None:
                found.processes.append(process)
    _add_starters(found, new)
    _add_first_ranks(found)


def _own_directory(pid: int, environ: Mapping[str, str]) -> str:
    """The agents' directory of a job that was started with its own, or in a container."""
    named = environ.get("RANKDBG_DIR", "")
    return containers.directory_of(pid, environ) or (os.path.abspath(named) if named else "")


def _add_starters(
    found: FoundProcesses, new: Mapping[int, tuple[list[str], dict[str, str]]]
) -> None:
    """Processes without numbers that have started processes with numbers: launchers, and a first
    rank that starts its own script again for the others."""
    listed = {process.pid for process in found.processes}
    numbered = [p for p in found.processes if p.pid in new and p.whole("rank") is not None]
    stats: dict[int, processes.Stat | None] = {}
    for process in numbered:
        for pid in processes.ancestors(process.ppid, process.start, stats):
            if pid in listed or pid not in new or not _may_start(new[pid][0], process.command):
                continue
            starter = _without_agent(pid, *new[pid], wanted=True)
            if starter is not None:
                found.processes.append(starter)
                listed.add(pid)


def _add_first_ranks(found: FoundProcesses) -> None:
    listed = {process.pid for process in found.processes if process.alive}
    for pid in first_ranks.find(found.processes).keys() - listed:
        if processes.is_python(pid):
            command, environ = processes.command(pid), processes.environment(pid)
            process = _without_agent(pid, command, environ, wanted=True)
            found.processes += [process] if process is not None else []


def _may_start(command: list[str], rank: list[str]) -> bool:
    return identity.runs_again(rank, command) or identity.known_kind(command) == "launcher"


def _just_started(pid: int, directories: Iterable[str]) -> Process | None:
    """A process whose card was written after the directory was listed."""
    name = f"{pid}.json"
    for directory in directories:
        try:
            for card in read_cards(directory, [name]).values():
                if card is not None and card["pid_namespace"] == rendezvous.pid_namespace():
                    return from_card(card, os.path.join(directory, name))
        except (OSError, rendezvous.DirectoryRefused):
            continue
    return None


def _add_contained(directory: str, found: FoundProcesses) -> None:
    """The one process whose agents' directory this is, in a container, and the dead ones of its job
    there."""
    try:
        contained = containers.find_card(directory)
        dead = _dead_beside(directory, contained[0], found) if contained else []
    except OSError:
        return
    except rendezvous.DirectoryRefused as refusal:
        found.notes.append(f"agents cannot be found: {refusal}")
        return
    if contained is not None:
        card, path = contained
        process = from_card(card, path)
        process.ppid_inside = card["ppid_inside"]
        found.processes += [process, *dead]
        found.carded.add(process.pid)
        key = card["pid_namespace"], processes.pid_inside(process.pid), process.start
        found.contained[key] = process.pid


def _dead_beside(directory: str, living: dict[str, Any], found: FoundProcesses) -> list[Process]:
    """Looked for once in each container. One that was never seen here has the pid that it had
    inside."""
    status = os.stat(directory)
    if (status.st_dev, status.st_ino) in found.containers:
        return []
    found.containers.add((status.st_dev, status.st_ino))
    dead = []
    for card, path in containers.find_dead(directory, living["labels"].get("job")):
        key = card["pid_namespace"], card["pid"], card["start"]
        dead.append(from_card({**card, "pid": found.contained.get(key, card["pid"])}, path))
    return dead


def _add_carded(directory: str, found: FoundProcesses) -> bool:
    """The processes that have a card in a directory. False if no other cards may be used: if other
    users can write there, they could redirect questions to their own processes."""
    if containers.is_contained(directory):
        _add_contained(directory, found)
        return False
    try:
        cards = read_cards(directory)
    except (OSError, rendezvous.DirectoryRefused) as refusal:
        if os.path.exists(directory):
            found.notes.append(f"agents cannot be found: {refusal}")
        return False
    namespace = rendezvous.pid_namespace()
    unreadable = 0
    for name, card in cards.items():
        path = os.path.join(directory, name)
        if card is None:
            unreadable += os.path.lexists(path)  # or its process has just ended
        elif card["pid_namespace"] == namespace and card["pid"] not in found.carded:
            process = from_card(card, path)
            found.processes.append(process)
            if process.alive:
                found.carded.add(process.pid)
    if unreadable:
        found.notes.append(f"{unreadable} files in {directory} are not valid agent cards")
    return True


def from_card(card: dict[str, Any], path: str) -> Process:
    socket = path.removesuffix(".json") + ".sock"
    alive = processes.is_alive(card["pid"], card["start"])
    why_not = _why_not_asked(card["pid"]) if alive else ""
    return Process(
        pid=card["pid"],
        start=card["start"],
        ppid=card["ppid"],
        alive=alive,
        labels=sound_labels(card["labels"]),
        command=[str(word) for word in card["command"]],
        python=card["python"],
        socket="" if why_not else socket,
        no_agent_because=why_not,
        files=(path, socket),
        outputs=_sound_outputs(card.get("outputs")),
    )


def _sound_outputs(said: object) -> dict[str, str]:
    """Older agents do not tell them."""
    if not isinstance(said, dict):
        return {}
    names = ((name, said.get(name)) for name in ("stdout", "stderr"))
    return {name: path for name, path in names if isinstance(path, str) and path.startswith("/")}


def _why_not_asked(pid: int) -> str:
    """Agents of other users are not asked, not even by root: a process that pretends to be a rank
    would receive the questions and could forge answers."""
    owner = processes.owner(pid)
    if owner is None or owner == os.geteuid():
        return ""
    name = user_name(owner)
    return f"it runs as {name}; to use its agent, run rankdbg as {name}"


def _python_processes(found: FoundProcesses) -> dict[int, tuple[list[str], dict[str, str]]]:
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


def _without_agent(
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
        reason = _why_not_asked(pid) or (EXITING if is_exiting(pid) else "")
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


def remove_stale(found: list[Process]) -> list[Process]:
    """Remove the files of dead processes; returns the others.

    Dead ranks of a running job are kept: users want to see that they are gone. A launcher knows
    whether the job runs on other nodes.
    """
    running = {process.key for process in found if runs(process)}
    living = {p.job for p in found if p.kind == "rank" and p.key in running}
    remaining = []
    for process in found:
        kept = process.kind == "rank" and (process.job in living or "dead" in process.labels)
        if process.key in running or kept:
            remaining.append(process)
            continue
        _remove_files(process)
    return remaining


def in_scope(found: list[Process], scope: Mapping[str, Any]) -> list[Process]:
    """Processes in the scope of the session: a node may be shared with other Slurm jobs. Labels
    from the process itself count, also after its death."""
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


def may_belong(found: list[Process], job: str | None, scope: Mapping[str, Any]) -> list[Process]:
    """Processes of this job by their cards and environments; all if no job is given.

    Agents of other jobs are not asked: a process that holds the GIL would delay an answer that
    does not concern it. The job name changes only together with the card, except for names that
    Ray and Monarch assign when a program connects.
    """
    if job is None:
        return found
    named_late = job.startswith(_NAMED_LATE)
    # This gives them the name of the scope.
    here = [process.copy() for process in found] if scope.get("job") else found
    here = in_scope(here, scope)
    keys = {p.key for p in here if p.job == job or (named_late and _may_be_renamed(p))}
    return [process for process in found if process.key in keys]


def _may_be_renamed(process: Process) -> bool:
    return not process.given_job or identity.is_scheduled(process.given_job)


def name_job(found: list[Process], name: str) -> None:
    """Assign this job name to processes without one: a pod is part of one job, whose name its
    launcher and ranks do not know. It is around jobs that have another name."""
    for process in found:
        if not process.given_job:
            process.labels = {**process.labels, "job": name}
        elif process.given_job != name:
            process.labels = {"outer": name, **process.labels}


def _with_environment(pids: list[int], wanted: Mapping[str, str]) -> set[int]:
    """If it cannot be read, that of an ancestor is used."""
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
    """Unless they belong to a new process with the same pid, or are in a container, where a link
    could lead elsewhere. A card that names logs is kept elsewhere."""
    if not process.files or containers.is_contained(process.files[0]):
        return
    path, *others = process.files
    card = read_card(path)
    if card is not None and (card["pid"], card["start"]) == process.key:
        kept = (
            process.kind == "rank" and has_logs(process) and ended_cards.keep(path, process.start)
        )
        for each in others if kept else process.files:
            try:
                os.unlink(each)
            except OSError:
                continue


def has_logs(process: Process) -> bool:
    """Whether a file is there that its stdout or stderr went into, by its card."""
    return any(os.path.isfile(path) for path in process.outputs.values())


def runs(process: Process) -> bool:
    """Neither gone nor a zombie."""
    stat = processes.read_stat(process.pid)
    return stat is not None and stat.start == process.start and stat.state not in "ZX"


def other_users() -> list[str]:
    """Other users with an agent directory and Python processes."""
    running = {_owner(f"/proc/{pid}") for pid in processes.all_pids()} - {os.geteuid(), -1}
    return sorted(user_name(uid) for uid in running if uid == _owner(f"/tmp/rankdbg-{uid}"))


def _owner(path: str) -> int:
    try:
        return os.stat(path).st_uid
    except OSError:
        return -1


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
