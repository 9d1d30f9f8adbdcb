"""The files that processes of a job write their logs into, as /proc shows them.

That is what they hold open as stdout and stderr, files that only grow, and, where their output
goes into a pipe, the files of whoever reads it: `torchrun … 2>&1 | tee train.log`. mpirun gives
its ranks a pty or a pipe each, and writes what it reads there into its own stdout and stderr.
"""

from __future__ import annotations

import os
import re
import stat as stat_module
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rankdbg.logs.files import is_data
from rankdbg.logs.places import Stream
from rankdbg.node.machine import descriptors, processes

# Names of what is only appended to and is no log; and where no log lies.
_NO_LOG = re.compile(r"tfevents|\.(wandb|lock|pid)$")
_NO_PLACE = ("/dev/", "/proc/", "/sys/", "/memfd:", "/run/")
_LOG_NAME = re.compile(r"\.(log|out|err|txt|jsonl)(\.\d+)?$|(^|/)(std)?(out|err|log)[^/]*$")
_DELETED = " (deleted)"
_LONGEST_CHAIN = 4  # of pipes, from a rank to a file
_PTY, _PTY_MASTERS = "/dev/pts/", ("/dev/ptmx", "/dev/pts/ptmx")


@dataclass(frozen=True)
class OpenFile:
    path: str
    stream: Stream
    deleted: bool
    place: str  # what to open


@dataclass
class OpenDescriptors:
    """What one process holds open that matters here."""

    files: list[OpenFile] = field(default_factory=list)
    into: set[str] = field(default_factory=set)  # pipes and ptys that take its output
    out_of: set[str] = field(default_factory=set)  # the pipe that is its stdin
    # Other pipes and ptys that it has open: a launcher forwards these, any other program need not.
    behind: set[str] = field(default_factory=set)

    @property
    def pipes(self) -> set[str]:
        """Those that take its output: what a terminal shows goes into no file."""
        return {channel for channel in self.into if channel.startswith("pipe:")}


def read_holdings(pids: Iterable[int]) -> tuple[dict[int, OpenDescriptors], list[int]]:
    """By pid, and those that cannot be looked into in time."""
    return processes.read_all(pids, _holding)


def read_others(apart_from: Iterable[int]) -> dict[int, OpenDescriptors]:
    """Of all other processes: who reads from pipes may be anybody."""
    others, _ = read_holdings(set(processes.all_pids()) - {os.getpid(), *apart_from})
    return others


def readers_of(
    writers: Iterable[OpenDescriptors], others: Mapping[int, OpenDescriptors]
) -> dict[int, OpenDescriptors]:
    """Those that read what these write into pipes, and so on, as far as that goes."""
    pipes = {pipe for holding in writers for pipe in holding.pipes}
    found: dict[int, OpenDescriptors] = {}
    for _ in range(_LONGEST_CHAIN):
        new = {
            pid: holding
            for pid, holding in others.items()
            if pid not in found and holding.out_of & pipes
        }
        found |= new
        pipes = {pipe for holding in new.values() for pipe in holding.pipes}
    return found


def _holding(pid: int) -> OpenDescriptors:
    holding = OpenDescriptors()
    seen: set[tuple[str, Stream]] = set()
    for name, target in descriptors.targets(pid):
        if target.startswith(("pipe:", _PTY)) or target in _PTY_MASTERS:
            _hold_channel(holding, pid, name, target)
            continue
        stream: Stream = "stdout" if name == "1" else "stderr" if name == "2" else ""
        if (target, stream) not in seen and _is_log(pid, name, target):
            seen.add((target, stream))
            holding.files.append(_open_file(pid, name, target, stream))
    return holding


def _hold_channel(holding: OpenDescriptors, pid: int, name: str, target: str) -> None:
    if target in _PTY_MASTERS:
        holding.behind.add(f"{_PTY}{dict(descriptors.info(pid, name)).get('tty-index', '')}")
    elif name in ("1", "2"):
        holding.into.add(target)
    elif name == "0" and not target.startswith(_PTY):
        holding.out_of.add(target)
    elif not target.startswith(_PTY):
        holding.behind.add(target)


def written_files(pid: int) -> Iterator[str]:
    """Paths of what a process has open to write into, if it still lies there."""
    for name, target in descriptors.targets(pid):
        flags = _flags(pid, name, target)
        if flags & (os.O_WRONLY | os.O_RDWR) and _same(target, descriptors.path(pid, name)):
            yield target


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
        if not stat_module.S_ISREG(os.stat(descriptors.path(pid, name)).st_mode):
            return os.O_RDONLY
    except OSError:
        return os.O_RDONLY
    return descriptors.flags(pid, name) or os.O_RDONLY


def _open_file(pid: int, name: str, target: str, stream: Stream) -> OpenFile:
    """A container has other paths, and a deleted file has none: then through /proc."""
    held = descriptors.path(pid, name)
    path = target.removesuffix(_DELETED)
    for place in (path, f"/proc/{pid}/root{path}"):
        if _same(place, held):
            return OpenFile(path, stream, False, place)
    deleted = target.endswith(_DELETED)
    return OpenFile(path, stream, deleted, held)


def left_by_dead(outputs: Mapping[str, str], neighbour: int) -> Iterator[OpenFile]:
    """The files of stdout and stderr, by the card of a dead process: in the container of a living
    neighbour, if there is one. Links there could lead out of it."""
    root = f"/proc/{neighbour}/root" if neighbour else ""
    streams: tuple[Stream, ...] = ("stdout", "stderr")
    for stream in streams:
        path = os.path.normpath(outputs.get(stream, "/"))
        if _is_plain(path, root) and not path.startswith(_NO_PLACE):
            yield OpenFile(path, stream, False, root + path)


def _is_plain(path: str, root: str) -> bool:
    try:
        if not stat_module.S_ISREG(os.lstat(root + path).st_mode):
            return False
    except OSError:
        return False
    words = path.split("/")
    above = [root + "/".join(words[:count]) for count in range(2, len(words))]
    return not (root and any(map(os.path.islink, above)))


def _same(path: str, held: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.stat(held))
    except OSError:
        return False
