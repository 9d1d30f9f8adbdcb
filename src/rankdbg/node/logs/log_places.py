"""Finds the log files of the jobs on this node: the node's half of the question `logs`, `find`."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from rankdbg.files.foreign_files import open_file
from rankdbg.logs.files import MOST_FILES, find_logs, too_many
from rankdbg.logs.places import (
    RAY,
    Kind,
    LogFile,
    Stream,
    kind_of,
    merged,
    named_rank,
    ray_setup,
    ray_worker,
)
from rankdbg.node.logs import open_logs, ray_sessions, slurm_outputs
from rankdbg.node.machine import processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import identity, rendezvous
from rankdbg.wire.node_questions import FindLogs

_BEGINNING = 128  # bytes by which a file is known on another node
_PATIENCE = 2.0  # for a file on a file system that hangs
_DUMP_FOLDERS = ("--job.dump_folder", "--job.dump-folder", "--dump_folder", "--dump-folder")
_LOG_DIRS = ("--log-dir", "--log_dir")


def find(found: Sequence[Process], wanted: FindLogs, environment: Mapping[str, str]) -> Any:
    """`files`, `notes` and what this node's `clock` shows. `environment` as in a node's scope:
    what a process must have to be of interest."""
    finder = _Finder(found)
    if wanted.paths:
        finder.add_given(wanted.paths)
    else:
        finder.add_open()
        finder.add_of_dead()
        finder.add_configured()
        finder.add_ray(environment, wanted.ended)
        if environment.get("SLURM_JOB_ID"):
            finder.add_slurm(wanted.slurm, environment)
    files = _looked_at(finder.files[:MOST_FILES], finder.notes)
    if left_out := too_many(len(finder.files)):
        finder.notes.append(left_out)
    return {
        "files": [file.as_json() for file in merged(files)],
        "notes": finder.notes,
        # As people read it: the clocks in logs say neither zone nor summer time.
        "clock": datetime.now().isoformat(),
        "time": time.time(),
    }


class _Finder:
    def __init__(self, found: Sequence[Process]) -> None:
        self._found = [process for process in found if process.alive]
        self._dead = [process for process in found if not process.alive]
        self._by_pid = {process.pid: process for process in self._found}
        self.files: list[LogFile] = []
        self.notes: list[str] = []

    def add_given(self, paths: Iterable[str]) -> None:
        there = [path for path in paths if os.path.exists(path)]
        self.files += [_file(path, kind_of_given(path)) for path in find_logs(there)]

    def add_open(self) -> None:
        """Files that ranks, their launchers and the readers of their output have open."""
        launchers = {pid: process.job for pid, process in self._launchers().items()}
        pids = {**dict.fromkeys(self._by_pid), **dict.fromkeys(launchers)}
        holdings, stuck = open_logs.read_holdings(pids)
        self.notes += [f"the open files of process {pid} cannot be read" for pid in stuck]
        for pid, holding in holdings.items():
            process = self._by_pid.get(pid)
            for file in holding.files:
                if ray_sessions.is_in_session(file.path):
                    continue
                if process is not None:
                    self.files.append(_of_process(process, file))
                else:
                    forwarded = self._forwarded_by(holding, holdings) if file.stream else []
                    self.files += [_of_process(writer, file) for writer in forwarded]
                    if not forwarded:
                        launched = replace(_opened(file), job=launchers[pid], role="launcher")
                        self.files.append(launched)
        by_job: dict[str, list[open_logs.OpenDescriptors]] = {}
        for pid, holding in holdings.items():
            if holding.pipes:
                job = self._by_pid[pid].job if pid in self._by_pid else launchers[pid]
                by_job.setdefault(job, []).append(holding)
        others = open_logs.read_others(holdings) if by_job else {}
        for job, holders in by_job.items():
            for reader in open_logs.readers_of(holders, others).values():
                self.files += [replace(_opened(file), job=job) for file in reader.files]

    def add_of_dead(self) -> None:
        """What ranks wrote into before they died, unless another process has it open."""
        taken = {file.place for file in self.files}
        launchers: dict[tuple[object, ...], set[int]] = {}
        for process in self._found:
            if process.kind == "rank":
                launchers.setdefault(_place_in_job(process), set()).add(process.ppid)
        for process in self._dead:
            if process.ppid not in launchers.get(_place_in_job(process), {process.ppid}):
                continue  # the job was started again under its name
            card = process.files[0] if process.files else ""
            for file in open_logs.left_by_dead(process.outputs, rendezvous.pid_of_root(card)):
                if file.place not in taken:
                    self.files.append(replace(_of_process(process, file), ended=True))

    def _forwarded_by(
        self, launcher: open_logs.OpenDescriptors, holdings: Mapping[int, open_logs.OpenDescriptors]
    ) -> list[Process]:
        """The ranks whose output this launcher reads, and so writes into its own."""
        return [
            process
            for pid, process in self._by_pid.items()
            if pid in holdings and holdings[pid].into & launcher.behind
        ]

    def _launchers(self) -> dict[int, Process]:
        """Processes above the ranks that are known to start some, and one such rank."""
        above: dict[int, Process] = {}
        for process in self._found:
            pid = process.ppid
            while pid > 1 and pid not in above and pid not in self._by_pid:
                above[pid] = process
                pid = processes.parent(pid)
        commands, _ = processes.read_all(above, processes.command)
        return {
            pid: above[pid]
            for pid, command in commands.items()
            if identity.known_kind(command) == "launcher"
        }

    def add_configured(self) -> None:
        """Log directories from the options of launchers and ranks."""
        launchers = self._launchers()
        jobs = {process.pid: process.job for process in self._found}
        jobs |= {pid: process.job for pid, process in launchers.items()}
        commands, _ = processes.read_all(jobs, processes.command)
        environments, _ = processes.read_all(self._by_pid, processes.environment)
        told: dict[tuple[str, Kind], str] = {}
        for pid, command in commands.items():
            if pid in launchers or self._by_pid[pid].kind == "launcher":
                if folder := processes.option(command, _LOG_DIRS):
                    told[_absolute(pid, folder), "torchrun"] = jobs[pid]
            elif folder := processes.option(command, _DUMP_FOLDERS):
                logs = os.path.join(_absolute(pid, folder), "structured_logs")
                told[logs, "torchtitan"] = jobs[pid]
        for pid, environ in environments.items():
            if folder := environ.get("TORCHSPEC_LOG_DIR", ""):
                told[_absolute(pid, folder), "torchspec"] = jobs[pid]
        for (folder, kind), job in told.items():
            if os.path.isdir(folder):
                self.files += [
                    replace(_placed(path, kind), job=job)
                    for path in _of_last_run(find_logs([folder]), kind)
                ]

    def add_slurm(
        self, patterns: Iterable[tuple[str, bool]], environment: Mapping[str, str]
    ) -> None:
        """Files of the batch script, and of steps whose srun is here."""
        number = environment["SLURM_JOB_ID"]
        found = [
            o for path, e in patterns for o in slurm_outputs.find_outputs(path, "/", number, e)
        ]
        job = next((process.job for process in self._found if process.kind == "rank"), "")
        for output in [*found, *slurm_outputs.of_steps(environment)]:
            tasks = () if output.task is None else (output.task,)
            stream: Stream = "stderr" if output.is_error else "stdout"
            file = replace(_file(output.path, "slurm"), ranks=tasks, stream=stream, job=job)
            self.files.append(file)

    def add_ray(self, environment: Mapping[str, str], ended: bool) -> None:
        sessions = ray_sessions.living_sessions(environment)
        if not sessions and ended:
            sessions = ray_sessions.last_sessions()
            self.notes += [f"Ray's last session here is {_since(s)} old: {s}" for s in sessions]
        for session in sessions:
            self.files += self._of_session(session)

    def _of_session(self, session: str) -> list[LogFile]:
        names: dict[str, str] = {}  # of Ray's jobs, where a living process knows it better
        files = []
        for path in ray_sessions.logs_of(session):
            worker = ray_worker(os.path.basename(path))
            if worker is None:
                setup = ray_setup(os.path.basename(path))
                files.append(replace(_file(path, "ray"), job=f"ray-{setup}" if setup else RAY))
                continue
            ident, job, pid, stream = worker
            said_job, role = ray_sessions.started_for(path)
            if role == ray_sessions.OURS:
                continue
            file = replace(_file(path, "ray"), pid=pid, stream=stream, role=role)
            ended = processes.read_stat(pid) is None
            file = replace(file, job=f"ray-{said_job or job}", ended=ended)
            process = self._by_pid.get(pid)
            # A number may have been another process's before.
            if process is not None and _worker_of(process) in ("", ident):
                names[file.job] = process.job
                file = _with_process(file, process)
            files.append(file)
        return [replace(file, job=names.get(file.job, file.job)) for file in files]


def _place_in_job(process: Process) -> tuple[object, ...]:
    number = process.key if process.number is None else process.number
    return process.job, process.labels.get("role"), number


def kind_of_given(path: str) -> Kind:
    kind = kind_of(path)
    return "given" if kind == "open" else kind


def _file(path: str, kind: Kind) -> LogFile:
    spec = named_rank(path)
    return LogFile(
        node="",
        path=path,
        kind=kind,
        role=spec.role if spec else "",
        ranks=(spec.rank,) if spec else (),
    )


def _opened(file: open_logs.OpenFile) -> LogFile:
    made = _file(file.path, kind_of(file.path))
    read_at = file.place if file.place != file.path else ""
    return replace(made, stream=file.stream, deleted=file.deleted, read_at=read_at)


def _of_process(process: Process, file: open_logs.OpenFile) -> LogFile:
    return _with_process(_opened(file), process)


def _with_process(file: LogFile, process: Process) -> LogFile:
    """Adds the labels of the process that writes it."""
    role, names = str(process.labels.get("role") or ""), process.labels.get("names") or {}
    is_rank = process.kind == "rank"
    # A Ray driver prints lines of its actors: its number is not a rank.
    has_number = is_rank and process.number is not None and process.labels.get("part") != "driver"
    return replace(
        file,
        ranks=(process.number,) if has_number and process.number is not None else (),
        pid=process.pid if is_rank else file.pid,
        role=role or file.role or ("" if is_rank else process.kind),
        actor=str(names.get("actor") or ""),
        job=process.job,
    )


def _worker_of(process: Process) -> str:
    return str((process.labels.get("names") or {}).get("worker") or "")


def _absolute(pid: int, folder: str) -> str:
    """As the process sees it, which may be in another directory or a container."""
    path = os.path.abspath(os.path.join(processes.working_directory(pid), folder))
    theirs, ours = processes.namespaces(pid)[1], processes.namespaces("self")[1]
    return path if theirs in ("", ours) else rendezvous.root_of(pid) + path


def _placed(place: str, kind: Kind) -> LogFile:
    """Called as it is called in its container."""
    pid = rendezvous.pid_of_root(place)
    if not pid:
        return _file(place, kind)
    return replace(_file(place.removeprefix(rendezvous.root_of(pid)), kind), read_at=place)


def _of_last_run(paths: Iterable[str], kind: Kind) -> Iterator[str]:
    """torchrun makes a new directory for each run below the one that it is given."""
    if kind != "torchrun":
        yield from paths
        return
    runs: dict[str, list[str]] = {}
    for path in paths:
        runs.setdefault(path.rpartition("/attempt_")[0], []).append(path)
    runs.pop("", None)
    if runs:
        yield from runs[max(runs, key=_modified)]


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _since(path: str) -> str:
    seconds = max(0.0, time.time() - _modified(os.path.join(path, "logs")))
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"


def _looked_at(files: Sequence[LogFile], notes: list[str]) -> list[LogFile]:
    """With size, time and identity. A file system that hangs does not block the others."""
    seen, stuck = processes.read_all({file.place for file in files}, _look, _PATIENCE)
    notes += [f"{place} cannot be read: its file system does not respond" for place in stuck]
    made = []
    for file in files:
        size, modified, ident, error = seen.get(file.place, (0, 0.0, "", "it hangs"))
        made.append(replace(file, size=size, modified=modified, identity=ident, error=error))
    return made


def _look(place: str) -> tuple[int, float, str, str]:
    try:
        with open_file(place) as file:
            status = os.fstat(file.fileno())
            beginning = file.read(_BEGINNING) or b""
    except OSError as error:
        return 0, 0.0, "", error.strerror or str(error)
    # The same inode on two machines is chance; with the same beginning it is the same file.
    ident = hashlib.sha1(b"%d %s" % (status.st_ino, beginning), usedforsecurity=False)
    return status.st_size, status.st_mtime, ident.hexdigest()[:16], ""
