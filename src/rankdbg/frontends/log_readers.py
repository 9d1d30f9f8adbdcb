"""Messages of logs: of paths that were given, or of a job on its nodes; once, or as they come."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from rankdbg import selection, wire
from rankdbg.answers import understanding
from rankdbg.errors import NoJob, NoLogs, RankdbgError
from rankdbg.frontends.log_sources import FIND_EVERY, NodeLogs
from rankdbg.logs.entries import Entry, Known, Position, Reading, Wanted
from rankdbg.logs.files import find_logs
from rankdbg.logs.following import read_new
from rankdbg.logs.places import LogFile, ray_worker
from rankdbg.logs.reading import read
from rankdbg.node.log_reading import masked
from rankdbg.node.ray_sessions import started_for
from rankdbg.session import Session
from rankdbg.types import ProcessKey, Rank

# To read what is asked for, beyond --timeout: all of it for --diff.
READ_SECONDS, KINDS_SECONDS = 20.0, 120.0
_HERE = ""  # in place of a node: files that were fetched to this machine


@dataclass
class Messages:
    """Of all files, oldest first."""

    entries: list[Entry] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # of kinds of messages
    older: bool = False
    late: bool = False
    errors: dict[str, str] = field(default_factory=dict)  # files and nodes, and why
    clockless: set[str] = field(default_factory=set)
    speakers: set[tuple[int | None, str]] = field(default_factory=set)


class Reader(Protocol):
    files: list[LogFile]
    ranks: Sequence[Rank]  # of the job; none where there are only files

    def latest(self) -> float:
        """The time from which `10m` is counted."""

    def read(self, wanted: Wanted) -> Messages: ...

    def read_new(self, wanted: Wanted) -> Messages:
        """What has come since."""


class GivenReader:
    """Files on this machine, and nothing but them."""

    ranks: Sequence[Rank] = ()

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._positions: dict[int, Position] = {}
        self.files: list[LogFile] = []
        self._find()
        if not self.files:
            raise NoLogs(f"no log files in {', '.join(paths)}")

    def _find(self) -> None:
        known = {file.path for file in self.files}
        self.files += [_given(path) for path in find_logs(self._paths) if path not in known]

    def latest(self) -> float:
        """Logs of last week are as good as today's: the last message in them."""
        last = read(Wanted(self.files, limit=1), time.monotonic() + READ_SECONDS).entries
        return last[0].order if last else time.time()

    def read(self, wanted: Wanted) -> Messages:
        seconds = KINDS_SECONDS if wanted.kinds else READ_SECONDS
        reading = read(replace(wanted, files=self.files), time.monotonic() + seconds)
        return self._told(reading)

    def read_new(self, wanted: Wanted) -> Messages:
        self._find()
        return self._told(read_new(replace(wanted, files=self.files), self._positions))

    def _told(self, reading: Reading) -> Messages:
        self._positions |= reading.positions
        made = Messages()
        _add(made, masked(reading), [*range(len(self.files))], self.files)
        return made


def _given(path: str) -> LogFile:
    """A worker of Ray has written first what it is."""
    worker = ray_worker(path.rpartition("/")[2])
    return LogFile("", path, role=started_for(path)[1] if worker else "")


