"""A job saved as a snapshot, with all that later questions need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdbg.investigations.further_looks import find_verdict
from rankdbg.investigations.hangs import HangInvestigation
from rankdbg.session import Session
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules


@dataclass(frozen=True)
class SavedJob:
    directory: str
    ranks: int  # how many
    size: int  # bytes

    def as_json(self) -> dict[str, Any]:
        return {"directory": self.directory, "ranks": self.ranks, "bytes": self.size}


def save_job(session: Session, job: str | None, directory: str | Path) -> SavedJob:
    """`directory`: a new one."""
    ranks = session.job(job, where=True)
    # A verdict needs what has happened over some time, which is gone when a snapshot is read.
    find_verdict(HangInvestigation(session, ranks, ranks), load_hang_rules())
    session.collect_all(ranks)
    session.save(directory)
    files = [path for path in Path(directory).rglob("*") if path.is_file()]
    return SavedJob(str(directory), len(ranks), sum(path.stat().st_size for path in files))
