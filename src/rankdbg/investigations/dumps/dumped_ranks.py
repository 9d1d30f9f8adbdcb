"""Whose dumps they are: which are of one process, which processes are ranks, and their numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

from rankdbg.dumps.dumped_threads import DumpedThread
from rankdbg.dumps.finding import ProcessDump
from rankdbg.process import identity
from rankdbg.types import Kind

# Processes of containers have small numbers, the same ones in each.
_CONTAINER_PID = 300


@dataclass
class DumpedProcess:
    """One process, with its dumps in the order of files and lines."""

    file: str
    dumps: list[ProcessDump] = field(default_factory=list)

    @property
    def first(self) -> ProcessDump:
        return self.dumps[0]

    @property
    def pid(self) -> int | None:
        return self.first.pid if self.first.pid is not None else self.first.said.pid

    @cached_property
    def command(self) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.first.title))
        except ValueError:  # an open quote
            return tuple(self.first.title.split())

    @cached_property
    def host(self) -> str:
        """As a line before the dump says, or the file's name: gpu-c07-4711.txt."""
        if self.first.said.host or not self.pid:
            return self.first.said.host
        stem = PurePath(self.file).name.partition(".txt")[0].partition(".log")[0]
        named = re.fullmatch(rf"(?:{_TOOLS})?(.*?)[-_.]?(?:pid)?[-_.]?{self.pid}", stem)
        text = named[1].strip("-_.") if named else ""
        return text if re.fullmatch(r"[A-Za-z][\w.-]*", text) and "rank" not in text else ""

    @cached_property
    def main(self) -> DumpedThread:
        return find_main(self.first, self.pid)

    @cached_property
    def kind(self) -> Kind:
        """What the main thread does tells launchers and workers of data loaders from ranks."""
        for function, file, kind in _NOT_RANKS:
            if any(f.function.endswith(function) and file in f.file for f in self.main.frames):
                return kind
        return "rank"

    @property
    def labels(self) -> identity.Labels:
        return identity.of_process(self.first.title, self.command, {})


_TOOLS = r"(?:stacks?|dumps?|py-?_?spy|pystack|gdb|cuda-gdb|traces?|bt|backtraces?)[-_.]"
_NOT_RANKS: tuple[tuple[str, str, Kind], ...] = (
    ("_worker_loop", "torch/utils/data/_utils/worker.py", "child"),
    ("main", "multiprocessing/resource_tracker.py", "helper"),
    ("main", "multiprocessing/forkserver.py", "helper"),
    ("main", "torch/_inductor/compile_worker/", "helper"),
    ("launch_agent", "torch/distributed/launcher/api.py", "launcher"),
    ("deepspeed_launcher", "accelerate/commands/launch.py", "launcher"),
    ("main", "deepspeed/launcher/", "launcher"),
)


def find_main(dump: ProcessDump, pid: int | None) -> DumpedThread:
    """The main thread: by its name or number, else the one that began with a module, else the
    oldest, which faulthandler prints last."""
    threads = [thread for thread in dump.threads if thread.frames] or dump.threads
    signs: tuple[Callable[[DumpedThread], bool], ...] = (
        lambda thread: thread.name == "MainThread",
        lambda thread: pid is not None and thread.number == pid,
        lambda thread: thread.starts_program,
    )
    for is_main in signs:
        if found := next((thread for thread in threads if is_main(thread)), None):
            return found
    return threads[-1]


# --- which dumps are of one process -------------------------------------------------------


def join_dumps(found: Iterable[tuple[str, ProcessDump]]) -> list[DumpedProcess]:
    """`found`: each dump with its file. Two dumps of one process are two samples."""
    processes: list[DumpedProcess] = []
    by_number: dict[int | None, list[DumpedProcess]] = {}
    for file, dump in found:
        alone = DumpedProcess(file, [dump])
        key = _thread_in_common(dump) if alone.pid is None else alone.pid
        same = next((p for p in by_number.get(key, ()) if _is_same(p, alone)), None)
        if same is not None:
            same.dumps.append(dump)
            continue
        processes.append(alone)
        by_number.setdefault(key, []).append(alone)
    return processes


