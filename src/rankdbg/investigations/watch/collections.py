"""The files that a collection writes: stacks of each process, the report, a snapshot.

stacks_HOST_PID.txt    Python stacks as the agent says them, where a signal left little time
pyspy_HOST_PID.txt     Python stacks of all threads, the rank in the first line
cudagdb_HOST_PID.txt   active CUDA kernels and native stacks, where there is a GPU
report.txt             the verdict, as `rankdbg why` prints it
report.json            the same for programs
report.html            the same as a page to look at, which opens offline
snapshot/              everything that was asked: rankdbg why -t snapshot:DIR
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from rankdbg.errors import RankdbgError
from rankdbg.files import private_files
from rankdbg.investigations.documents import json_text
from rankdbg.investigations.hangs.further_looks import find_verdict
from rankdbg.investigations.hangs.hang_investigation import HangInvestigation
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.stacks.merged_stacks import kernel_lines
from rankdbg.session import Session
from rankdbg.text.escapes import visible
from rankdbg.types import Rank, Silence
from rankdbg.verdicts.hangs.hang_rules import HangRule
from rankdbg.verdicts.hangs.judgement import Verdict


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


@dataclass(frozen=True)
class Collection:
    found: JobVerdict
    directory: Path
    failure: str = ""  # why not all of it could be written
    time: str = field(default_factory=_now)  # of the verdict

    @property
    def summary(self) -> dict[str, Any]:
        return {**self.found.as_json(), "directory": str(self.directory)}


@dataclass(frozen=True)
class JudgedJob:
    """The evidence about a job, and the verdict."""

    investigation: HangInvestigation
    ranks: Sequence[Rank]
    found: JobVerdict

    @property
    def stuck(self) -> bool:
        return self.found.stuck

    @property
    def alive(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.state not in ("gone", "zombie")]


def look_at(session: Session, ranks: Sequence[Rank], rules: Sequence[HangRule]) -> JudgedJob:
    investigation = HangInvestigation(session, ranks, ranks)
    return JudgedJob(investigation, ranks, JobVerdict(*find_verdict(investigation, rules), ranks))


class UnderWay:
    """Collections that have begun, in whatever thread."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Until all are finished."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count, seconds)


class Reports(Protocol):
    """For people."""

    def text(self, verdict: JobVerdict) -> str: ...

    def page(self, verdict: JobVerdict, target: str, time: str) -> str:
        """HTML. `time`: of the verdict, as ISO 8601."""
        ...


class Folders:
    """Where each collection goes: the directory itself the first time, then a folder for each
    time. Two collections may be under way at once."""

    def __init__(self, directory: Path, reports: Reports) -> None:
        self.directory = directory
        self.reports = reports
        self._lock = threading.Lock()
        self._taken: set[Path] = set()

    def new(self) -> Path:
        with self._lock:
            folder = self._find()
            self._taken.add(folder)
            return folder

    def _find(self) -> Path:
        directory = self.directory
        private_files.make_directory(directory)
        if directory not in self._taken and not (directory / "report.txt").exists():
            return directory
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            folder = directory / f"{stamp}{suffix}"
            if not folder.exists():
                private_files.make_directory(folder)
                return folder
        return directory


def collect(
    session: Session, judged: JudgedJob, folders: Folders, why: str, cuda: str
) -> Collection:
    """Write all evidence."""
    collection = Collection(judged.found, folders.directory)
    try:
        collection = replace(collection, directory=folders.new())
        _write_report(collection, folders, why)  # the answer first: the disk may be full
        _write_stacks(session, judged.alive, collection.directory)
        if cuda != "none" and judged.investigation.has_gpus:
            suspects = _suspects(judged.found.verdict, judged.alive)
            chosen = suspects if cuda == "suspects" else judged.alive
            _write_kernels(session, chosen, collection.directory)
        session.collect_all(judged.alive)
        session.save(collection.directory / "snapshot")
    except (OSError, RankdbgError) as error:
        # Notifications are sent nevertheless.
        return replace(collection, failure=_in_one_line(error))
    return _with_page(session, collection, folders)


