"""One investigation: a cluster, its roster, questions to its ranks, and what to save."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankdbg import mesh, wire
from rankdbg.clusters import Channel, Cluster, find_cluster
from rankdbg.errors import BadInput, ChooseJob, NodeFailed, NoJob, RankdbgError
from rankdbg.types import Answer, Frame, ProcessKey, Question, Rank, Silence, Stack

# What a node needs beyond the time that it was given: to write and carry the answer.
GRACE_SECONDS = 1.0


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


@dataclass(frozen=True)
class Sampled:
    """The stacks of one rank: each sample a list of threads."""

    rank: Rank
    samples: tuple[tuple[Stack, ...], ...]
    source: str  # "agent" or "py-spy"
    why: str = ""  # why not the agent

    def main(self) -> tuple[Stack, ...]:
        """The main thread in each sample in which it was seen."""
        return tuple(stack for sample in self.samples for stack in sample if stack.main)


class Session:
    """Close it, or use it in a with statement: it holds a process on every node."""

    def __init__(self, target: str = "local", timeout: float = 5.0) -> None:
        if not 0 < timeout < float("inf"):
            raise BadInput(f"--timeout must be a number of seconds above 0, not {timeout:g}")
        self.cluster: Cluster = find_cluster(target)
        self.timeout = timeout
        self._channels: dict[str, Channel | RankdbgError] = {}
        self._asked: dict[str, list[tuple[wire.Message, Any]]] = {}
        self._jobs: set[str] = set()  # those that were looked at; none: all

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for channel in self._channels.values():
            if not isinstance(channel, RankdbgError):
                channel.close()

    # --- who is there -----------------------------------------------------------------

    def roster(self, where: bool = True) -> Roster:
        """Everybody on every node. `where` also looks from outside where a rank cannot say."""
        message: wire.Message = {"ask": "roster", "where": where}
        roster = Roster([])
        errors: list[RankdbgError] = []
        nodes = self.cluster.nodes()
        for index, (node, answer) in enumerate(self._ask_nodes(dict.fromkeys(nodes, message))):
            if isinstance(answer, RankdbgError):
                roster.silent_nodes[node] = str(answer)
                errors.append(answer)
                continue
            with _understanding(node, "roster"):
                roster.notes += answer["notes"]
                roster.other_users += answer["other_users"]
                for entry in answer["processes"]:
                    rank = _rank(entry, node, index)
                    roster.processes.append(rank)
                    roster.ages[rank.process] = entry["age"]
        if roster.silent_nodes and not roster.processes:
            raise errors[0]
        return roster

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
            on_node = [rank for rank in ranks if rank.host == node]
            if isinstance(answer, RankdbgError):
                results.update({rank.process: Silence(rank, answer.what) for rank in on_node})
                continue
            with _understanding(node, question.kind):
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
        with_locals: bool = False,
    ) -> tuple[list[Sampled], list[Silence]]:
        question = Question(
            "stacks",
            {
                "threads": threads,
                "samples": samples,
                "interval": interval,
                "outside": outside,
                "locals": with_locals,
            },
        )
        seen: list[Sampled] = []
        known: dict[Frame, Frame] = {}
        silent: dict[ProcessKey, str] = {}
        by_key = {rank.process: rank for rank in ranks}
        extra = interval * (samples - 1)
        for node, answer in self._ask_ranks(question, ranks, extra):
            if isinstance(answer, RankdbgError):
                silent.update({r.process: answer.what for r in ranks if r.host == node})
                continue
            with _understanding(node, "stacks"):
                distinct = [
                    _threads(entry, threads, with_locals, known) for entry in answer["distinct"]
                ]
                for entry in answer["processes"]:
                    rank = by_key.get(ProcessKey(node, *entry["process"]))
                    if rank is not None:
                        chosen = tuple(distinct[index] for index in entry["samples"])
                        seen.append(Sampled(rank, chosen, entry["source"], entry["why"]))
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

    def stops(self, ranks: Sequence[Rank]) -> list[Answer | Silence]:
        """The stops of each rank, as a list of what it says about each."""
        return self.ask(Question("stops"), ranks)

    def command(
        self, ranks: Sequence[Rank], line: str | None, seconds: float | None = None
    ) -> list[Answer | Silence]:
        """One line for the debugger of each rank that is stopped; None waits for the last."""
        return self.ask(Question("command", {"line": line}), ranks, seconds)

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

    # --- saving -----------------------------------------------------------------------

    def collect_all(self, ranks: Sequence[Rank]) -> None:
        """Ask everything that a snapshot should be able to answer."""
        self.stacks(ranks, threads="all", samples=3, with_locals=True)
        self.ask(Question("environment"), ranks)

    def save(self, directory: str | Path) -> None:
        """Everything that was asked and answered in this session, to be opened again."""
        from rankdbg.clusters import snapshot

        asked = {
            node: [self._of_our_jobs(*pair) for pair in self._asked[node]] for node in self._asked
        }
        snapshot.save(Path(directory), self.cluster.target, asked)

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

        def ask(node: str) -> Any:
            try:
                channel = self._channel(node)
                message = {**messages[node], "timeout": seconds}
                return channel.ask(message, seconds + GRACE_SECONDS)
            except RankdbgError as error:
                return error

        answers = _in_parallel(ask, list(messages))
        for node, answer in zip(messages, answers, strict=True):
            if not isinstance(answer, RankdbgError):
                self._asked.setdefault(node, []).append((messages[node], answer))
            yield node, answer

    def _channel(self, node: str) -> Channel:
        if node not in self._channels:
            try:
                self._channels[node] = self.cluster.open(node)
            except RankdbgError as error:
                self._channels[node] = error
        channel = self._channels[node]
        if isinstance(channel, RankdbgError):
            raise channel
        return channel


def _in_parallel(work: Callable[[str], Any], items: list[str]) -> list[Any]:
    if len(items) < 2:
        return [work(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(64, len(items))) as pool:
        return list(pool.map(work, items))


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


@contextmanager
def _understanding(node: str, what: str) -> Iterator[None]:
    """What comes from elsewhere, or from a file, may be anything."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise NodeFailed(f"the answer of {node} about its {what} is damaged ({reason})") from None


