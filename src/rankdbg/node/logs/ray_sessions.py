"""Ray's session directories on this node, and the logs in them."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping

from rankdbg.files.foreign_files import open_file
from rankdbg.logs.files import find_logs
from rankdbg.logs.places import ray_worker
from rankdbg.node.machine import processes

RAYLET = "RANKDBG_RAYLET"
_DAEMONS = ("raylet", "gcs_server")
_OPTION = re.compile(r"^--(session|log|temp)[-_]dir=(.+)$")
# What Ray writes for its dashboard and for its own makers: no failure of a job stands there alone.
_NO_LOGS = re.compile(
    r"/(export_)?events/|/(python-core-|debug_state|dashboard|log_monitor|runtime_env_agent|agent-)[^/]*$"
)


def living_sessions(environment: Mapping[str, str]) -> list[str]:
    """Those of the raylets that run here; if this process is below one, of that one alone: two
    nodes of a cluster may be on one machine. `environment` is what a raylet must have in its
    own to be of interest."""
    pids = [
        pid
        for pid in processes.all_pids()
        if (stat := processes.read_stat(pid)) is not None
        and stat.name in _DAEMONS
        and stat.state not in "ZX"
    ]
    if (above := _above_us(set(pids))) is not None:
        pids = [above]
    commands, _ = processes.read_all(pids, processes.command)
    if environment:
        environments, _ = processes.read_all(pids, processes.environment)
        commands = {
            pid: command
            for pid, command in commands.items()
            if environment.items() <= environments.get(pid, {}).items()
        }
    found = [_session_of(command) for command in commands.values()]
    return sorted({os.path.realpath(session) for session in found if session})


def last_sessions() -> list[str]:
    """Of clusters that have ended, the last one in each of the places where Ray puts them."""
    named = os.environ.get("RAY_TMPDIR", "")
    places = [os.path.join(folder, "ray") for folder in (named, tempfile.gettempdir()) if folder]
    places += sorted(glob.glob("/tmp/ray*"))
    found = []
    for place in dict.fromkeys(places):
        latest = os.path.realpath(os.path.join(place, "session_latest"))
        if os.path.isdir(os.path.join(latest, "logs")) and os.access(latest, os.R_OK | os.X_OK):
            found.append(latest)
    return list(dict.fromkeys(found))


def logs_of(session: str) -> Iterator[str]:
    for path in find_logs([os.path.join(session, "logs")]):
        if not _NO_LOGS.search(path):
            yield path


def without_makers(paths: Iterable[str]) -> list[str]:
    """Of the logs in some folders, where they are of Ray's sessions, those in which jobs may have
    failed: not what Ray writes for its makers, nor what rankdbg's own workers have written."""
    paths = [*paths]
    folders = {os.path.dirname(path) for path in paths if _of_session(os.path.basename(path))}
    return [
        path
        for path in paths
        if os.path.dirname(path) not in folders
        or not (_NO_LOGS.search(path) or started_for(path)[1] == OURS)
    ]


def _of_session(name: str) -> bool:
    return ray_worker(name) is not None or name in ("raylet.out", "gcs_server.out")


def is_in_session(path: str) -> bool:
    """Workers inherit the raylet's own files, and hold them open."""
    return bool(re.search(r"/session_[^/]+/logs/", path))


OURS = "RankdbgNode"  # the actor by which a session looks at a node (clusters/ray/ray_driver.py)


def started_for(path: str) -> tuple[str, str]:
    """(job, class or function) as a worker of Ray has written it at the beginning of its log."""
    job = name = ""
    try:
        with open_file(path) as file:
            lines = file.read(2048).decode("utf-8", "replace").splitlines()
    except OSError:
        return "", ""
    for line in lines:
        mark, _, value = line.strip().rpartition(":")
        if mark == ":job_id":
            job = value
        elif mark in (":actor_name", ":task_name"):
            name = value.partition("(")[0].rpartition(".")[2]
    return job, name


def _above_us(daemons: set[int]) -> int | None:
    """Or beside us: a node process that is no child of its raylet gets the pid in RAYLET."""
    told = os.environ.get(RAYLET, "")
    if told.isdigit() and int(told) in daemons:
        return int(told)
    pid = os.getppid()
    while pid > 1:
        if pid in daemons:
            return pid
        pid = processes.parent(pid)
    return None


def _session_of(command: list[str]) -> str:
    options = {match[1]: match[2] for word in command if (match := _OPTION.match(word))}
    if "session" in options:
        return options["session"]
    if "log" in options:
        return os.path.dirname(options["log"].rstrip("/"))
    if "temp" in options:
        return os.path.join(options["temp"], "session_latest")
    return ""
