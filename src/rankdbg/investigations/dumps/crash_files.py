"""Stacks of crashed processes, from core files and from faulthandler output.

Each core file is a rank, and so is each process with dumps in a log. The number of the rank is
taken from the launcher's line prefix or the file name, otherwise from the position of the file.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from rankdbg.dumps.native_frames import NativeFrame, readable
from rankdbg.errors import BadInput
from rankdbg.files.foreign_files import open_file
from rankdbg.logs.fault_dumps import FaultDump, FaultThread, find_dumps
from rankdbg.logs.files import BLOCK, blocks, open_log
from rankdbg.node.probes import ProbeFailed, named_threads, pystack
from rankdbg.session import Sampled
from rankdbg.types import Frame, ProcessKey, Rank, Silence, Stack

# A core file of a rank has tens of gigabytes, of which pystack reads little.
CORE_SECONDS = 300.0
MOST_TEXT = 2**30
LONGEST_LINE = 4096
# Each line of a dump contains one of these; a log may have millions of other lines.
_MARKS = (b"atal ", b"Timeout (", b"recent call first", b'ile "')


@dataclass
class _Crash:
    """A process that has no rank number yet."""

    file: str
    number: int | None
    cause: str = ""
    pid: int = 0
    source: str = "faulthandler"
    samples: list[tuple[Stack, ...]] = field(default_factory=list)
    failure: str = ""


def read_crashes(
    files: Sequence[str], python: str | None, threads: str
) -> tuple[list[Sampled], list[Silence]]:
    """`threads`: main, python (those that run any) or all."""
    crashes = [crash for file in files for crash in _read(Path(file), python, threads)]
    if all(crash.failure for crash in crashes):
        why = [f"{crash.file}: {crash.failure}" for crash in crashes[:8]]
        raise BadInput("nothing to show in these files", *why)
    seen: list[Sampled] = []
    silent: list[Silence] = []
    for place, (crash, number) in enumerate(zip(crashes, _numbers(crashes), strict=True)):
        detail = f"{crash.file}: {crash.cause or 'no crash, but a dump on request'}"
        key = ProcessKey("", crash.pid or number, place)
        rank = Rank(key, job="", number=number, state="gone", detail=detail)
        if crash.failure:
            silent.append(Silence(rank, f"{crash.file}: {crash.failure}"))
        else:
            seen.append(Sampled(rank, tuple(crash.samples), crash.source))
    return seen, silent


def _numbers(crashes: Sequence[_Crash]) -> Iterator[int]:
    """Their own numbers if these are unique; otherwise their positions."""
    said = [crash.number for crash in crashes]
    if None in said or len(set(said)) < len(said):
        return iter(range(len(crashes)))
    return iter(number for number in said if number is not None)


def _read(path: Path, python: str | None, threads: str) -> Iterable[_Crash]:
    number = _number_in(path)
    try:
        with open_file(path) as file:
            head = file.read(4) or b""
            if head == b"\x7fELF":
                return [_core(path, number, python, threads)]
            if head[:2] == b"\x1f\x8b":
                _check_unpacked(path)
                return [_core(path, number, python, threads)]
            file.seek(0)
            dumps = find_dumps(_lines(file))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read {path}: {reason}") from None
    if not dumps:
        reason = "neither a core file nor a log with faulthandler output"
        return [_Crash(str(path), number, failure=reason)]
    return list(_processes(path, number, dumps, threads))


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Lines of the first MOST_TEXT bytes, cut at the length of faulthandler's lines."""
    rest = b""
    for _, block in blocks(cast("IO[bytes]", io.BufferedReader(file))):
        before, newline, last = block.rpartition(b"\n")
        if not newline:
            rest = (rest + block)[:LONGEST_LINE]
            continue
        whole, rest = rest + before, last[:LONGEST_LINE]
        if any(mark in whole for mark in _MARKS):
            for line in whole.split(b"\n"):
                if line and any(mark in line for mark in _MARKS):
                    yield line[:LONGEST_LINE].decode(errors="replace")
        if file.tell() > MOST_TEXT:
            return
    yield rest.decode(errors="replace")


