"""The files that processes of a job write their logs into, as /proc shows them.

That is what they hold open as stdout and stderr, files that only grow, and, where their output
goes into a pipe, the files of whoever reads it: `torchrun … 2>&1 | tee train.log`.
"""

from __future__ import annotations

import os
import re
import stat as stat_module
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rankdbg.logs.files import is_data
from rankdbg.logs.places import Stream
from rankdbg.node import processes

# Names of what is only appended to and is no log; and where no log lies.
_NO_LOG = re.compile(r"tfevents|\.(wandb|lock|pid)$")
_NO_PLACE = ("/dev/", "/proc/", "/sys/", "/memfd:", "/run/")
_LOG_NAME = re.compile(r"\.(log|out|err|txt|jsonl)(\.\d+)?$|(^|/)(std)?(out|err|log)[^/]*$")
_DELETED = " (deleted)"
_LONGEST_CHAIN = 4  # of pipes, from a rank to a file


@dataclass(frozen=True)
class OpenFile:
    path: str
    stream: Stream
    deleted: bool
    place: str  # what to open


@dataclass
class Holding:
    """What one process holds open that matters here."""

    files: list[OpenFile] = field(default_factory=list)
    into: set[str] = field(default_factory=set)  # pipes that take its output
    out_of: set[str] = field(default_factory=set)  # pipes that it reads


def read_holdings(pids: Iterable[int]) -> tuple[dict[int, Holding], list[int]]:
    """By pid, and those that cannot be looked into in time."""
    return processes.read_all(pids, _holding)


def read_others(apart_from: Iterable[int]) -> dict[int, Holding]:
    """Of all other processes: who reads from pipes may be anybody."""
    others, _ = read_holdings(set(processes.all_pids()) - {os.getpid(), *apart_from})
    return others


def readers_of(writers: Iterable[Holding], others: Mapping[int, Holding]) -> dict[int, Holding]:
    """Those that read what these write into pipes, and so on, as far as that goes."""
    pipes = {pipe for holding in writers for pipe in holding.into}
    found: dict[int, Holding] = {}
    for _ in range(_LONGEST_CHAIN):
        new = {
            pid: holding
            for pid, holding in others.items()
            if pid not in found and holding.out_of & pipes
        }
        found |= new
        pipes = {pipe for holding in new.values() for pipe in holding.into}
    return found


def _holding(pid: int) -> Holding:
    holding = Holding()
    seen: set[tuple[str, Stream]] = set()
    for name, target in _descriptors(pid):
        if target.startswith("pipe:"):
            if name == "0":
                holding.out_of.add(target)
            elif name in ("1", "2"):
                holding.into.add(target)
            continue
        stream: Stream = "stdout" if name == "1" else "stderr" if name == "2" else ""
        if (target, stream) not in seen and _is_log(pid, name, target):
            seen.add((target, stream))
            holding.files.append(_open_file(pid, name, target, stream))
    return holding


def written_files(pid: int) -> Iterator[str]:
    """Paths of what a process has open to write into, if it still lies there."""
    for name, target in _descriptors(pid):
        flags = _flags(pid, name, target)
        if flags & (os.O_WRONLY | os.O_RDWR) and _same(target, f"/proc/{pid}/fd/{name}"):
            yield target


def _descriptors(pid: int) -> Iterator[tuple[str, str]]:
    """The number and what it leads to. Raises OSError if they cannot be seen."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            yield name, os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue  # closed by now


def _is_log(pid: int, name: str, target: str) -> bool:
    path = target.removesuffix(_DELETED)
    flags = _flags(pid, name, target)
    access = flags & os.O_ACCMODE
    if access == os.O_RDONLY or is_data(path) or _NO_LOG.search(path):
        return False
    # Logs are appended to; what is written and read again is data.
    grows = bool(flags & os.O_APPEND) or bool(_LOG_NAME.search(path))
    return name in ("1", "2") or (access == os.O_WRONLY and grows)


def _flags(pid: int, name: str, target: str) -> int:
    """As it was opened; those of reading for what is no file that a log can be."""
    if not target.startswith("/") or target.startswith(_NO_PLACE):
        return os.O_RDONLY
    try:
        if not stat_module.S_ISREG(os.stat(f"/proc/{pid}/fd/{name}").st_mode):
            return os.O_RDONLY
        with open(f"/proc/{pid}/fdinfo/{name}") as file:
            told = dict(line.split(maxsplit=1) for line in file if ":" in line)
        return int(told["flags:"], 8)
    except (OSError, ValueError, KeyError):
        return os.O_RDONLY


def _open_file(pid: int, name: str, target: str, stream: Stream) -> OpenFile:
    """A container has other paths, and a deleted file has none: then through /proc."""
    held = f"/proc/{pid}/fd/{name}"
    path = target.removesuffix(_DELETED)
    for place in (path, f"/proc/{pid}/root{path}"):
        if _same(place, held):
            return OpenFile(path, stream, False, place)
    deleted = target.endswith(_DELETED)
    return OpenFile(path, stream, deleted, held)


def _same(path: str, held: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.stat(held))
    except OSError:
        return False
