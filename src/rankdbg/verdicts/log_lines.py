"""Whose line it is and when it was written: file names, prefixes, clocks of many makes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rankdbg.logs.clocks import CLOCK as CLOCK
from rankdbg.logs.clocks import read_stamp as read_stamp
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.places import LogFile, named_rank, ray_worker
from rankdbg.logs.prefixes import is_labelled
from rankdbg.logs.speakers import rank_of_file
from rankdbg.verdicts.ray_lines import Speakers

_RANK_IN_LINE = [
    # torch's and torchrun's prefixes: [rank3]:, [default3]:, [trainer0|3]:
    re.compile(r"^\s*\[(?:[A-Za-z_]\w*?\|)?(?:[A-Za-z_]+)(\d+)\]:"),
    re.compile(r"\[rank ?(\d+)\]", re.IGNORECASE),
    re.compile(r"\[PG .{0,60}\bRank (\d+)\]"),
    re.compile(r"\((?:VllmWorker )?rank=(\d+)\b"),
    re.compile(r"\b[Rr]ank[ =:](\d+)\s?[\]:]"),
    re.compile(r"\(Worker(?:_PP\d+)?_TP(\d+)(?:_EP\d+)? pid="),
    re.compile(r"^\S{0,40}\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)? TP(\d+)\]"),
]
_LABEL = re.compile(r"^\s{0,6}(\d{1,5}): ")  # srun --label
_ACTOR = re.compile(r"\(([A-Za-z_][\w.<>]*)[^()]{0,40}? pid=(\d+)(?:, ip=([\w.:]+))?\)")


@dataclass(frozen=True)
class Origin:
    """Who wrote a line, as far as it can be told."""

    rank: int | None = None
    pid: int | None = None
    actor: str = ""
    address: str = ""


class Origins:
    """Origins of the lines of some files: what one line says is remembered for its process."""

    def __init__(self, scans: Iterable[FileScan]) -> None:
        self._labelled: dict[str, bool] = {}
        self._rank_of_pid: dict[tuple[str, int], int] = {}
        self._files: dict[str, LogFile] = {}
        self._ranks_by_pid: dict[int, set[int]] = {}
        self._speakers: dict[str, Speakers] = {}
        scans = list(scans)
        for scan in scans:
            self._labelled[scan.path] = is_labelled(scan.beginning)
            self._speakers[scan.path] = Speakers(scan.hits)
            if scan.file is not None:
                self._files[scan.path] = scan.file
                if scan.file.pid is not None and scan.file.rank is not None:
                    self._ranks_by_pid.setdefault(scan.file.pid, set()).add(scan.file.rank)
        for scan in scans:
            for hit in scan.hits:
                origin = self._of_line(scan.path, hit)
                if origin.rank is not None and origin.pid is not None:
                    self._rank_of_pid.setdefault((origin.address, origin.pid), origin.rank)

    def of(self, path: str, hit: Hit) -> Origin:
        origin = self._of_line(path, hit)
        if origin.rank is None and origin.pid is not None:
            rank = self._rank_of_pid.get((origin.address, origin.pid))
            known = self._ranks_by_pid.get(origin.pid, set())
            if rank is None and len(known) == 1:  # by other names of its node
                rank = next(iter(known))
            return Origin(rank, origin.pid, origin.actor, origin.address)
        return origin

    def _of_line(self, path: str, hit: Hit) -> Origin:
        actor = _ACTOR.search(hit.head)
        name, pid, address = (actor[1], int(actor[2]), actor[3] or "") if actor else ("", None, "")
        if pid is None and (speaker := self._speakers[path].of(hit)):
            # It may speak of a process whose number was lost with it.
            known = self._ranks_by_pid.get(speaker.pid, set())
            rank = next(iter(known)) if len(known) == 1 else None
            return Origin(rank, speaker.pid, speaker.name, speaker.address)
        file = self._files.get(path)
        if pid is None and file is not None:
            # A file that nobody holds open may be another node's, by a shared file system.
            sure = file.pid is not None or file.kind != "slurm"
            name, pid, address = file.role or file.actor, file.pid, file.node if sure else ""
        if pid is None and (worker := ray_worker(path.rpartition("/")[2])):
            pid = worker[2]
        if not name and (named := named_rank(path)):
            name, address = named.role, address or named.node
        return Origin(self._rank(path, hit), pid, name, address)

    def _rank(self, path: str, hit: Hit) -> int | None:
        for text in dict.fromkeys((hit.head, hit.text[:400])):
            if self._labelled.get(path) and (label := _LABEL.match(text)):
                return int(label[1])
            for pattern in _RANK_IN_LINE:
                if found := pattern.search(text):
                    return int(found[1])
        file = self._files.get(path)
        return file.rank if file is not None and file.ranks else rank_of_file(path)


def year_of(scans: Iterable[FileScan]) -> int:
    """The year of clocks that do not say it: what others say, else when the files were written."""
    years: list[int] = []
    modified = 0.0
    for scan in scans:
        modified = max(modified, scan.modified)
        years += [int(hit.stamp[:4]) for hit in scan.hits if re.match(r"\d{4}-", hit.stamp)]
    return max(years) if years else datetime.fromtimestamp(modified or 0).year