def _check_unpacked(path: Path) -> None:
    """pystack unpacks a compressed core file next to it. Raises OSError if that would fill a disk."""
    with open_log(str(path)) as file:
        while file.read(BLOCK):
            pass


def _number_in(path: Path) -> int | None:
    """rank_3.log, worker-rank7.err, and torchrun's 3/stderr.log."""
    named = re.search(r"rank[_-]?(\d{1,6})(?!\d)", path.name)
    if named:
        return int(named[1])
    folder = path.parent.name
    return int(folder) if re.fullmatch(r"\d{1,6}", folder) else None


# --- core files ---------------------------------------------------------------------------


def _core(path: Path, number: int | None, python: str | None, threads: str) -> _Crash:
    crash = _Crash(str(path), number, source="pystack")
    try:
        core = pystack.read_core(path, python, CORE_SECONDS)
    except ProbeFailed as failure:
        crash.failure = str(failure)
        return crash
    crash.pid, crash.cause = core.pid, core.cause
    if threads != "all" and not any(f.python for thread in core.threads for f in thread.frames):
        crash.failure = "no Python frames in it: it is truncated, or of another Python (--exe)"
        return crash
    main = core.pid or min(thread.number for thread in core.threads)
    dumped = [t for t in core.threads if threads != "python" or any(f.python for f in t.frames)]
    shown = named_threads.threads(dumped, main, all_threads=threads != "main")
    crash.samples.append(
        tuple(
            Stack(
                thread["name"], thread["main"], tuple(Frame(*frame) for frame in thread["frames"])
            )
            for thread in shown["threads"]
        )
    )
    return crash


# --- faulthandler -------------------------------------------------------------------------


def _processes(
    path: Path, number: int | None, dumps: Iterable[FaultDump], threads: str
) -> Iterable[_Crash]:
    """Dumps of one rank that have a thread in common are samples of one process."""
    found: list[tuple[set[int], _Crash]] = []
    for dump in dumps:
        numbers = {thread.number for thread in dump.threads}
        rank = number if dump.rank is None else dump.rank
        crash = next((c for known, c in found if c.number == rank and known & numbers), None)
        if crash is None:
            crash = _Crash(str(path), rank)
            found.append((numbers, crash))
        crash.cause = dump.cause or crash.cause
        crash.samples.append(_sample(dump, threads))
    return [crash for _, crash in found]


def _sample(dump: FaultDump, threads: str) -> tuple[Stack, ...]:
    main = _main(dump)
    names = _names(dump, main)
    return tuple(
        Stack(names[thread.number], thread is main, _frames(thread))
        for thread in sorted(dump.threads, key=lambda thread: thread is not main)
        if thread is main or threads != "main"
    )


def _main(dump: FaultDump) -> FaultThread:
    """The thread that started with a module, otherwise the oldest, which is printed last."""
    modules = [t for t in dump.threads if t.frames and t.frames[-1][0] == "<module>"]
    return modules[0] if modules else dump.threads[-1]


def _names(dump: FaultDump, main: FaultThread) -> dict[int, str]:
    """The second thread without a name is `thread #2`."""
    names: dict[int, str] = {}
    for thread in dump.threads:
        name = thread.name or ("current thread" if thread.current else "thread")
        same = sum(known.partition(" #")[0] == name for known in names.values())
        names[thread.number] = f"{name} #{same + 1}" if same else name
    return {**names, main.number: "MainThread"}


def _frames(thread: FaultThread) -> tuple[Frame, ...]:
    native = [NativeFrame(function, "", 0, library) for function, library, _ in thread.native]
    lines = [NativeFrame(*frame, library="", python=True) for frame in thread.frames]
    return tuple(Frame(*frame) for frame in readable([*native, *lines]))