class NodeReader:
    """The logs of a job, read on its nodes: only what is wanted travels."""

    def __init__(
        self, session: Session, job: str | None, paths: Sequence[str], everything: bool = False
    ) -> None:
        self._session = session
        self._everything = everything
        self._finder = NodeLogs(session, (), job, paths)
        self._positions: dict[str, dict[int, Position]] = {}
        self._found_at = 0.0
        self.files: list[LogFile] = []
        self.ranks: Sequence[Rank] = ()
        self._find()

    def _find(self) -> None:
        try:
            self._finder.find()
        except (NoLogs, NoJob) as error:
            if not self.files:
                hint = error.hint.replace("rankdbg doctor PATH", "rankdbg logs PATH")
                raise type(error)(error.what, *error.why, hint=hint) from None
        self._found_at = time.monotonic()
        known = {(file.node, file.path) for file in self.files}
        for file in self._finder.files:
            wanted = self._everything or not _is_rays_own(file)
            if wanted and (file.node, file.path) not in known:
                self.files.append(file)
        self.ranks = self._finder.state.ranks

    @property
    def silent_nodes(self) -> Mapping[str, str]:
        return self._finder.state.silent_nodes

    def latest(self) -> float:
        return time.time()

    def read(self, wanted: Wanted) -> Messages:
        made = self._ask(wanted, "read", KINDS_SECONDS if wanted.kinds else READ_SECONDS)
        order = sorted(range(len(made.entries)), key=lambda place: made.entries[place].order)
        made.entries = [made.entries[place] for place in order]
        made.counts = [made.counts[place] for place in order] if wanted.kinds else []
        if not wanted.kinds and len(made.entries) > wanted.limit:
            made.older = True
            del made.entries[: -wanted.limit]
        return made

    def read_new(self, wanted: Wanted) -> Messages:
        if time.monotonic() - self._found_at > FIND_EVERY:
            self._find()
        self._session.forget()
        made = self._ask(wanted, "new", 0.0)
        made.entries.sort(key=lambda entry: entry.order)
        return made

    def _ask(self, wanted: Wanted, do: str, extra: float) -> Messages:
        wanted = replace(wanted, known=[Known(r.host, r.pid, r.number, r.role) for r in self.ranks])
        numbers: dict[str, list[int]] = {}
        for number, file in enumerate(self.files):
            numbers.setdefault(_HERE if file.kind == "pod" else file.node, []).append(number)
        made = Messages()
        if places := numbers.pop(_HERE, None):
            self._read_here(wanted, do, extra, places, made)
        questions = {node: self._question(node, wanted, do, numbers[node]) for node in numbers}
        for node, answer in self._session.ask_each(questions, extra):
            if isinstance(answer, RankdbgError):
                made.errors[node] = answer.in_one_line()
                continue
            with understanding(node, "logs"):
                reading = Reading.from_json(answer)
            self._positions.setdefault(node, {}).update(reading.positions)
            _add(made, reading, numbers[node], self.files)
        return made

    def _question(self, node: str, wanted: Wanted, do: str, places: Sequence[int]) -> wire.Message:
        there = replace(wanted, files=[self.files[place] for place in places]).as_json()
        positions = [[n, *position] for n, position in self._positions.get(node, {}).items()]
        return {"ask": "logs", "do": do, "wanted": there, "positions": positions}

    def _read_here(
        self, wanted: Wanted, do: str, extra: float, places: Sequence[int], made: Messages
    ) -> None:
        """What kubectl has fetched."""
        wanted = replace(wanted, files=[self.files[place] for place in places])
        positions = self._positions.setdefault(_HERE, {})
        if do == "new":
            reading = read_new(wanted, positions)
        else:
            reading = read(wanted, time.monotonic() + extra)
        positions.update(reading.positions)
        _add(made, masked(reading), places, self.files)


def _is_rays_own(file: LogFile) -> bool:
    """Of its daemons: they tell of Ray, and fill the screen. (Workers hold some of them open.)"""
    name = file.path.rpartition("/")[2]
    return "/session_" in file.path and not (ray_worker(name) or name.startswith("job-driver-"))


def _add(
    made: Messages, reading: Reading, numbers: Sequence[int], files: Sequence[LogFile]
) -> None:
    """`numbers`: which of all files the files of the question are."""
    made.entries += [entry._replace(file=numbers[entry.file]) for entry in reading.entries]
    made.counts += reading.counts
    made.older |= reading.older
    made.late |= reading.late
    made.speakers |= reading.speakers
    made.errors |= {files[numbers[n]].path: why for n, why in reading.errors.items()}
    made.clockless |= {files[numbers[n]].path for n in reading.clockless}


def chosen(ranks: str, reader: Reader) -> tuple[Container[int] | None, frozenset[int]]:
    """The numbers and pids that a selection picks; `` picks everybody, also who is no rank."""
    if not ranks:
        return None, frozenset()
    if not reader.ranks:
        return PickedNumbers(ranks), frozenset()
    picked = selection.pick(selection.parse(ranks), reader.ranks)
    numbers = frozenset(rank.number for rank in picked if rank.number is not None)
    return numbers, frozenset(rank.pid for rank in picked)


class PickedNumbers:
    """The numbers that a selection picks, where nobody has said which there are."""

    def __init__(self, text: str) -> None:
        self._selection = selection.parse(text)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and selection.matches(self._selection, as_rank(number))

    def check(self, numbers: Iterable[int]) -> None:
        """Raises SelectionError unless some of those who have written are meant."""
        selection.pick(self._selection, [as_rank(number) for number in numbers])


def as_rank(number: int) -> Rank:
    """Of logs alone, a rank's number is known and nothing else."""
    return Rank(ProcessKey("", number, 0), "", number)
