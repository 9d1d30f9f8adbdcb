"""One investigation: a cluster, its roster, questions to its ranks, and what to save."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankdbg import wire
from rankdbg.answers import read_rank, read_sampled, read_threads, understanding
from rankdbg.clusters import NO_OPTIONS, Channel, Cluster, Options, Waiting, find_cluster
from rankdbg.errors import BadInput, ChooseJob, NoJob, RankdbgError
from rankdbg.log_answers import read_found
from rankdbg.logs.patterns import Hit, Pattern
from rankdbg.logs.places import FoundLogs
from rankdbg.path_maps import PathMaps
from rankdbg.streams import Stream
from rankdbg.types import Answer, Frame, ProcessKey, Question, Rank, Silence
from rankdbg.types import Sampled as Sampled

# What a node needs beyond the time that it was given: to write and carry the answer.
GRACE_SECONDS = 1.0
# Between two attempts to reach a node again.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# To try every way of looking, beyond --timeout.
CHECK_SECONDS = 15.0
# How stacks are read, and the seconds that a sample of eight ranks may need beyond --timeout.
ENGINES = {"agent": 0.0, "py-spy": 0.0, "native": 10.0, "gdb": 60.0, "cuda": 60.0}


@dataclass
class Roster:
    """All processes that were found, ranks and others."""

    processes: list[Rank]
    notes: list[str] = field(default_factory=list)
    other_users: list[str] = field(default_factory=list)
    silent_nodes: dict[str, str] = field(default_factory=dict)
    ages: dict[ProcessKey, float] = field(default_factory=dict)

    def jobs(self, everything: bool = False) -> dict[str, list[Rank]]:
        jobs: dict[str, list[Rank]] = defaultdict(list)
        for process in self.processes:
            if everything or process.kind == "rank":
                jobs[process.job].append(process)
        return dict(jobs)


class Session:
    """Close it, or use it in a with statement: it holds a process on every node."""

    def __init__(
        self,
        target: str | Sequence[str] = "local",
        timeout: float = 5.0,
        options: Options = NO_OPTIONS,
    ) -> None:
        if not 0 < timeout < float("inf"):
            raise BadInput(f"--timeout must be a number of seconds above 0, not {timeout:g}")
        targets = [target] if isinstance(target, str) else target
        self.cluster: Cluster = find_cluster(targets, options)
        self.timeout = timeout
        self.progress: Callable[[int, int], None] = lambda done, nodes: None
        self.maps = PathMaps()
        self.silent_nodes: dict[str, str] = {}  # why these are not in the last roster
        self.reopens = False  # a channel that has broken: a shell stays for longer
        self._retry_at: dict[str, tuple[float, float]] = {}  # node -> not before, next pause
        self._reached_again: set[str] = set()  # nodes that have not answered since they were lost
        self._channels: dict[str, Channel | RankdbgError] = {}
        self._opening = threading.Lock()  # a front end may have several threads
        self._asked: dict[str, list[tuple[wire.Message, Any]]] = {}
        self._jobs: set[str] = set()  # those that were looked at; none: all

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        channels = [c for c in self._channels.values() if not isinstance(c, RankdbgError)]
        for channel in channels:
            channel.hang_up()
        deadline = time.monotonic() + GRACE_SECONDS
        for channel in channels:
            channel.close(deadline)

    # --- who is there -----------------------------------------------------------------

    def roster(self, where: bool = True) -> Roster:
        """Everybody on every node. `where` also looks from outside where a rank cannot say."""
        message: wire.Message = {"ask": "roster", "where": where}
        roster = Roster([])
        errors: list[RankdbgError] = []
        # One machine may be reached by two names, and each of its processes is one rank.
        seen: dict[tuple[str, int, int], str] = {}
        nodes = self.cluster.nodes()
        for index, (node, answer) in enumerate(self._ask_nodes(dict.fromkeys(nodes, message))):
            if isinstance(answer, RankdbgError):
                roster.silent_nodes[node] = answer.in_one_line()
                errors.append(answer)
                continue
            with understanding(node, "roster"):
                roster.notes += answer["notes"]
                roster.other_users += answer["other_users"]
                for entry in answer["processes"]:
                    rank = read_rank(entry, node, index)
                    twin = answer.get("machine") or node, rank.pid, rank.process.start
                    if seen.setdefault(twin, node) == node:
                        roster.processes.append(rank)
                        roster.ages[rank.process] = entry["age"]
        if roster.silent_nodes and not roster.processes:
            raise errors[0]
        self.silent_nodes = roster.silent_nodes
        return roster

    def check(self) -> dict[str, dict[str, Any] | RankdbgError]:
        """What works on each node, or why it cannot be reached."""
        return self._of_nodes("check", lambda answer: answer["findings"], CHECK_SECONDS)

    def gpus(self) -> dict[str, dict[str, Any] | RankdbgError]:
        """What NVML says of the GPUs of each node: `gpus` (docs/reference/gpus.md), `driver`,
        and in words `why` some are not there and why no `pids` are."""

        def read(answer: Any) -> dict[str, Any]:
            texts = {key: str(answer[key]) for key in ("driver", "why", "pids")}
            return {"gpus": [dict(gpu) for gpu in answer["gpus"]], **texts}

        return self._of_nodes("gpus", read)

    def health(
        self, patterns: Sequence[Pattern], within: float, places: Sequence[str] = ()
    ) -> dict[str, dict[str, Any] | RankdbgError]:
        """Of each node its `disks`, `memory`, `processes` that cannot go on, and the `kernel`'s
        messages of the last `within` seconds that patterns know, or `why_no_kernel`;
        `own_pids`: whether these name processes by the numbers that they have there."""

        def read(answer: Any) -> dict[str, Any]:
            hits = [Hit(*hit[:6]) for hit in answer["kernel"]]
            return {**answer, "kernel": hits}

        asked = [pattern.as_json() for pattern in patterns]
        question: dict[str, Any] = {
            "patterns": asked,
            "within": within,
            "places": [*places],
        }
        return self._of_nodes("health", read, **question)

    def find_logs(self, paths: Sequence[str] = (), ended: bool = False) -> FoundLogs:
        """The log files of every node, each once: those of the jobs there, or these `paths`.
        `ended`: where no Ray runs, what its last cluster has left."""
        question = {"ask": "logs", "do": "find", "paths": [*paths], "ended": ended}
        question |= getattr(self.cluster, "log_question", dict)()
        return read_found(self.ask_each(dict.fromkeys(self.cluster.nodes(), question)))

    def ask_each(
        self, messages: dict[str, wire.Message], extra: float = 0.0
    ) -> Iterable[tuple[str, Any]]:
        """Each node its message, all at once; an error in place of an answer."""
        return self._ask_nodes(messages, extra)

    def _of_nodes(
        self, kind: str, read: Callable[[Any], dict[str, Any]], extra: float = 0.0, **more: Any
    ) -> dict[str, dict[str, Any] | RankdbgError]:
        """One question about each node itself."""
        found: dict[str, dict[str, Any] | RankdbgError] = {}
        questions: dict[str, wire.Message] = {
            node: {"ask": kind, **more} for node in self.cluster.nodes()
        }
        for node, answer in self._ask_nodes(questions, extra):
            if isinstance(answer, RankdbgError):
                found[node] = answer
                continue
            with understanding(node, kind):
                found[node] = read(answer)
        return found

    def job(self, name: str | None = None, where: bool = False) -> list[Rank]:
        """The ranks of the one job that is meant."""
        roster = self.roster(where)
        jobs = roster.jobs()
        check_job(roster, jobs, name)
        if name is None and len(jobs) > 1:
            raise ChooseJob(
                f"{len(jobs)} jobs run here: {', '.join(sorted(jobs))}",
                hint=f"choose one: --job {min(jobs)}",
            )
        chosen = name if name is not None else next(iter(jobs))
        self._jobs.add(chosen)
        return jobs[chosen]

    # --- questions --------------------------------------------------------------------

    def ask(
        self, question: Question, ranks: Sequence[Rank], seconds: float | None = None
    ) -> list[Answer | Silence]:
        """One question to these ranks. Each comes back, as an answer or as a silence."""
        extra = 0.0 if seconds is None else seconds - self.timeout
        results: dict[ProcessKey, Answer | Silence] = {}
        by_key = {rank.process: rank for rank in ranks}
        for node, answer in self._ask_ranks(question, ranks, extra):
            if isinstance(answer, RankdbgError):
                on_node = [rank for rank in ranks if rank.host == node]
                results.update({rank.process: Silence(rank, answer.what) for rank in on_node})
                continue
            with understanding(node, question.kind):
                for entry in answer["answers"]:
                    key = ProcessKey(node, *entry["process"])
                    if key in by_key:
                        results[key] = Answer(by_key[key], entry["value"])
                for entry in answer["silent"]:
                    key = ProcessKey(node, *entry["process"])
                    if key in by_key:
                        results[key] = Silence(by_key[key], entry["reason"])
        return [
            results.get(rank.process) or Silence(rank, "the node did not mention it")
            for rank in ranks
        ]

    def stacks(
        self,
        ranks: Sequence[Rank],
        *,
        threads: str = "main",
        samples: int = 1,
        interval: float = 0.25,
        outside: bool = False,
        engine: str = "agent",
        with_locals: bool = False,
    ) -> tuple[list[Sampled], list[Silence]]:
        """`engine`: one of ENGINES. All but `agent` look from outside; what stops a process to
        look leaves those alone that cannot take it, and py-spy looks at them instead.
        `outside` is short for `py-spy`."""
        if outside and engine == "agent":
            engine = "py-spy"
        question = Question(
            "stacks",
            {
                "threads": threads,
                "samples": samples,
                "interval": interval,
                "outside": engine != "agent",
                "engine": engine,
                "locals": with_locals,
            },
        )
        seen: list[Sampled] = []
        known: dict[Frame, Frame] = {}
        silent: dict[ProcessKey, str] = {}
        by_key = {rank.process: rank for rank in ranks}
        extra = (interval + ENGINES[engine] * (1 + len(ranks) / 8)) * samples
        for node, answer in self._ask_ranks(question, ranks, extra):
            if isinstance(answer, RankdbgError):
                silent.update({r.process: answer.what for r in ranks if r.host == node})
                continue
            with understanding(node, "stacks"):
                distinct = [
                    read_threads(entry, threads, with_locals, known) for entry in answer["distinct"]
                ]
                for entry in answer["processes"]:
                    rank = by_key.get(ProcessKey(node, *entry["process"]))
                    if rank is not None:
                        chosen = tuple(distinct[index] for index in entry["samples"])
                        seen.append(read_sampled(rank, chosen, entry))
                for entry in answer["silent"]:
                    silent[ProcessKey(node, *entry["process"])] = entry["reason"]
        sampled = {entry.rank.process: entry for entry in seen}
        missing = [rank for rank in ranks if rank.process not in sampled]
        return (
            [sampled[rank.process] for rank in ranks if rank.process in sampled],
            [Silence(rank, silent.get(rank.process, "it was not seen")) for rank in missing],
        )

    def evaluate(
        self,
        ranks: Sequence[Rank],
        expression: str,
        frame: int | str | None = None,
        thread: str | None = None,
    ) -> list[Answer | Silence]:
        arguments = {"expression": expression, "frame": frame, "thread": thread}
        return self.ask(Question("evaluate", arguments), ranks)

    def collectives(self, ranks: Sequence[Rank]) -> list[Answer | Silence]:
        """What the flight recorders in each rank hold, as dumps."""
        return self.ask(Question("collectives"), ranks)

    def vitals(self, ranks: Sequence[Rank]) -> list[Answer | Silence]:
        """What the kernel knows of each: state, waits, counters, children."""
        return self.ask(Question("vitals"), ranks)

    def stops(self, ranks: Sequence[Rank]) -> list[Answer | Silence]:
        """The stops of each rank, as a list of what it says about each."""
        return self.ask(Question("stops"), ranks)

    def command(
        self,
        ranks: Sequence[Rank],
        line: str | None,
        wait: float | None = None,
        without: Iterable[str] | None = None,
    ) -> list[Answer | Silence]:
        """One line for the debugger of each rank that is stopped; None waits for the last.
        `wait`: for what it says, until it is told to be running (None: for as long as one waits
        for a rank).

        A rank that would have to show text of a file it lacks holds the line back, unless
        the caller is `without` that file too (None: without any).
        """
        arguments: dict[str, Any] = {"line": line, "wait": wait}
        if without is not None:
            arguments["without"] = sorted(without)
        return self.ask(Question("command", arguments), ranks, max(self.timeout, 2 * (wait or 0.0)))

    def source_digests(self, ranks: Sequence[Rank], file: str) -> list[Answer | Silence]:
        """Of a file of code as it is on the disk of each."""
        return self.ask(Question("source", {"do": "digest", "file": file}), ranks)

    def read_source(self, ranks: Sequence[Rank], file: str) -> list[Answer | Silence]:
        """The text of a file of code, from those who have it: on disk, or in a notebook."""
        return self.ask(Question("source", {"do": "read", "file": file}), ranks)

    def give_source(self, ranks: Sequence[Rank], file: str, text: str) -> list[Answer | Silence]:
        """A copy, to be shown at stops where there is none."""
        return self.ask(Question("source", {"do": "give", "file": file, "text": text}), ranks)

    def pause(self, ranks: Sequence[Rank], cancel: bool = False) -> list[Answer | Silence]:
        """Stop the main thread of each where it is; or, before it has stopped, no longer."""
        return self.ask(Question("pause", {"cancel": cancel}), ranks)

    def set_break(
        self, ranks: Sequence[Rank], file: str, line: int, condition: str = "", log: str = ""
    ) -> list[Answer | Silence]:
        """Stop, or log, at a line of a running program."""
        place = {"file": file, "line": line}
        arguments = {"do": "set", **place, "condition": condition, "log": log}
        return self.ask(Question("break", arguments), ranks)

    def clear_breaks(
        self, ranks: Sequence[Rank], file: str | None = None, line: int | None = None
    ) -> list[Answer | Silence]:
        """One, or all."""
        return self.ask(Question("break", {"do": "clear", "file": file, "line": line}), ranks)

    def breaks(self, ranks: Sequence[Rank]) -> list[Answer | Silence]:
        return self.ask(Question("break", {"do": "list"}), ranks)

    def hold_timeouts(self, ranks: Sequence[Rank], job: str) -> list[Answer | Silence]:
        """Until released or closed, the process groups of this job wait long, also in ranks
        that start later. Answers name the operations that keep the limits that they had."""
        return self.ask(Question("hold", {"job": job}), ranks)

    def release_timeouts(self, ranks: Sequence[Rank]) -> None:
        """Every group has its own timeout again."""
        self.ask(Question("hold", {"end": True}), ranks)

    # --- single nodes -----------------------------------------------------------------

    def ask_node(self, node: str, message: wire.Message, seconds: float) -> Any:
        return self._channel(node).begin({**message, "timeout": seconds}).answer(seconds)

    def open_stream(self, node: str, where: wire.Message, seconds: float) -> tuple[Stream, Any]:
        """Bytes to and from a rank's debugger (`process`) or a port of the node's (`port`)."""
        waiting = self._channel(node).begin({"ask": "stream", "timeout": seconds, **where})
        return waiting.open_stream(seconds + GRACE_SECONDS)

    # --- saving -----------------------------------------------------------------------

    def collect_all(self, ranks: Sequence[Rank]) -> None:
        """Ask everything that a snapshot should be able to answer."""
        self.vitals(ranks)
        self.stacks(ranks, threads="all", samples=3, with_locals=True)
        self.vitals(ranks)
        self.ask(Question("environment"), ranks)
        self.collectives(ranks)
        self.gpus()

    def save(self, directory: str | Path) -> None:
        """Everything that was asked and answered in this session, to be opened again."""
        from rankdbg.clusters import snapshot

        asked = {
            node: [self._of_our_jobs(*pair) for pair in self._asked[node]] for node in self._asked
        }
        snapshot.save(Path(directory), self.cluster.target, asked)

    def forget(self) -> None:
        """What was asked so far is not saved: who watches for a night asks a great deal."""
        self._asked.clear()

    def _of_our_jobs(self, question: wire.Message, answer: Any) -> tuple[wire.Message, Any]:
        """Other jobs on the same machines are nobody's business who gets the snapshot."""
        if question["ask"] != "roster" or not self._jobs:
            return question, answer
        ours = [entry for entry in answer["processes"] if entry["job"] in self._jobs]
        return question, {**answer, "processes": ours, "notes": [], "other_users": []}

    # --- nodes ------------------------------------------------------------------------

    def _ask_ranks(
        self, question: Question, ranks: Sequence[Rank], extra: float = 0.0
    ) -> Iterable[tuple[str, Any]]:
        processes: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for rank in ranks:
            processes[rank.host].append((rank.pid, rank.process.start))
        messages = {
            node: {"ask": question.kind, **question.arguments, "processes": keys}
            for node, keys in processes.items()
        }
        return self._ask_nodes(messages, extra)

    def _ask_nodes(
        self, messages: dict[str, wire.Message], extra: float = 0.0
    ) -> Iterable[tuple[str, Any]]:
        """Each node its message, all at once; an error in place of an answer."""
        seconds = self.timeout + extra
        patience = seconds + GRACE_SECONDS

        begun: dict[str, Waiting | RankdbgError] = {}
        for node, message in messages.items():
            try:
                begun[node] = self._channel(node).begin({**message, "timeout": seconds})
            except RankdbgError as error:
                begun[node] = error
        reached_again = self._reached_again & messages.keys()
        # They are not waited for any longer than the others, if there are others.
        reach = patience if len(reached_again) < len(messages) else None
        for done, (node, waiting) in enumerate(begun.items()):
            self.progress(done, len(begun))
            try:
                if isinstance(waiting, RankdbgError):
                    raise waiting
                answer = waiting.answer(patience, reach if node in reached_again else None)
            except RankdbgError as error:
                answer = error
            if not isinstance(answer, RankdbgError):
                self._reached_again.discard(node)
                self._asked.setdefault(node, []).append((messages[node], answer))
            yield node, answer
        self.progress(len(begun), len(begun))

    def _channel(self, node: str) -> Channel:
        with self._opening:
            return self._open_channel(node)

    def _open_channel(self, node: str) -> Channel:
        known = self._channels.get(node)
        broken = isinstance(known, RankdbgError) or (known is not None and not known.usable)
        if known is None or (broken and self.reopens and self._may_retry(node)):
            if known is not None and not isinstance(known, RankdbgError):
                known.close(time.monotonic())  # its launcher may be stuck, and still there
            try:
                self._channels[node] = self.cluster.open(node)
            except RankdbgError as error:
                self._channels[node] = error
        channel = self._channels[node]
        if isinstance(channel, RankdbgError):
            raise channel
        return channel

    def _may_retry(self, node: str) -> bool:
        """With growing pauses: a node that is down is not helped by being called all the time."""
        now = time.monotonic()
        not_before, pause = self._retry_at.get(node, (now, SHORTEST_PAUSE))
        if now < not_before:
            return False
        if now > not_before + LONGEST_PAUSE:
            pause = SHORTEST_PAUSE  # it has been well for a while
        self._retry_at[node] = now + pause, min(2 * pause, LONGEST_PAUSE)
        self._reached_again.add(node)
        return True


def check_job(roster: Roster, jobs: dict[str, list[Rank]], name: str | None) -> None:
    """Raise NoJob, with what there is instead, unless there is such a job."""
    if name is not None and jobs and name not in jobs:
        raise NoJob(f"no job {name!r}", f"there are: {', '.join(sorted(jobs))}")
    if jobs:
        return
    why = [f"{user} has jobs here; they are not yours to look into" for user in roster.other_users]
    why += [f"{node}: {reason}" for node, reason in roster.silent_nodes.items()]
    hint = "start one: rankdbg run -- COMMAND   (or try: rankdbg demo)"
    if roster.other_users:
        hint = f"look as that user: sudo -u {roster.other_users[0]} rankdbg ps"
    raise NoJob("no job is running here", *why, *roster.notes, hint=hint)