def _thread_in_common(dump: ProcessDump) -> int:
    """faulthandler tells no pid, but addresses of threads; the main thread is always there."""
    return find_main(dump, None).number


def _is_same(known: DumpedProcess, other: DumpedProcess) -> bool:
    if known.file != other.file:
        if (known.pid or 0) <= _CONTAINER_PID or known.host != other.host:
            return False
        if _number_in_name(known) != _number_in_name(other):
            return False
    if known.first.label != other.first.label or known.first.said.rank != other.first.said.rank:
        return False
    titles = {known.first.title, other.first.title} - {""}
    return len(titles) < 2


# --- numbers ------------------------------------------------------------------------------


def number_ranks(processes: Sequence[DumpedProcess]) -> tuple[list[int], str]:
    """A number for each, and where the numbers come from. A source counts if it has a number for
    every process, and a different one for each."""
    for source, number in _SOURCES:
        numbers = [number(process) for process in processes]
        if None not in numbers and len({*numbers}) == len(numbers):
            return [n for n in numbers if n is not None], f"rank numbers are from {source}"
    if shapes := _numbers_in_alike_names(processes):
        return shapes, "rank numbers are from the names of the files"
    order = "rank numbers are the order of files and processes: the dumps do not name the ranks"
    return [*range(len(processes))], order


def _number_in_name(process: DumpedProcess) -> int | None:
    """rank_3.log, worker-rank7.err, and torchrun's 3/stderr.log."""
    path = PurePath(process.file)
    named = re.search(r"rank[_-]?(\d{1,6})(?!\d)", path.name, re.IGNORECASE)
    if named:
        return int(named[1])
    folder = re.fullmatch(r"(?:rank[_-]?)?(\d{1,6})", path.parent.name)
    return int(folder[1]) if folder else None


def _number_in_command(process: DumpedProcess) -> int | None:
    """--rank 3, --rank=3; not --node_rank."""
    command = process.first.title
    named = re.search(r"(?<![\w-])--?(?:global[_-])?rank[= ](\d{1,6})\b", command)
    return int(named[1]) if named else None


def _number_in_variables(process: DumpedProcess) -> int | None:
    """`rank` or `global_rank` in the main thread, where variables were dumped."""
    for variables in process.main.locals:
        for name in ("global_rank", "rank"):
            if re.fullmatch(r"\d{1,6}", variables.get(name, "")):
                return int(variables[name])
    return None


_SOURCES: tuple[tuple[str, Callable[[DumpedProcess], int | None]], ...] = (
    ("the launcher's prefix of the lines", lambda process: process.first.label),
    ("the lines before the dumps", lambda process: process.first.said.rank),
    ("the command lines", _number_in_command),
    ("the names of the files", _number_in_name),
    ("the variable rank", _number_in_variables),
)


def _numbers_in_alike_names(processes: Sequence[DumpedProcess]) -> list[int]:
    """dump-0.txt, dump-1.txt: names that differ in one number, which is not that of a process."""
    names = [PurePath(process.file).name for process in processes]
    parts = [re.split(r"(\d+)", name) for name in names]
    if len({*names}) < len(names) or len({len(part) for part in parts}) != 1 or len(names) < 2:
        return []
    columns = [*zip(*parts, strict=True)]
    varying = [column for column in columns if len({*column}) > 1]
    if len(varying) != 1 or not all(text.isdigit() and len(text) < 7 for text in varying[0]):
        return []
    numbers = [int(text) for text in varying[0]]
    is_pid = any(number == p.pid for number, p in zip(numbers, processes, strict=True))
    return [] if is_pid or len({*numbers}) < len(numbers) else numbers
