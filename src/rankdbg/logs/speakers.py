"""The rank that wrote a line: from the line itself, a pid in it, or the owner of the file."""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

from rankdbg.logs.entries import LogQuery, Printer, RankProcess
from rankdbg.logs.places import LogFile, named_rank, ray_worker, torchrun_rank
from rankdbg.logs.prefixes import Line

_RANK_IN_NAME = [
    re.compile(r"(?:^|[/_.\-])rank[_\-.=]?(\d+)(?=[/_.\-]|$)", re.IGNORECASE),
    re.compile(r"(?:^|[/_.\-])(?:task|proc(?:ess)?)[_\-.=]?(\d+)(?=[/_.\-]|$)", re.IGNORECASE),
    # torchrun --log-dir: RUN_ID_x/attempt_0/3/stderr.log
    re.compile(r"/attempt_\d+/(\d+)/(?:stdout|stderr)(?:\.log)?"),
    # Slurm's -o out-%t, out.%t: nothing but a small number before the suffix
    re.compile(
        r"(?:out|err|log|output|stdout|stderr)[-_.](\d{1,4})(?:\.(?:out|err|log|txt))?(?:\.gz)?$"
    ),
]


def rank_of_file(path: str) -> int | None:
    found = [match for pattern in _RANK_IN_NAME for match in pattern.finditer(path)]
    return int(found[0][1]) if found else None


class Speaker(NamedTuple):
    rank: int | None
    pid: int | None
    name: str
    copied: Printer = ""  # who has printed it, if the line is another process's than the file is


class Speakers:
    """The writers of the lines of one file."""

    def __init__(self, file: LogFile, wanted: LogQuery) -> None:
        self._file = file
        self._wanted = wanted
        self._known: dict[int, list[RankProcess]] = {}
        # By number: the roles that have it, and whether each is wanted.
        self._roles: dict[int | None, dict[str, bool]] = {}
        for known in wanted.known:
            self._known.setdefault(known.pid, []).append(known)
            roles = self._roles.setdefault(known.rank, {})
            roles[known.role] = roles.get(known.role, False) or known.pid in wanted.pids
        worker = ray_worker(file.path.rpartition("/")[2])
        self._pid = file.pid if file.pid is not None else worker[2] if worker else None
        self._is_workers = worker is not None
        self._rank = file.rank
        if self._rank is None and not file.ranks:
            self._rank = self._only_rank_there() if file.kind == "pod" else rank_of_file(file.path)
        named = named_rank(file.path)
        self._role = file.role or (named.role if named else "")
        # Of who is no rank. What a pod's output is called is the command that fetches it.
        name = file.node if file.kind == "pod" else file.path.rpartition("/")[2]
        self._name = file.role or name

    def _only_rank_there(self) -> int | None:
        """The output of a pod contains that of all its ranks."""
        there = {k.rank for k in self._wanted.known if k.host == self._file.node}
        return there.pop() if len(there) == 1 else None

    def of(self, line: Line) -> Speaker:
        if not line.attributed:
            return self._own(None)
        if line.pid is None:
            if line.rank is None and line.actor:  # (raylet)
                return Speaker(None, None, line.actor)
            if line.teed is not None:
                return self._of_teed(line)
            return self._own(line.rank)
        known = self._who_is(line.pid, line.address)
        rank = line.rank if line.rank is not None else known.rank if known else None
        name = known.role if known and known.role else line.actor
        if rank is None and line.pid == self._pid:
            return self._own(None)
        copied = line.actor and not self._is_workers
        return self._speaker(rank, line.pid, name, "ray" if copied else "")

    def _of_teed(self, line: Line) -> Speaker:
        """Of a rank by its number on its node, which is that of its own file."""
        file = self._teed_files.get(line.teed)
        if file is None or file.path == self._file.path:
            return self._own(line.rank)
        is_told = line.rank != line.teed or file.rank is None
        rank = line.rank if is_told else file.rank
        return self._speaker(rank, file.pid, file.role, "torchrun")

    @cached_property
    def _teed_files(self) -> dict[int | None, LogFile]:
        """By number on this node: the file of a rank, of the last run."""
        here = [file for file in self._wanted.files if file.node == self._file.node]
        own = {torchrun_rank(file.path): file for file in sorted(here, key=lambda f: f.modified)}
        return {number: file for number, file in own.items() if number is not None}

    def _own(self, rank: int | None) -> Speaker:
        known = self._who_is(self._pid, self._file.node) if self._pid is not None else None
        rank = rank if rank is not None else self._rank
        if rank is None and known:
            rank = known.rank
        return self._speaker(rank, self._pid, (known.role if known else "") or self._role)

    def _speaker(
        self, rank: int | None, pid: int | None, name: str, copied: Printer = ""
    ) -> Speaker:
        return Speaker(rank, pid, name or ("" if rank is not None else self._name), copied)

    def _who_is(self, pid: int, address: str) -> RankProcess | None:
        """The same pid may be several processes on several nodes."""
        found = self._known.get(pid, [])
        if len(found) > 1:
            host = address or self._file.node
            found = [known for known in found if known.host == host] or found[:0]
        return found[0] if found else None

    def is_wanted(self, who: Speaker) -> bool:
        wanted = self._wanted
        if wanted.ranks is None:
            return True
        is_known = who.pid is not None and len(self._known.get(who.pid, ())) == 1
        # Two roles may have one number: a process that is known is wanted by itself.
        if who.rank is None or (is_known and wanted.pids):
            return who.pid is not None and who.pid in wanted.pids
        return who.rank in wanted.ranks and self._is_of_wanted_role(who)

    def _is_of_wanted_role(self, who: Speaker) -> bool:
        """Where roles share a number, a line without a role is certainly of none of them: it is wanted
        if all of them are."""
        roles = self._roles.get(who.rank, {})
        if len(roles) < 2:
            return True
        return roles[who.name] if who.name in roles else all(roles.values())
