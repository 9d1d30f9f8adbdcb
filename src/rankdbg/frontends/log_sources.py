"""Where logs are read from: paths that were given, or the nodes of a job.

A source is read as often as its user likes, and reads only what is new. `scans()` is what was
found in each file so far.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rankdbg import wire
from rankdbg.answers import understanding
from rankdbg.errors import BadInput, NodeFailed, NoJob, NoLogs, RankdbgError
from rankdbg.frontends.surroundings import Told, kernel_scans, look_around, while_written
from rankdbg.logs.files import find_logs
from rankdbg.logs.growing import Addition, Memory
from rankdbg.logs.patterns import FileScan, Hit, Pattern
from rankdbg.logs.places import RAY, FoundLogs, LogFile
from rankdbg.node.log_scan import scan_files
from rankdbg.session import Roster, Session, check_job
from rankdbg.types import Rank
from rankdbg.verdicts import ray_lines
from rankdbg.verdicts.log_lines import CLOCK, read_stamp, year_of

# Slowly read, without the literals' automaton on a node; and as long as we wait at most.
BYTES_A_SECOND = 5e6
LONGEST_SECONDS = 600.0
DAY = 86400.0
AT_START = 2.0  # seconds by which a kernel and /proc may differ
# New files come when ranks come: they need not be looked for at every turn.
FIND_EVERY = 10.0
# What a job's log holds from before its start is of an earlier run. What started it may have
# written too; and the clocks of nodes differ, but not so that another job's failure is ours.
EARLIER_SECONDS = 120.0
SKEW_SECONDS = 0.5  # beyond the difference that their clocks show


@dataclass
class JobState:
    """Who is there, as far as a source can tell."""

    job: str = ""
    running: bool = False
    ranks: list[Rank] = field(default_factory=list)
    nodes: int = 0
    silent_nodes: dict[str, str] = field(default_factory=dict)  # and why
    notes: list[str] = field(default_factory=list)
    # How the nodes do, where that was asked for.
    health: Told = field(default_factory=dict)
    gpus: Told = field(default_factory=dict)


class Source(Protocol):
    @property
    def state(self) -> JobState | None:
        """None: nobody was asked, there are only files."""

    def read(self) -> None:
        """What is new. Raises RankdbgError if there is nothing to read from."""

    def scans(self) -> list[FileScan]: ...


class Rules:
    """What is looked for, as it travels, with a name that a node knows it by."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        asked = [pattern.as_json() for pattern in [*patterns, *ray_lines.PATTERNS]]
        self.content = {"patterns": asked, "clock": CLOCK}
        text = json.dumps(self.content, sort_keys=True).encode()
        self.name = hashlib.sha1(text, usedforsecurity=False).hexdigest()


class GivenLogs:
    """Files and directories on this machine."""

    state = None

    def __init__(self, paths: Sequence[str], patterns: Sequence[Pattern]) -> None:
        for path in paths:
            if not os.path.exists(path):
                raise BadInput(
                    f"no file or directory {path or repr(path)}",
                    hint="ls " + (os.path.dirname(path) or "."),
                )
        self._paths = paths
        self._rules = Rules(patterns)
        self._memories: dict[str, Memory] = {}

    def read(self) -> None:
        for path in find_logs(self._paths):
            self._memories.setdefault(path, Memory())
        if not self._memories:
            raise NoLogs(f"no log files in {', '.join(self._paths)}")
        jobs = [(path, memory.position) for path, memory in self._memories.items()]
        for path, additions in scan_files(self._rules.name, self._rules.content, jobs):
            self._memories[path].add([Addition.from_json(entry) for entry in additions])

    def scans(self) -> list[FileScan]:
        return [scan for memory in self._memories.values() for scan in memory.scans()]


