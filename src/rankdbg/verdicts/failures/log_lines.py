"""Whose line it is and when it was written: file names, prefixes, clocks of many makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rankdbg.logs.clocks import CLOCK as CLOCK
from rankdbg.logs.clocks import read_stamp as read_stamp
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.places import LogFile, named_rank, ray_worker
from rankdbg.logs.prefixes import is_labelled, read_label
from rankdbg.logs.speakers import rank_of_file
from rankdbg.verdicts.failures.local_ranks import LOCAL_LABEL, LocalRanks
from rankdbg.verdicts.failures.ray_lines import RaySpeakers
from rankdbg.verdicts.rules.clues import PROGRESS

_RANK_IN_LINE = [
    re.compile(r"^\s*\[(?:rank|RANK|Rank)(\d+)\]:"),  # torch's prefix
    re.compile(
        r"^[^\[\]]{0,40}\[(?:[\w.\-]+@)?\d+,(?:mpirank:)?(\d+)(?:,[\w.\-]+)?\]<std(?:out|err|diag)>:"
    ),  # --tag-output, and SageMaker
    re.compile(r"\[rank ?(\d+)\]", re.IGNORECASE),
    re.compile(r'^\s*\{.{0,600}"(?:global_)?rank": ?"?(\d{1,6})\b'),  # a structured log
    re.compile(r"\[PG .{0,60}\bRank (\d+)\]"),
    re.compile(r"\((?:VllmWorker )?rank=(\d+)\b"),
    re.compile(r"\b[Rr]ank[ =:](\d+)\s?[\]:]"),
    re.compile(r"\(Worker(?:_PP\d+)?_TP(\d+)(?:_EP\d+)? pid="),
    re.compile(
        r"^(?:[\w.-]{1,60} +\| )?\S{0,40}\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)? TP(\d+)\]"
    ),
]
# What each of them, and the next two, have: most lines have none of it.
_MAY_TELL = re.compile(r"ank|ANK|TP\d|<std|\d\]:")
# [rank3]: and [Rank 3] are of the job; [default3]: and attempt_0/3/ are of one host.
_GLOBAL_RANK = re.compile(r"\[[Rr]ank[ =]?(\d+)\]|\[PG .{0,60}\bRank (\d+)\]|\brank (\d+)/\d+\b")
_RANK_OF_ROLE = re.compile(r"\[[A-Za-z]\w{0,30} rank (\d+)\]")  # of a Ray actor: [critic rank 3]
_LOCAL_RANK = re.compile(r"^(?P<above>.*?)/attempt_\d+/(?P<rank>\d+)/[^/]*$")
_NUMBERED = re.compile(r"(?:^|/)(\d{1,6})((?:\.\w+)?)$")  # 45.err
# Two writers on one line: the last prefix is of the one whose text follows it.
_GLUED = re.compile(r"(?<=\S)\[(?:[A-Za-z_]\w*?\|)?(?:rank|default|[a-z]+)(\d+)\]:")
_SPEAK = "speak"  # as patterns are called that find of which process lines of Ray tell
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
        self._speakers: dict[str, RaySpeakers] = {}
        self._local_ranks: dict[str, LocalRanks] = {}
        scans = list(scans)
        self._path_ranks = _ranks_of_paths(scans)
        for scan in scans:
            self._labelled[scan.path] = is_labelled(scan.beginning)
            self._speakers[scan.path] = RaySpeakers(scan.hits)
            self._local_ranks[scan.path] = LocalRanks(scan)
            if scan.file is not None:
                self._files[scan.path] = scan.file
                if scan.file.pid is not None and scan.file.rank is not None:
                    self._ranks_by_pid.setdefault(scan.file.pid, set()).add(scan.file.rank)
        for scan in scans:
            for hit in self._with_pids(scan):
                origin = self._of_line(scan.path, hit)
                if origin.rank is not None and origin.pid is not None:
                    self._rank_of_pid.setdefault((origin.address, origin.pid), origin.rank)

    def _with_pids(self, scan: FileScan) -> Iterator[Hit]:
        """Hits that may tell of a process which rank it is; steps are very many and tell nothing new."""
        file = self._files.get(scan.path)
        own = ray_worker(scan.path.rpartition("/")[2]) or (
            file is not None and file.pid is not None
        )
        own = own or any(hit.pattern.startswith(_SPEAK) for hit in scan.hits)
        for hit in scan.hits:
            if hit.pattern != PROGRESS and (own or "pid=" in hit.head):
                yield hit

    def rank_of_path(self, path: str) -> int | None:
        """The one rank that writes a file."""
        if path not in self._path_ranks:
            file = self._files.get(path)
            known = file.rank if file is not None and file.ranks else rank_of_file(path)
            self._path_ranks[path] = known
        return self._path_ranks[path]

    def ranks_of_pid(self, pid: int) -> set[int]:
        """What the lines of a process say, on whichever host it is."""
        return {rank for (_, known), rank in self._rank_of_pid.items() if known == pid}

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
            # A file that no process holds open may be another node's, by a shared file system.
            sure = file.pid is not None or file.kind != "slurm"
            name, pid, address = file.role or file.actor, file.pid, file.node if sure else ""
        if pid is None and (worker := ray_worker(path.rpartition("/")[2])):
            pid = worker[2]
        if not name and (named := named_rank(path)):
            name, address = named.role, address or named.node
        return Origin(self._rank(path, hit), pid, name, address)

    def _rank(self, path: str, hit: Hit) -> int | None:
        glued = [*_GLUED.finditer(hit.text[:400])] if "]:" in hit.text[:400] else []
        if glued and hit.text[: glued[-1].start()].count("%|"):
            return int(glued[-1][1])
        for text in dict.fromkeys((hit.head, hit.text[:400])):
            may_tell = _MAY_TELL.search(text) is not None
            if may_tell and (found := _GLOBAL_RANK.search(text)):
                return int(next(filter(None, found.groups())))
            if self._labelled.get(path) and (label := read_label(text)):
                return label[0]
            if may_tell and (found := LOCAL_LABEL.match(text)):
                return self._local_ranks[path].rank_of(int(found[1]), hit.offset)
            for pattern in _RANK_IN_LINE if may_tell else ():
                if found := pattern.search(text):
                    return int(found[1])
        return self.rank_of_path(path)


def _ranks_of_paths(scans: Sequence[FileScan]) -> dict[str, int | None]:
    """Files of one rank, by the number that their lines have in common. The folders of torchrun
    have numbers of their host: where hosts have the same ones, these say nothing of the job's."""
    told: dict[str, int | None] = {}
    bases: dict[str, int] = {}  # of the folder of a host: its first rank
    local: dict[str, tuple[str, int]] = {}
    numbered: dict[str, set[bool]] = {}  # by the ending of a name: whether its number is the rank
    said = {scan.path: _ranks_told(scan, _GLOBAL_RANK) for scan in scans}
    for scan in scans:
        ranks = said[scan.path]
        if place := _LOCAL_RANK.match(scan.path):
            local[scan.path] = place["above"], int(place["rank"])
            if len(ranks) == 1:
                bases.setdefault(place["above"], next(iter(ranks)) - int(place["rank"]))
        elif ray_worker(scan.path.rpartition("/")[2]):
            ranks = ranks or _ranks_told(scan, _RANK_OF_ROLE)
            if len(ranks) == 1:
                told[scan.path] = next(iter(ranks))
        elif (name := _NUMBERED.search(scan.path)) and len(ranks) == 1:
            numbered.setdefault(name[2], set()).add(int(name[1]) == next(iter(ranks)))
    folders = {above for above, _ in local.values()}
    are_repeated = len({number for _, number in local.values()}) < len({*local.values()})
    for path, (above, number) in local.items():
        if above in bases:
            told[path] = bases[above] + number
        elif len(folders) > 1 and are_repeated:
            told[path] = None
    for scan in scans:
        name = _NUMBERED.search(scan.path)
        if name and numbered.get(name[2]) == {True}:
            told[scan.path] = int(name[1])
    return {**_ranks_side_by_side(said), **told}


