"""Processes that are no more: their stacks, from core files and from what faulthandler wrote.

Each file is a rank, and so is each process of which a log holds dumps. The rank's number is
what the launcher wrote before the lines or what the file's name says, else the file's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rankdbg.errors import BadInput
from rankdbg.logs.fault_dumps import FaultDump, FaultThread, find_dumps, has_dump
from rankdbg.node import dumped_threads
from rankdbg.node.native_frames import NativeFrame, readable
from rankdbg.node.probes import ProbeFailed, pystack
from rankdbg.session import Sampled
from rankdbg.types import Frame, ProcessKey, Rank, Silence, Stack

# A core file of a rank holds tens of gigabytes, of which pystack reads little.
CORE_SECONDS = 300.0
MOST_TEXT = 2**30


@dataclass
class _Crash:
    """A process, before all are known and it gets its number."""

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
    """What they say, if no two say the same; else their places."""
    said = [crash.number for crash in crashes]
    if None in said or len(set(said)) < len(said):
        return iter(range(len(crashes)))
    return iter(number for number in said if number is not None)


def _read(path: Path, python: str | None, threads: str) -> Iterable[_Crash]:
    number = _number_in(path)
    try:
        with path.open("rb") as file:
            head = file.read(4)
            if head[:2] == b"\x1f\x8b" or head == b"\x7fELF":
                return [_core(path, number, python, threads)]
            text = (head + file.read(MOST_TEXT)).decode(errors="replace")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if not has_dump(text):
        reason = "neither a core file nor a text in which faulthandler has written"
        return [_Crash(str(path), number, failure=reason)]
    return list(_processes(path, number, find_dumps(text.splitlines()), threads))


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
        crash.failure = "no line of Python in it: it is cut short, or of another Python (--exe)"
        return crash
    main = core.pid or min(thread.number for thread in core.threads)
    dumped = [t for t in core.threads if threads != "python" or any(f.python for f in t.frames)]
    shown = dumped_threads.threads(dumped, main, all_threads=threads != "main")
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
    """The one that began with a module, else the oldest, which faulthandler writes last."""
    modules = [t for t in dump.threads if t.frames and t.frames[-1][0] == "<module>"]
    return modules[0] if modules else dump.threads[-1]


def _names(dump: FaultDump, main: FaultThread) -> dict[int, str]:
    """Of several without a name the second is `thread #2`."""
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
