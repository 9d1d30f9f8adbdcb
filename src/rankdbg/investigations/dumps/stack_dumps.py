"""Stack dumps that other tools have written, as if the job ran: its stacks, and the verdict.

Files, folders, compressed files and standard input. What cannot be known from a dump (states,
waits in the kernel, times) is missing from the evidence, and said to be.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from rankdbg.dumps.dumped_threads import DumpedThread
from rankdbg.dumps.finding import MOST_JSON, ProcessDump, find_processes
from rankdbg.dumps.native_frames import readable
from rankdbg.dumps.pyspy_text import GIL
from rankdbg.errors import BadInput
from rankdbg.investigations.dumps.dumped_ranks import (
    DumpedProcess,
    find_main,
    join_dumps,
    number_ranks,
)
from rankdbg.investigations.hangs import readings
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.logs.files import BLOCK, find_logs, open_log
from rankdbg.node.probes import named_threads
from rankdbg.process import masking
from rankdbg.process.user_code import is_agent, is_native, shows_variables
from rankdbg.selection import Selection, pick
from rankdbg.session import Sampled
from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import HangRule
from rankdbg.verdicts.hangs.judgement import judge

STDIN = "-"
MOST_TEXT = 4 << 30
LONGEST_LINE = 1 << 16
MOST_NAMED = 8


@dataclass(frozen=True)
class DumpedJob:
    """The processes of which there are dumps."""

    seen: tuple[Sampled, ...]
    active: dict[ProcessKey, bool]  # whether its main thread computed, where a tool tells
    notes: tuple[str, ...]

    @property
    def ranks(self) -> list[Rank]:
        return [sampled.rank for sampled in self.seen if sampled.rank.kind == "rank"]

    def members(self, everything: bool) -> list[Rank]:
        """The ranks, or all processes."""
        return [sampled.rank for sampled in self.seen] if everything else self.ranks

    def stacks(self, selection: Selection, everything: bool, threads: str) -> MergedStacks:
        """`threads`: main or all."""
        members = self.members(everything)
        chosen = {rank.process for rank in pick(selection, members)}
        seen = [_only(s, threads) for s in self.seen if s.rank.process in chosen]
        return MergedStacks(seen, (), members, notes=self.notes)

    def verdict(self, selection: Selection, rules: Sequence[HangRule]) -> JobVerdict:
        ranks = self.ranks
        chosen = {rank.process for rank in pick(selection, ranks)}
        seen = [self._as_seen(s, ranks) for s in self.seen if s.rank.process in chosen]
        others = [rank for rank in ranks if rank.process not in chosen]
        evidence = Evidence(seen, others=others, dumped=True)
        return JobVerdict(judge(evidence, rules), evidence, ranks, self.notes)

    def _as_seen(self, sampled: Sampled, ranks: Sequence[Rank]) -> Seen:
        native = sampled.samples[-1]
        has_native = any(is_native(f.file) for stack in native for f in stack.frames)
        return Seen(
            sampled.rank,
            samples=[[_without_native(stack) for stack in sample] for sample in sampled.samples],
            native=native if has_native else (),
            # No `gil`: at any moment some thread that is at work holds it.
            active=self.active.get(sampled.rank.process),
            kernels=readings.kernels(sampled.kernels, ()),
            all_ranks=ranks,
        )


def read_stack_dumps(paths: Sequence[str], stdin: IO[bytes]) -> DumpedJob:
    """Raises BadInput."""
    found: list[tuple[str, ProcessDump]] = []
    without: list[str] = []
    notes: list[str] = []
    for path in _in_natural_order(find_logs(path for path in paths if path != STDIN)):
        try:
            dumps = _read(path)
        except BadInput as error:
            if path in paths:
                raise
            notes.append(error.what)  # another file of a folder
            continue
        found += [(path, dump) for dump in dumps]
        if not dumps:
            without.append(path)
    if STDIN in paths:
        found += [("standard input", dump) for dump in find_processes(_lines(stdin))]
    if not found:
        raise _nothing(paths, without)
    if left := [path for path in without if path in paths]:
        notes.append(f"no stack dump in {', '.join(left[:MOST_NAMED])}")
    return _job(join_dumps(found), notes)


def _nothing(paths: Sequence[str], without: Sequence[str]) -> BadInput:
    where = ", ".join("standard input" if path == STDIN else path for path in paths[:MOST_NAMED])
    return BadInput(
        f"no stack dumps in {where}",
        *([f"{len(without)} files were read"] if len(without) > 1 else []),
        "expected: output of py-spy dump, pystack, gdb, cuda-gdb or faulthandler",
    )


def _in_natural_order(paths: Iterable[str]) -> list[str]:
    """dump-2 before dump-10."""
    return sorted(paths, key=lambda path: [p.zfill(12) for p in re.split(r"(\d+)", path)])


# --- reading ------------------------------------------------------------------------------


def _read(path: str) -> list[ProcessDump]:
    try:
        with open_log(path) as file:
            return find_processes(_lines(file))
    except Exception as error:  # gzip, lzma, zlib and zstd each have errors of their own
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read {path}: {reason}") from None


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Also of text that PowerShell has written, in UTF-16. Lines are cut, but for one of JSON."""
    block = file.read(BLOCK)
    if block[:4] == b"\x7fELF":
        raise OSError(0, "it is a core file: rankdbg stacks --core FILE reads it")
    is_wide = block[:2] in (b"\xff\xfe", b"\xfe\xff")
    decode = codecs.getincrementaldecoder("utf-16" if is_wide else "utf-8")("replace").decode
    rest, size = "", 0
    while block:
        size += len(block)
        *lines, last = decode(block).split("\n")
        if lines:
            yield (rest + lines[0]).removeprefix("\ufeff")
            yield from lines[1:]
            rest = ""
        rest += last
        if len(rest) > LONGEST_LINE and not rest.startswith("[{"):
            rest = rest[:LONGEST_LINE]
        rest = rest[:MOST_JSON]
        block = file.read(BLOCK) if size < MOST_TEXT else b""
    yield rest + decode(b"", True)