class NodeLogs:
    """The logs of a job, on all its nodes, scanned where they lie."""

    def __init__(
        self,
        session: Session,
        patterns: Sequence[Pattern],
        job: str | None = None,
        paths: Sequence[str] = (),
        around: bool = False,  # also how the nodes do, and what their kernels say
    ) -> None:
        self._session = session
        self._patterns = patterns
        self._around = around
        self._rules = Rules(patterns)
        self._job = job
        self._paths = paths
        self._found = FoundLogs()
        self._found_at = float("-inf")
        self._memories: dict[tuple[str, str], Memory] = {}  # by node and path
        self._files: dict[tuple[str, str], LogFile] = {}
        self._told: set[str] = set()  # nodes that know the rules
        self._since: float | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # for what is fetched
        self.state = JobState()

    def read(self) -> None:
        if time.monotonic() - self._found_at >= FIND_EVERY:
            self.find()
        self._scan()

    @property
    def files(self) -> list[LogFile]:
        return [*self._files.values()]

    # --- which files --------------------------------------------------------------------

    def find(self) -> None:
        """Which files there are, and who is there. Raises NoLogs or NoJob if there are none."""
        self._session.forget()
        fetched = [] if self._paths else self._fetch()
        roster = self._roster(anyhow=bool(fetched))
        self._found = self._session.find_logs(self._paths, ended=not roster.jobs())
        self._found.files += _of_their_ranks(fetched, roster)
        self._found_at = time.monotonic()
        self._choose_job(roster)
        self.state.nodes = len(self._found.clocks) + len(self._found.silent_nodes)
        self.state.silent_nodes = {**roster.silent_nodes, **self._found.silent_nodes}
        self.state.notes = self._found.notes
        wanted = self._found if self._paths else self._found.of_job(self.state.job)
        self._add(wanted.files)
        if not self._files:
            raise self._nothing(roster)
        if self._around:
            self._look_around()

    def _look_around(self) -> None:
        clocks, within = self._found.clocks.values(), DAY
        if self._since is not None and clocks:
            within = max(clocks) - self._since + AT_START
        folders = {os.path.dirname(file.path) for file in self._files.values()}
        told = look_around(self._session, self._patterns, within, sorted(folders))
        self.state.health, self.state.gpus = told

    def _add(self, found: Sequence[LogFile]) -> None:
        """A file that was renamed is the one that it was. Where its old name is another file's
        now, what it held was read when that was noticed (logs/growing.py)."""
        before = {(file.node, file.identity): key for key, file in self._files.items()}
        there = {(file.node, file.path) for file in found}
        for file in found:
            key = file.node, file.path
            old = before.get((file.node, file.identity), key) if file.identity else key
            if old != key and old in there:
                continue
            if old != key:
                place = self._files.pop(old).place
                memory = self._memories.pop((file.node, place), None)
                if memory is not None:
                    self._memories[file.node, file.place] = memory
            self._files[key] = file

    def _fetch(self) -> list[LogFile]:
        """What lies on no node: the output of containers."""
        fetch = getattr(self._session.cluster, "fetch_logs", None)
        if fetch is None:
            return []
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rankdbg-logs-")
        files: list[LogFile] = fetch(self._folder.name)
        return files

    def _roster(self, anyhow: bool) -> Roster:
        try:
            return self._session.roster(where=False)
        except NodeFailed:
            if not self._files and not anyhow:
                raise
            return Roster([])

    def _choose_job(self, roster: Roster) -> None:
        jobs = roster.jobs()
        state = self.state
        if self._job is not None and self._job in {file.job for file in self._found.files}:
            state.job = self._job
        elif jobs and not self._paths and not state.job:
            check_job(roster, jobs, self._job)
            state.job = self._the_one(jobs)
        elif not state.job:
            latest = max(
                (file for file in self._found.files if file.job not in ("", RAY)),
                key=lambda file: file.modified,
                default=None,
            )
            state.job = self._job or (latest.job if latest else RAY)
        state.ranks = jobs.get(state.job, state.ranks)
        state.running = any(
            rank.state not in ("gone", "zombie") for rank in jobs.get(state.job, ())
        )
        ages = [roster.ages[p.process] for p in roster.processes if p.job == state.job]
        clocks = self._found.clocks.values()
        if ages and clocks and self._since is None:
            self._since = max(clocks) - max(ages)

    def _the_one(self, jobs: dict[str, list[Rank]]) -> str:
        if self._job is not None:
            return self._job
        if len(jobs) > 1:
            self._session.job(None)  # says which there are
        return next(iter(jobs))

    def _nothing(self, roster: Roster) -> RankdbgError:
        if self._paths:
            return NoLogs(f"no node has log files in {', '.join(self._paths)}")
        why = [
            f"{node}: {reason.removeprefix(f'{node}: ')}"
            for node, reason in self.state.silent_nodes.items()
        ]
        if self.state.running:
            usual = "its output goes to a terminal, to /dev/null, or into a pipe of another user's"
            return NoLogs(
                f"job {self.state.job} runs, and no log file of it was found",
                *(why or [usual]),
                hint="rankdbg why   (or name the files: rankdbg doctor PATH)",
            )
        nobody = "no job is running here, and none has left logs where rankdbg knows to look"
        return NoJob(
            f"{nobody}: none called {self._job!r}" if self._job else nobody,
            *why,
            *roster.notes,
            hint="name them: rankdbg doctor PATH",
        )

    # --- what is in them ----------------------------------------------------------------

    def _scan(self) -> None:
        by_node: dict[str, list[LogFile]] = {}
        here: list[LogFile] = []
        for file in self._files.values():
            (here if file.kind == "pod" else by_node.setdefault(file.node, [])).append(file)
        jobs = [(file.place, self._memory(file.node, file.place).position) for file in here]
        nodes = {file.place: file.node for file in here}
        for place, additions in scan_files(self._rules.name, self._rules.content, jobs):
            memory = self._memory(nodes[place], place)
            memory.add([Addition.from_json(entry) for entry in additions])
        again = self._ask(by_node)
        if again:
            self._told -= again
            self._ask({node: by_node[node] for node in again})

    def _ask(self, by_node: dict[str, list[LogFile]]) -> set[str]:
        """The nodes that do not know the rules: another process is there than before."""
        messages = {node: self._message(node, files) for node, files in by_node.items()}
        forgetful: set[str] = set()
        for node, answer in self._session.ask_each(messages, self._patience(by_node)):
            if isinstance(answer, RankdbgError):
                self.state.silent_nodes[node] = answer.in_one_line()
                self._told.discard(node)
            elif "unknown" in answer:
                forgetful.add(node)
            else:
                self.state.silent_nodes.pop(node, None)
                self._told.add(node)
                self._remember(node, answer)
        return forgetful

    def _message(self, node: str, files: Iterable[LogFile]) -> wire.Message:
        pairs = []
        for file in files:
            position = self._memory(node, file.place).position
            pairs.append([file.place, position.as_json() if position else None])
        message = {"ask": "logs", "do": "scan", "rules": self._rules.name, "places": pairs}
        return message if node in self._told else {**message, **self._rules.content}

    def _memory(self, node: str, place: str) -> Memory:
        return self._memories.setdefault((node, place), Memory())

    def _patience(self, by_node: dict[str, list[LogFile]]) -> float:
        """For the node with the most that is new."""
        new = [
            sum(
                max(0, file.size - (position.size if position else 0))
                for file in files
                for position in [self._memory(node, file.place).position]
            )
            for node, files in by_node.items()
        ]
        return min(LONGEST_SECONDS, 2.0 + max(new, default=0) / BYTES_A_SECOND)

    def _remember(self, node: str, answer: Any) -> None:
        with understanding(node, "logs"):
            for place, additions in answer["files"]:
                self._memory(node, place).add([Addition.from_json(entry) for entry in additions])

    def _skew(self) -> float:
        clocks = self._found.clocks.values()
        return SKEW_SECONDS + (max(clocks) - min(clocks) if clocks else 0.0)

    def scans(self) -> list[FileScan]:
        several = len(self._found.clocks) > 1
        elapsed = time.monotonic() - self._found_at
        made = []
        for (node, _), file in self._files.items():
            clock = self._found.clocks.get(node)
            now = clock + elapsed if clock is not None and self.state.running else None
            path = f"{node}:{file.path}" if several else file.path
            for scan in self._memory(node, file.place).scans():
                error = scan.error or file.error
                made.append(replace(scan, path=path, file=file, now=now, error=error))
        jobs = ray_lines.Jobs(self._found.files)
        made = _of_this_run(made, self._since, self._skew(), self.state.job, jobs)
        kernels = kernel_scans(self.state.health, self.state.ranks)
        return made + [while_written(kernel, made, EARLIER_SECONDS) for kernel in kernels]


def _of_their_ranks(fetched: Iterable[LogFile], roster: Roster) -> list[LogFile]:
    """With the ranks that are in the container."""
    ranks: dict[str, list[int]] = {}
    for rank in roster.processes:
        if rank.number is not None:
            ranks.setdefault(rank.host, []).append(rank.number)
    return [replace(file, ranks=tuple(sorted(ranks.get(file.node, ())))) for file in fetched]


def _of_this_run(
    scans: list[FileScan], since: float | None, skew: float, job: str, jobs: ray_lines.Jobs
) -> list[FileScan]:
    """Without the lines of earlier runs, where a log is appended to, and of other jobs, where all
    share one."""
    year = year_of(scans)

    def is_wanted(hit: Hit, shared: bool) -> bool:
        if shared and jobs.is_of_another(hit, job):
            return False
        when = read_stamp(hit.stamp, year) if since is not None and hit.stamp else None
        slack = skew if shared else EARLIER_SECONDS
        return when is None or since is None or when >= since - slack

    made = []
    for scan in scans:
        shared = scan.file is not None and scan.file.job == RAY
        hits = tuple(hit for hit in scan.hits if is_wanted(hit, shared))
        made.append(replace(scan, hits=hits))
    return made
