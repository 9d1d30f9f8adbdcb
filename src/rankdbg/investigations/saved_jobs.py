"""A job saved as a snapshot, with all that later questions need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankdbg.clusters.snapshot import require_new
from rankdbg.investigations.hangs.further_looks import judge_ranks
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.nodes.node_health import read_figures
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.investigations.results import Result
from rankdbg.session import Session
from rankdbg.text.amounts import counted
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart


@dataclass(frozen=True, repr=False)
class SavedJob(Result):
    directory: str
    ranks: int  # how many
    size: int  # bytes
    found: JobVerdict | None = None  # the verdict at that moment

    def as_json(self) -> dict[str, Any]:
        return {"directory": self.directory, "ranks": self.ranks, "bytes": self.size}

    def summary(self) -> str:
        return f"saved {counted(self.ranks, 'rank')} in {self.directory} ({self.size // 1024} KiB)"

    def how_to_open(self) -> str:
        return f"open it with: rankdbg stacks -t snapshot:{self.directory}"

    def records(self) -> list[dict[str, Any]]:
        return [self.as_json()]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph

        return [Paragraph(self.how_to_open())]


def save_job(session: Session, job: str | None, directory: str | Path) -> SavedJob:
    """`directory`: a new one."""
    require_new(Path(directory))  # before the job is watched for seconds
    ranks = session.job(job, where=True)
    # A verdict needs what has happened over some time, which is gone when a snapshot is read.
    found = judge_ranks(session, ranks, ranks, load_hang_rules())
    found = replace(found, nodes=NodeStates(*read_figures(session, ranks)))
    session.collect_all(ranks)
    session.save(directory)
    files = [path for path in Path(directory).rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return SavedJob(str(directory), len(ranks), size, found)