def collect_quickly(
    session: Session,
    ranks: Sequence[Rank],
    rules: Sequence[HangRule],
    folders: Folders,
    why: str,
    is_whole: Callable[[], bool],
    pass_on: Callable[[], None],
) -> Collection | Path:
    """Before a signal reaches the job, with little time left: fast evidence first, slow evidence
    while the program handles the signal. There is a verdict only if `is_whole`: ranks that end
    because of the signal are not stuck. Otherwise returns only the directory."""
    place = folders.new()
    alive = [rank for rank in ranks if rank.state not in ("gone", "zombie")]
    _write(place / "report.txt", f"{_now()}  {why}\n\nNo verdict: the job was ending already.\n")
    _write_stacks(session, alive, place, "agent")
    judged = look_at(session, ranks, rules)
    collection = None
    if judged.found.verdict.state != "ended" and is_whole():
        collection = Collection(judged.found, place)
        _write_report(collection, folders, why)
    pass_on()
    try:
        session.save(place / "snapshot")
        _write_stacks(session, alive, place, with_silent=False)  # by now many have ended
    except (OSError, RankdbgError) as error:
        return replace(collection, failure=_in_one_line(error)) if collection else place
    return _with_page(session, collection, folders) if collection is not None else place


def _in_one_line(error: Exception) -> str:
    if isinstance(error, RankdbgError):
        return error.in_one_line()
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def _write_report(collection: Collection, folders: Folders, why: str) -> None:
    text = f"{_now()}  {why}\n\n{folders.reports.text(collection.found)}"
    _write(collection.directory / "report.txt", text)
    document = json_text("why", {"collected": why, **collection.summary})
    _write(collection.directory / "report.json", document)


def _with_page(session: Session, collection: Collection, folders: Folders) -> Collection:
    """The page shows what ranks say of themselves. Whatever is wrong with it, the report is there, and
    the notification is sent."""
    target = session.cluster.target
    try:
        page = folders.reports.page(collection.found, target, collection.time)
        with private_files.open_file(collection.directory / "report.html", "w", "utf-8") as file:
            file.write(page)
    except Exception as error:
        return replace(collection, failure=f"report.html: {_in_one_line(error)}")
    return collection


def _write_stacks(
    session: Session,
    ranks: Sequence[Rank],
    place: Path,
    engine: str = "py-spy",
    with_silent: bool = True,
) -> None:
    tool = {"py-spy": "pyspy", "agent": "stacks"}[engine]
    seen, silent = session.stacks(ranks, threads="all", samples=1, engine=engine)
    for sampled in seen:
        lines = [_head(sampled.rank)]
        for stack in sampled.samples[-1] if sampled.samples else ():
            lines.append(f'\nThread "{stack.thread}"{" (main)" if stack.main else ""}')
            lines += [f"    {f.file}:{f.line} {f.function}" for f in stack.frames]
        _write(place / _name(tool, sampled.rank), "\n".join(lines) + "\n")
    if with_silent:
        _write_silent(tool, silent, place)


def _write_kernels(session: Session, ranks: Sequence[Rank], place: Path) -> None:
    seen, silent = session.stacks(ranks, threads="all", samples=1, engine="cuda")
    silent += [Silence(s.rank, s.why) for s in seen if s.source != "cuda-gdb"]
    for sampled in seen:
        if sampled.source != "cuda-gdb":
            continue
        lines = [
            _head(sampled.rank),
            "",
            "# CUDA kernels",
            *(kernel_lines(sampled) or ["none is active"]),
        ]
        lines += ["", "# Thread backtraces"]
        for stack in sampled.samples[-1] if sampled.samples else ():
            lines.append(f"\nThread {stack.thread}")
            lines += [
                f"#{number}  {f.function} at {f.file}:{f.line}"
                for number, f in enumerate(stack.frames)
            ]
        _write(place / _name("cudagdb", sampled.rank), "\n".join(lines) + "\n")
    _write_silent("cudagdb", silent, place)


def _write_silent(tool: str, silent: Sequence[Silence], place: Path) -> None:
    for silence in silent:
        text = f"{_head(silence.rank)}\n\ncould not be read: {silence.reason}\n"
        _write(place / _name(tool, silence.rank), text)


def _head(rank: Rank) -> str:
    number = f"rank {rank.number}" if rank.number is not None else rank.kind
    coordinates = " ".join(f"{name}={value}" for name, value in rank.coordinates.items())
    parts = (number, coordinates, rank.role, f"host {rank.host}", f"pid {rank.pid}")
    return "# " + "  ".join(part for part in parts if part)


def _name(tool: str, rank: Rank) -> str:
    host = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in rank.host)
    return f"{tool}_{host}_{rank.pid}.txt"


def _suspects(verdict: Verdict, ranks: Sequence[Rank]) -> list[Rank]:
    culprits = {rank.process for finding in verdict.findings for rank in finding.ranks}
    return [rank for rank in ranks if rank.process in culprits] or list(ranks[:1])


def _write(path: Path, text: str) -> None:
    with private_files.open_file(path, "w", "utf-8") as file:
        file.write(visible(text))
