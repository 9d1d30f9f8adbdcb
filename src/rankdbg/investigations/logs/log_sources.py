"""Log files as one source, wherever they are: given files, files on the nodes of a job, files that
were fetched.

They can be searched for patterns (`scan`), and read for messages (`read`, `read_new`). Both can be
repeated, and then read only what is new. The same code does that here and on a node
(node/logs/); a node sends what it has found.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rankdbg.errors import NoJob, NoLogs, RankdbgError
from rankdbg.investigations.logs.given_logs import GivenFiles
from rankdbg.investigations.logs.job_files import JobFiles, JobState
from rankdbg.logs.entries import Entry, LogQuery, RankProcess, Reading
from rankdbg.logs.expressions import SlowExpression
from rankdbg.logs.following import read_new
from rankdbg.logs.growing import Addition, FileHits
from rankdbg.logs.patterns import FileScan, Pattern
from rankdbg.logs.places import LogFile
from rankdbg.logs.positions import Position
from rankdbg.logs.reading import read
from rankdbg.node.logs.log_reading import masked
from rankdbg.node.logs.log_scan import scan_files
from rankdbg.session import Session
from rankdbg.session.asking import understanding
from rankdbg.types import Rank
from rankdbg.verdicts.failures import ray_lines
from rankdbg.verdicts.failures.log_lines import CLOCK
from rankdbg.wire.node_questions import ReadLogs, ReadNewLogs, ScanLogs
from rankdbg.wire.questions import Question

# Slowly read, without the literals' automaton on a node; and as long as we wait at most.
BYTES_A_SECOND = 5e6
LONGEST_SECONDS = 600.0
# Until a user's expression that does not end is known to be one, on a machine with much to do.
FOREIGN_SECONDS = 30.0
# Time to read messages, in addition to --timeout: the whole logs for --diff.
READ_SECONDS, KINDS_SECONDS = 20.0, 120.0
_HERE = ""  # instead of a node: files on this machine


class Finder(Protocol):
    """Which files there are, and whose: `GivenFiles`, `JobFiles`."""

    find_every: float  # seconds

    @property
    def session(self) -> Session | None:
        """None if there are only files."""

    @property
    def state(self) -> JobState | None: ...

    @property
    def files(self) -> list[LogFile]:
        """Grows; a file keeps its place in it."""

    def find(self) -> None:
        """Raises NoLogs or NoJob if there are none."""

    def complete(self, scans: list[tuple[LogFile, FileScan]]) -> list[FileScan]:
        """With what is known about the files."""


@dataclass
class Messages:
    """Messages of all files, oldest first."""

    entries: list[Entry] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # of kinds of messages
    older: bool = False
    late: bool = False
    errors: dict[str, str] = field(
        default_factory=dict
    )  # files and nodes that could not be read, and why
    clockless: set[str] = field(default_factory=set)
    speakers: set[tuple[int | None, str]] = field(default_factory=set)


class Rules:
    """The patterns as they are sent, with a name by which a node knows them."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        asked = [pattern.as_json() for pattern in [*patterns, *ray_lines.PATTERNS]]
        self.content: dict[str, Any] = {"patterns": asked, "clock": CLOCK}
        text = json.dumps(self.content, sort_keys=True).encode()
        self.name = hashlib.sha1(text, usedforsecurity=False).hexdigest()


