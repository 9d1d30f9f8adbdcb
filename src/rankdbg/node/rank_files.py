"""Files of ranks on this node's disk: profiles, dumps, crash files, logs.

A place is where such files may appear, also after the end of a rank: a kind, a glob, and a time;
older files do not belong to this job.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rankdbg.files.foreign_files import open_file
from rankdbg.logs.files import is_data
from rankdbg.node.inquiry import Key
from rankdbg.node.logs import open_logs
from rankdbg.node.machine import processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.wire.node_questions import FindFiles

Place = tuple[str, str, float]

# Bytes in one answer, sent as text; the session requests the next part meanwhile.
LARGEST_PIECE = 4 << 20
MOST_FILES = 10_000
# Seconds by which a file server's clock may be behind.
CLOCKS_DIFFER = 5.0
# Files of profilers and crashes in a working directory.
_LEFT_BEHIND = {
    "profile": (
        *("*.nsys-rep", "*.qdstrm", "*.qdrep", "*.ncu-rep"),
        *("nsight/*/*.nsys-rep", "nsight/*/*.qdstrm", "nsight/*/*.json"),
        *("*.pt.trace.json", "*.pt.trace.json.gz", "*.speedscope.json", "*.folded", "*py-spy*"),
        *("*.pstats", "memray-*.bin", "*.memray"),
    ),
    "crash": ("core", "core.[0-9]*", "*.core", "*.nvcudmp", "hs_err_pid*.log"),
}
# Its reports, unfinished reports, and the records of their ranks.
_OF_NSYS = (".nsys-rep", ".qdstrm", ".json")
# Flight recorders: the variables with the common prefix of the files, and torch's default.
_RECORDERS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_RECORDERS_DEFAULT = ("/tmp/nccl_trace_rank_", "~/.cache/torch/comm_lib_trace_rank_")


def find(wanted: Mapping[Key, Process], question: FindFiles) -> dict[str, Any]:
    """The existing files, and the places to check again."""
    living = [process for process in wanted.values() if process.alive]
    environments, stuck = processes.read_all([p.pid for p in living], processes.environment)
    places: dict[Place, None] = dict.fromkeys(question.places)
    held: dict[str, str] = {}
    for process in living:
        logs = list(_open_logs(process.pid))
        held.update(dict.fromkeys(logs, "log"))
        for place in _places(process, environments.get(process.pid, {}), logs):
            places[place] = None
        for pattern in question.include:
            places["included", _below(process.pid, pattern), 0.0] = None
    if not living:
        wanted_here = map(os.path.expanduser, question.include)
        for pattern in filter(os.path.isabs, wanted_here):
            places["included", pattern, 0.0] = None
    found = {**_lying(places), **held}
    files = [entry for path, kind in sorted(found.items()) if (entry := _entry(path, kind))]
    notes = [f"process {pid} cannot be read" for pid in stuck]
    if len(files) > MOST_FILES:
        notes.append(f"{len(files)} files; only the first {MOST_FILES} are copied")
    return {
        "files": files[:MOST_FILES],
        "places": list(places),
        "now": time.time_ns(),
        "busy": 0 if living else _writers(min((p[2] for p in places if p[2]), default=0.0)),
        "notes": notes,
    }


def read(path: str, offset: int, length: int) -> dict[str, Any]:
    """A piece of a file, and its digest."""
    try:
        with open_file(path) as file:
            data = os.pread(file.fileno(), min(length, LARGEST_PIECE), offset)
    except OSError as error:
        return {"why": error.strerror}
    return {
        "data": base64.b64encode(data).decode(),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def digest(path: str, length: int) -> dict[str, Any]:
    """SHA-256 of the first bytes of a file, and how many there were."""
    summed = hashlib.sha256()
    left = length
    try:
        with open_file(path) as file:
            while left and (data := file.read(min(left, LARGEST_PIECE))):
                summed.update(data)
                left -= len(data)
    except OSError as error:
        return {"why": error.strerror}
    return {"sha256": summed.hexdigest(), "length": length - left}


# --- where ------------------------------------------------------------------------------------


def _places(
    process: Process, environment: Mapping[str, str], logs: Iterable[str]
) -> Iterator[Place]:
    since = time.time() - processes.age(process.start) - CLOCKS_DIFFER
    directory = _working_directory(process.pid)
    if directory:
        for kind, patterns in _LEFT_BEHIND.items():
            for pattern in patterns:
                yield kind, os.path.join(glob.escape(directory), pattern), since
    report = environment.get("RANKDBG_NSYS_REPORT", "").removesuffix(".nsys-rep")
    if report:
        pattern = re.sub(r"%q\{[^}]*\}|%.", "*", glob.escape(report))
        for ending in _OF_NSYS:
            yield "profile", pattern + ending, since
    for folder in {os.path.dirname(log) for log in logs}:  # Ray's
        if os.path.isdir(os.path.join(folder, "nsight")):
            for ending in _OF_NSYS:
                yield "profile", os.path.join(glob.escape(folder), "nsight", f"*{ending}"), since
    named = [environment[name] for name in _RECORDERS if environment.get(name)]
    for prefix in named or (_RECORDERS_DEFAULT if process.number is not None else ()):
        end = "*" if named else str(process.number)
        yield "dump", glob.escape(os.path.expanduser(prefix)) + end, since
    saved = environment.get("RANKDBG_SAVE_ON_ERROR")
    if saved:
        yield "crash", os.path.join(glob.escape(saved), "**", "*"), since


def _working_directory(pid: int) -> str:
    directory = processes.working_directory(pid)
    return directory if os.path.isdir(directory) else ""  # it may have been removed


def _below(pid: int, pattern: str) -> str:
    """The user's pattern, relative to the rank's working directory."""
    pattern = os.path.expanduser(pattern)
    directory = "" if os.path.isabs(pattern) else _working_directory(pid)
    return os.path.join(glob.escape(directory), pattern) if directory else pattern


def _open_logs(pid: int) -> Iterator[str]:
    """Text files that a process writes: stdout, stderr, and other open files."""
    with contextlib.suppress(OSError):
        yield from (path for path in open_logs.written_files(pid) if not is_data(path))


def _lying(places: Iterable[Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, pattern, since in places:
        for path in glob.iglob(str(pattern), recursive=True):
            if path not in found and _modified(path) >= since:
                found[path] = str(kind)
    return found


def _writers(since: float) -> int:
    """How many nsys processes of the job may still write a report after their ranks have ended."""
    stats = [processes.read_stat(pid) for pid in processes.all_pids()]
    own = [stat for stat in stats if stat and stat.name.startswith("nsys") and stat.state != "Z"]
    now = time.time()
    return sum(since > 0 and now - processes.age(stat.start) >= since for stat in own)


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return -1.0


def _entry(path: str, kind: str) -> dict[str, Any] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return {
        "path": path,
        "kind": kind,
        "size": status.st_size,
        "modified": status.st_mtime_ns,
        "inode": status.st_ino,
    }