# --- ranks and their samples --------------------------------------------------------------


def _job(processes: Sequence[DumpedProcess], notes: list[str]) -> DumpedJob:
    ranks = [process for process in processes if process.kind == "rank"]
    if not ranks:
        ranks = [*processes]
    numbers, source = number_ranks(ranks)
    if len(ranks) > 1:
        notes.append(source)
    if left := len(processes) - len(ranks):
        notes.append(
            f"{left} of {len(processes)} processes are launchers or workers of data loaders: "
            "rankdbg stacks --all shows them"
        )
    by_process = {id(p): number for p, number in zip(ranks, numbers, strict=True)}
    ordered = sorted(processes, key=lambda p: (id(p) not in by_process, by_process.get(id(p), 0)))
    seen = [_sampled(p, by_process.get(id(p)), place) for place, p in enumerate(ordered)]
    pairs = [(s, p) for s, p in zip(seen, ordered, strict=True) if p.main.active is not None]
    active = {
        sampled.rank.process: all(_was_active(dump, process.pid) for dump in process.dumps)
        for sampled, process in pairs
    }
    return DumpedJob(tuple(seen), active, tuple(notes))


def _was_active(dump: ProcessDump, pid: int | None) -> bool:
    return bool(find_main(dump, pid).active)


def _sampled(process: DumpedProcess, number: int | None, place: int) -> Sampled:
    labels = process.labels
    cause = next((dump.cause for dump in reversed(process.dumps) if dump.cause), "")
    rank = Rank(
        ProcessKey(process.host, process.pid or 0, place),
        job="",
        number=number,
        kind="rank" if number is not None else process.kind,
        coordinates=labels.get("coordinates", {}),
        role=labels.get("role", ""),
        detail=cause,
        command=process.command,
    )
    last = process.dumps[-1]
    gil = {_gil(dump) for dump in process.dumps}
    return Sampled(
        rank,
        tuple(_stacks(dump, process.pid) for dump in process.dumps),
        last.tool,
        gil=gil.pop() if len(gil) == 1 else "",
        kernels=tuple(last.kernels),
    )


def _gil(dump: ProcessDump) -> str:
    return next((t.name or "thread" for t in dump.threads if GIL in t.status), "")


def _stacks(dump: ProcessDump, pid: int | None) -> tuple[Stack, ...]:
    main = find_main(dump, pid)
    if dump.tool in ("gdb", "cuda-gdb", "pystack"):
        threads = _named_by_debugger(dump.threads, main)
    else:
        threads = _named(dump.threads, main)
    return tuple(sorted(threads, key=lambda stack: not stack.main))


def _named_by_debugger(threads: Sequence[DumpedThread], main: DumpedThread) -> Iterator[Stack]:
    """Debuggers know the kernel's names of threads only; variables are shown of the main one."""
    shown = named_threads.threads(threads, main.number, all_threads=True)["threads"]
    for entry in shown:
        frames = tuple(Frame(*frame) for frame in entry["frames"])
        thread = main if entry["main"] else None
        yield Stack(entry["name"], entry["main"], frames, _locals(thread, frames))


def _named(threads: Sequence[DumpedThread], main: DumpedThread) -> Iterator[Stack]:
    times: dict[str, int] = {}
    for thread in threads:
        frames = tuple(Frame(*frame) for frame in readable(thread.frames))
        if not frames or is_agent(frames[-1].file):
            continue
        name = "MainThread" if thread is main else thread.name or "thread"
        times[name] = times.get(name, 0) + 1
        whole = name if times[name] == 1 else f"{name} #{times[name]}"
        yield Stack(whole, thread is main, frames, _locals(thread, frames))


def _locals(thread: DumpedThread | None, frames: Sequence[Frame]) -> tuple[dict[str, str], ...]:
    """The variables of user code beside the frames that are shown, secrets masked."""
    if thread is None or not thread.locals:
        return ()
    pairs = zip(thread.frames, thread.locals, strict=False)
    known = {(f.function, f.file, f.line): values for f, values in pairs}
    return tuple(
        masking.mask_environment(known.get((frame.function, frame.file, frame.line), {}))
        if shows_variables(frame.function, frame.file)
        else {}
        for frame in frames
    )


def _only(sampled: Sampled, threads: str) -> Sampled:
    if threads == "all":
        return sampled
    samples = tuple(tuple(s for s in sample if s.main) for sample in sampled.samples)
    return Sampled(**{**vars(sampled), "samples": samples})


def _without_native(stack: Stack) -> Stack:
    frames = tuple(frame for frame in stack.frames if not is_native(frame.file))
    return Stack(stack.thread, stack.main, frames or stack.frames)