def _ranks_side_by_side(said: Mapping[str, set[int]]) -> dict[str, int | None]:
    """Files that are called alike, each with the lines of one rank, and each of another: worker-0.log,
    worker-1.log, and worker-1.previous.log of the same pod. One such file alone may be a launcher's.
    A name that says its rank is right: rank0.log."""
    found: dict[tuple[str, str], dict[str, set[int]]] = {}
    places: dict[str, tuple[tuple[str, str], str]] = {}
    for path, own in said.items():
        folder, _, name = path.rpartition("/")
        bare = name.partition(".")[0]
        if re.search(r"\d", bare) and rank_of_file(path) is None:
            key = folder, re.sub(r"\d+", "#", bare)
            places[path] = key, bare
            found.setdefault(key, {}).setdefault(bare, set()).update(own)
    apart = {key for key, ranks in found.items() if _are_apart([*ranks.values()])}
    return {
        path: next(iter(found[key][bare])) for path, (key, bare) in places.items() if key in apart
    }


def _are_apart(files: Sequence[set[int]]) -> bool:
    """Whether each has one rank, and no two the same."""
    single = {next(iter(ranks)) for ranks in files if len(ranks) == 1}
    return len(files) > 1 and len(single) == len(files)


def _ranks_told(scan: FileScan, pattern: re.Pattern[str]) -> set[int]:
    texts = [scan.beginning, scan.ending, *(hit.text[:200] for hit in scan.hits[:200])]
    found = (match for text in texts for match in pattern.finditer(text))
    return {int(next(filter(None, match.groups()))) for match in found}


def year_of(scans: Iterable[FileScan]) -> int:
    """The year of clocks that do not say it: what others say, else when the files were written."""
    years: list[int] = []
    modified = 0.0
    for scan in scans:
        modified = max(modified, scan.modified)
        stamps = {hit.stamp[:5] for hit in scan.hits}
        years += [int(stamp[:4]) for stamp in stamps if re.match(r"\d{4}-", stamp)]
    return max(years) if years else datetime.fromtimestamp(modified or 0).year