# --- from the wire's messages to types ----------------------------------------------------


def _rank(entry: wire.Message, node: str, node_index: int) -> Rank:
    labels = entry["labels"]
    # A child inherits its rank's number, and is not that rank.
    number = entry["number"] if entry["kind"] == "rank" else None
    where = entry["where"]
    return Rank(
        process=ProcessKey(node, entry["pid"], entry["start"]),
        job=entry["job"],
        number=number,
        kind=entry["kind"],
        world=labels.get("world"),
        local_rank=labels.get("local_rank"),
        coordinates=_coordinates(labels, number, node_index) if number is not None else {},
        role=str(labels.get("role") or ""),
        state=entry["state"],
        detail=entry["detail"],
        where=Frame(*where) if where else None,
        agent=entry["agent"],
        command=tuple(entry["command"]),
        python=entry["python"],
    )


def _coordinates(labels: wire.Message, number: int | None, node_index: int) -> dict[str, int]:
    if labels.get("coordinates"):
        return dict(labels["coordinates"])
    if labels.get("mesh") and number is not None:
        return mesh.coordinates(number, labels["mesh"])
    if labels.get("local_rank") is not None:
        return {"hosts": labels.get("node_rank", node_index), "gpus": labels["local_rank"]}
    return {}


def _threads(
    entry: Any, threads: str, with_locals: bool, known: dict[Frame, Frame]
) -> tuple[Stack, ...]:
    """`known` keeps equal frames once: a job's stacks are the same few lines many times."""
    return tuple(
        Stack(
            thread["name"],
            thread["main"],
            tuple(known.setdefault(f, f) for f in (Frame(*frame) for frame in thread["frames"])),
            tuple(thread.get("locals", ())) if with_locals else (),
        )
        for thread in entry
        if threads == "all" or thread["main"]
    )
