"""The files that a collection writes: stacks of each process, the report, a snapshot.

pyspy_HOST_PID.txt     Python stacks of all threads, the rank in the first line
cudagdb_HOST_PID.txt   active CUDA kernels and native stacks, where there is a GPU
report.txt             the verdict, as `rankdbg why` prints it
report.json            the same for programs
snapshot/              everything that was asked: rankdbg why -t snapshot:DIR
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.frontends.cli import json_text
from rankdbg.frontends.looking import Looking, find_verdict
from rankdbg.frontends.reports.stacks import kernel_lines
from rankdbg.frontends.reports.verdicts import VerdictReport
from rankdbg.frontends.terminal import Terminal
from rankdbg.session import Session
from rankdbg.types import Rank, Silence
from rankdbg.verdicts.hang_rules import HangRule
from rankdbg.verdicts.hangs import Verdict


@dataclass(frozen=True)
class Collection:
    verdict: Verdict
    report: VerdictReport
    directory: Path
    failure: str = ""  # why not all of it could be written

    @property
    def summary(self) -> dict[str, Any]:
        return {**self.report.as_json(), "directory": str(self.directory)}


def collect(
    session: Session,
    ranks: Sequence[Rank],
    rules: Sequence[HangRule],
    directory: Path,
    why: str,
    cuda: str,
    only_if_stuck: bool = False,
) -> Collection | None:
    """Look at the job and write down all there is to see."""
    looking = Looking(session, ranks, ranks)
    verdict, evidence = find_verdict(looking, rules)
    if only_if_stuck and not verdict.stuck:
        return None
    collection = Collection(verdict, VerdictReport(verdict, evidence, ranks), directory)
    alive = [rank for rank in ranks if rank.state not in ("gone", "zombie")]
    try:
        collection = replace(collection, directory=_new_folder(directory))
        _write_report(collection, why)  # the answer first: the disk may be full
        _write_stacks(session, alive, collection.directory)
        if cuda != "none" and looking.has_gpus:
            chosen = _suspects(verdict, alive) if cuda == "suspects" else alive
            _write_kernels(session, chosen, collection.directory)
        session.collect_all(alive)
        session.save(collection.directory / "snapshot")
    except (OSError, RankdbgError) as error:
        # Whoever is to be told is told nevertheless.
        text = error.in_one_line() if isinstance(error, RankdbgError) else str(error)
        return replace(collection, failure=text)
    return collection


def _new_folder(directory: Path) -> Path:
    """The directory itself the first time; then a folder for each time."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "report.json").exists():
        return directory
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        folder = directory / f"{stamp}{suffix}"
        if not folder.exists():
            folder.mkdir()
            return folder
    return directory


def _write_report(collection: Collection, why: str) -> None:
    text = io.StringIO()
    text.write(f"{datetime.now().astimezone().isoformat(timespec='seconds')}  {why}\n\n")
    collection.report.print(Terminal(text))
    _write(collection.directory / "report.txt", text.getvalue())
    document = json_text("why", {"collected": why, **collection.summary})
    _write(collection.directory / "report.json", document)


def _write_stacks(session: Session, ranks: Sequence[Rank], place: Path) -> None:
    seen, silent = session.stacks(ranks, threads="all", samples=1, engine="py-spy")
    for sampled in seen:
        lines = [_head(sampled.rank)]
        for stack in sampled.samples[-1] if sampled.samples else ():
            lines.append(f'\nThread "{stack.thread}"{" (main)" if stack.main else ""}')
            lines += [f"    {f.file}:{f.line} {f.function}" for f in stack.frames]
        _write(place / _name("pyspy", sampled.rank), "\n".join(lines) + "\n")
    _write_silent("pyspy", silent, place)


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
    guilty = {number for finding in verdict.findings for number in finding.guilty}
    return [rank for rank in ranks if rank.number in guilty] or list(ranks[:1])


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", "replace")
    path.chmod(0o600)