class LogSource:
    def __init__(self, finder: Finder, patterns: Sequence[Pattern] = ()) -> None:
        self._finder = finder
        self._rules = Rules(patterns)
        self._foreign = any(pattern.foreign for pattern in patterns)
        self._found_at = float("-inf")
        self._memories: dict[int, FileHits] = {}  # what was found, by the number of the file
        self._positions: dict[int, Position] = {}  # up to where messages were read
        self._told: set[str] = set()  # nodes that know the rules

    @property
    def files(self) -> list[LogFile]:
        return self._finder.files

    @property
    def session(self) -> Session | None:
        """None if there are only files."""
        return self._finder.session

    @property
    def state(self) -> JobState | None:
        """None if there are only files."""
        return self._finder.state

    @property
    def ranks(self) -> Sequence[Rank]:
        return self.state.ranks if self.state is not None else ()

    def find(self) -> None:
        """Find the files and the ranks. Raises NoLogs or NoJob if there are none."""
        self._finder.find()
        self._found_at = time.monotonic()

    def _is_time_to_find(self) -> bool:
        return time.monotonic() - self._found_at >= self._finder.find_every

    def _numbers(self) -> dict[str, list[int]]:
        """The files, by where they are read."""
        numbers: dict[str, list[int]] = {}
        for number, file in enumerate(self.files):
            numbers.setdefault(_HERE if file.kind == "pod" else file.node, []).append(number)
        return numbers

    def _ask_nodes(
        self, questions: Mapping[str, Question[Any]], extra: float
    ) -> Sequence[tuple[str, Any]]:
        session = self._finder.session
        return [*session.ask_each(questions, extra)] if session is not None and questions else ()

    # --- what patterns find -------------------------------------------------------------

    def scan(self) -> list[FileScan]:
        """Read new content; all that was found so far. Raises RankdbgError if there is nothing to
        read."""
        if self._is_time_to_find():
            self.find()
        numbers = self._numbers()
        here = numbers.pop(_HERE, [])
        rules = self._rules
        found = scan_files(rules.name, rules.content, self._jobs(here), share_of_cores=1.0)
        self._remember(here, found)
        if forgetful := self._scan_on_nodes(numbers):
            self._told -= forgetful
            self._scan_on_nodes({node: numbers[node] for node in forgetful})
        return self.scans()

    def scans(self) -> list[FileScan]:
        """All that was found so far."""
        return self._finder.complete(
            [
                (file, scan)
                for number, file in enumerate(self.files)
                for scan in self._memory(number).scans()
            ]
        )

    def _memory(self, number: int) -> FileHits:
        return self._memories.setdefault(number, FileHits())

    def _jobs(self, numbers: Sequence[int]) -> list[tuple[str, Position | None]]:
        """What to open, and where to go on."""
        jobs = {self.files[number].place: self._memory(number).position for number in numbers}
        return [*jobs.items()]

    def _remember(self, numbers: Sequence[int], found: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """`found`: places, and what was added there."""
        at: dict[str, list[int]] = {}
        for number in numbers:
            at.setdefault(self.files[number].place, []).append(number)
        for place, additions in found:
            for number in at.get(place, ()):
                self._memory(number).add([Addition.from_json(entry) for entry in additions])

    def _scan_on_nodes(self, numbers: Mapping[str, Sequence[int]]) -> set[str]:
        """Returns the nodes that do not have the rules, because the node process is a new one."""
        state, forgetful = self.state, set[str]()
        questions = {node: self._scan_question(node, numbers[node]) for node in numbers}
        for node, answer in self._ask_nodes(questions, self._patience(numbers)):
            assert state is not None
            if isinstance(answer, RankdbgError):
                state.silent_nodes[node] = answer.in_one_line()
                self._told.discard(node)
            elif answer.unknown is not None:
                forgetful.add(node)
            else:
                state.silent_nodes.pop(node, None)
                self._told.add(node)
                with understanding(node, "logs"):
                    self._remember(numbers[node], answer.files)
        return forgetful

    def _scan_question(self, node: str, numbers: Sequence[int]) -> ScanLogs:
        content = {} if node in self._told else self._rules.content
        return ScanLogs(rules=self._rules.name, places=self._jobs(numbers), **content)

    def _patience(self, numbers: Mapping[str, Sequence[int]]) -> float:
        """The time limit for the node with the most new content."""
        new = [sum(map(self._new_bytes, of_node)) for of_node in numbers.values()]
        least = FOREIGN_SECONDS if self._foreign else 2.0
        return min(LONGEST_SECONDS, least + max(new, default=0) / BYTES_A_SECOND)

    def _new_bytes(self, number: int) -> int:
        position = self._memory(number).position
        return max(0, self.files[number].size - (position.size if position else 0))

    # --- messages -----------------------------------------------------------------------

    def latest(self) -> float:
        """The time from which `10m` is counted. Of files alone, that of the last message: the logs
        may be old."""
        if self.state is not None:
            return time.time()
        last = self.read(LogQuery(limit=1)).entries
        return last[0].order if last else time.time()

    def read(self, wanted: LogQuery) -> Messages:
        """The last messages."""
        made = self._ask(wanted, "read", KINDS_SECONDS if wanted.kinds else READ_SECONDS)
        order = sorted(range(len(made.entries)), key=lambda place: made.entries[place].order)
        made.entries = [made.entries[place] for place in order]
        made.counts = [made.counts[place] for place in order] if wanted.kinds else []
        if not wanted.kinds and len(made.entries) > wanted.limit:
            made.older = True
            del made.entries[: -wanted.limit]
        return made

    def read_new(self, wanted: LogQuery) -> Messages:
        """Those that have been written since."""
        if self._is_time_to_find():
            with suppress(NoLogs, NoJob):  # the job may have ended
                self.find()
        if self._finder.session is not None:
            self._finder.session.forget()
        made = self._ask(wanted, "new", READ_SECONDS if wanted.grep else 0.0)
        made.entries.sort(key=lambda entry: entry.order)
        return made

    def _ask(self, wanted: LogQuery, do: str, extra: float) -> Messages:
        known = [RankProcess(r.host, r.pid, r.number, r.role) for r in self.ranks]
        wanted = replace(wanted, known=known)
        made = Messages(errors={file.path: file.error for file in self.files if file.error})
        numbers = self._numbers()
        if here := numbers.pop(_HERE, None):
            self._add(made, self._read_here(wanted, do, extra, here), here, wanted)
        questions = {node: self._question(wanted, do, numbers[node]) for node in numbers}
        for node, answer in self._ask_nodes(questions, extra):
            if isinstance(answer, RankdbgError):
                made.errors[node] = answer.in_one_line()
                continue
            with understanding(node, "logs"):
                reading = Reading.from_json(answer)
            self._add(made, reading, numbers[node], wanted)
        return made

    def _question(self, wanted: LogQuery, do: str, numbers: Sequence[int]) -> ReadLogs:
        there = replace(wanted, files=[self.files[number] for number in numbers]).as_json()
        positions = [[n, *position] for n, position in self._positions_of(numbers).items()]
        kind = ReadNewLogs if do == "new" else ReadLogs
        return kind(wanted=there, positions=positions)

    def _read_here(
        self, wanted: LogQuery, do: str, extra: float, numbers: Sequence[int]
    ) -> Reading:
        wanted = replace(wanted, files=[self.files[number] for number in numbers])
        if do == "new":
            return masked(read_new(wanted, self._positions_of(numbers)))
        return masked(read(wanted, time.monotonic() + extra))

    def _positions_of(self, numbers: Sequence[int]) -> dict[int, Position]:
        """By the place among the files of the question."""
        known = self._positions
        return {place: known[number] for place, number in enumerate(numbers) if number in known}

    def _add(
        self, made: Messages, reading: Reading, numbers: Sequence[int], wanted: LogQuery
    ) -> None:
        """`numbers`: of the question's files among all files."""
        if reading.slow:
            raise SlowExpression("--grep", wanted.grep)
        paths = [self.files[number].path for number in numbers]
        self._positions |= {numbers[place]: at for place, at in reading.positions.items()}
        made.entries += [entry._replace(file=numbers[entry.file]) for entry in reading.entries]
        made.counts += reading.counts
        made.older |= reading.older
        made.late |= reading.late
        made.speakers |= reading.speakers
        made.errors |= {paths[place]: why for place, why in reading.errors.items()}
        made.clockless |= {paths[place] for place in reading.clockless}


def given_logs(paths: Sequence[str], patterns: Sequence[Pattern] = ()) -> LogSource:
    """Local files and directories."""
    return LogSource(GivenFiles(paths), patterns)


def job_logs(
    session: Session,
    patterns: Sequence[Pattern] = (),
    job: str | None = None,
    paths: Sequence[str] = (),
    around: bool = False,
) -> LogSource:
    """The logs of a job, or these paths, on its nodes. `around`: also node health."""
    finder = JobFiles(session, job, paths, around=patterns if around else ())
    return LogSource(finder, patterns)


def job_messages(
    session: Session, job: str | None, paths: Sequence[str] = (), everything: bool = False
) -> LogSource:
    """The same to read messages of. `everything`: also what Ray itself writes."""
    source = LogSource(JobFiles(session, job, paths, without_rays_own=not everything, verb="logs"))
    source.find()
    return source
