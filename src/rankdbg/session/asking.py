"""Typed questions to nodes and ranks: sent, decoded, and accounted for where none came back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rankdbg import wire
from rankdbg.clusters import NO_OPTIONS, Options
from rankdbg.errors import ChooseJob, NodeFailed, RankdbgError
from rankdbg.session.connections import Connections
from rankdbg.session.path_maps import PathMaps
from rankdbg.session.roster import Roster, check_job, known_as, no_rank_seen
from rankdbg.session.warm_rosters import WarmRosters
from rankdbg.types import Answer, ProcessKey, Rank, Reply, Silence, State
from rankdbg.wire.answers import OfRanks, StopReports
from rankdbg.wire.decoding import BadField, decode
from rankdbg.wire.node_questions import ListProcesses
from rankdbg.wire.questions import ListStops, Question, RankQuestion
from rankdbg.wire.table import CheckedAnswer, answer_type

if TYPE_CHECKING:
    from typing_extensions import Self

A = TypeVar("A")
_DEAD = ("gone", "zombie")


class Asking(Connections):
    def __init__(
        self,
        target: str | Sequence[str] = "local",
        timeout: float | None = None,
        options: Options = NO_OPTIONS,
    ) -> None:
        super().__init__(target, timeout, options)
        self.silent_nodes: dict[str, str] = {}  # why these are not in the last roster
        self.warm = False  # nodes subscribe to announcements of agents: a shell asks often
        self._jobs: set[str] = set()  # the selected ranks; empty: all
        self._ranks: list[Rank] = []  # of the last roster
        self._warm_rosters = WarmRosters()
        self._missing: dict[ProcessKey, str] = {}  # ranks of lost nodes, and why
        self.maps = PathMaps()

    def apart(self, timeout: float) -> Self:
        other = super().apart(timeout)
        other._jobs = set()
        return other

    # --- nodes ------------------------------------------------------------------------

    def ask_node(self, node: str, question: Question[A], seconds: float) -> A:
        message = {**question.message(), **self._limits(seconds)}
        return _decoded(node, question, self._channel(node).begin(message).answer(seconds))

    def ask_nodes(self, question: Question[A]) -> dict[str, A | RankdbgError]:
        """About each node itself."""
        return dict(self.ask_each(dict.fromkeys(self.cluster.nodes(), question), question.extra))

    def ask_each(
        self, questions: Mapping[str, Question[A]], extra: float = 0.0
    ) -> Iterable[tuple[str, A | RankdbgError]]:
        """Each node its question, in parallel; an error instead of an answer."""
        messages = {node: question.message() for node, question in questions.items()}
        for node, answer in self._send_all(messages, extra):
            yield node, _decoded_or_error(node, questions[node], answer)

    # --- ranks ------------------------------------------------------------------------

    def ask(
        self, question: RankQuestion[A], ranks: Sequence[Rank], seconds: float | None = None
    ) -> list[Reply[A]]:
        """One question to these ranks. Returns an Answer or a Silence for each."""
        extra = 0.0 if seconds is None else seconds - self.timeout
        results: dict[ProcessKey, Reply[A]] = {}
        failed: dict[str, str] = {}  # nodes, and why
        by_key = {rank.process: rank for rank in ranks}
        for node, answer in self._send_all(self._about(ranks, question), extra):
            try:
                found = _decoded_by(OfRanks, node, question, answer)
                results.update(_outcomes(node, question, found, by_key))
            except RankdbgError as error:
                failed[node] = error.what
        results.update({rank.process: Silence(rank, why) for rank, why in self._lost_of(ranks)})
        return [
            results.get(rank.process)
            or Silence(rank, failed.get(rank.host, "no answer from its node"))
            for rank in ranks
        ]

    def _ask_about(
        self, question: Question[A], ranks: Sequence[Rank], extra: float
    ) -> Iterable[tuple[str, A | RankdbgError]]:
        """The nodes of these ranks, of which the answer tells."""
        for node, answer in self._send_all(self._about(ranks, question), extra):
            yield node, _decoded_or_error(node, question, answer)

    def _about(self, ranks: Sequence[Rank], question: Question[Any]) -> dict[str, wire.Message]:
        """The message for each node of these ranks, unless it is lost."""
        processes: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for rank in ranks:
            if rank.process not in self._missing:
                processes[rank.host].append((rank.pid, rank.process.start))
        message = question.message()
        return {node: {**message, "processes": keys} for node, keys in processes.items()}

    def _lost_of(self, ranks: Sequence[Rank]) -> list[tuple[Rank, str]]:
        """The ranks of lost nodes, and why."""
        return [(r, self._missing[r.process]) for r in ranks if r.process in self._missing]

    # --- who is there -----------------------------------------------------------------

    def roster(self, where: bool = True, job: str | None = None, stops: bool = False) -> Roster:
        """All processes on all nodes. `where`: read positions from outside if an agent does not
        respond. `job`: query only the agents of this job; other jobs are listed from their
        cards. If no node knows that job, all agents are queried, since a job may get its name
        later. `stops`: also query stops."""
        warm = self.warm and not where
        if job is not None:
            question = ListProcesses(where=where, job=job, warm=warm, stops=stops)
            roster = self._ask_roster(question)
            if any(process.job == job for process in roster.processes):
                return roster
            known = known_as(roster, roster.jobs(), job)
            if len(known) == 1:  # another name of a job, which nodes do not know
                question = ListProcesses(where=where, job=known[0], warm=warm, stops=stops)
                return self._ask_roster(question)
            warm = stops = False
        return self._ask_roster(ListProcesses(where=where, warm=warm, stops=stops))

    def _ask_roster(self, question: ListProcesses) -> Roster:
        roster = Roster([])
        errors: dict[str, RankdbgError] = {}
        nodes = self.cluster.nodes()
        for node in {rank.host for rank in self._ranks} - {*nodes}:
            self._lost.setdefault(node, self._why_gone(node))
        answers = self._warm_rosters.ask(self.ask_each, nodes, question)
        before = self._warm_rosters.read_before(answers)
        if before is not None and not self._lost and not self._missing:
            self.silent_nodes = {}
            return before
        for index, (node, answer) in enumerate(answers):
            if isinstance(answer, RankdbgError):
                errors[node] = answer
            else:
                roster.add(node, index, answer)
        roster.settle()
        roster.silent_nodes = {node: error.in_one_line() for node, error in errors.items()}
        if errors and not roster.processes:
            answered = [node for node in nodes if node not in errors]
            raise no_rank_seen([*errors.values()], answered)
        self.silent_nodes = roster.silent_nodes
        self._account_for_lost(roster, {node: error.what for node, error in errors.items()})
        if not self._missing:
            self._warm_rosters.keep(question, answers, roster)
        return roster

    def _account_for_lost(self, roster: Roster, silent: dict[str, str]) -> None:
        """Keep ranks of lost nodes from the last roster, until another process has their position or
        their job has ended. Nodes that were never lost know themselves which ranks have ended."""
        seen = {rank.process for rank in roster.processes}
        living = [r for r in roster.processes if r.kind == "rank" and r.state not in _DEAD]
        taken = {_position(rank) for rank in living if rank.number is not None}
        jobs = {rank.job for rank in living}
        missing: dict[ProcessKey, str] = {}
        for rank in self._ranks:
            known = self._lost.get(rank.host) or self._missing.get(rank.process)
            why = silent.get(rank.host) or known
            replaced = _position(rank) in taken
            if why is None or rank.process in seen or replaced or rank.job not in jobs:
                continue
            missing[rank.process] = why
            # On a node that does not respond it may still be running.
            state: State = rank.state if rank.host in silent else "gone"
            roster.processes.append(replace(rank, state=state, detail=why, where=None))
        self._missing = missing
        self._ranks = [rank for rank in roster.processes if rank.kind == "rank"]
        self._lost = {node: why for node, why in self._lost.items() if node in silent}

    def job(
        self, name: str | None = None, where: bool = False, replaced: bool = False
    ) -> list[Rank]:
        """The ranks of the selected job; also those that a restart has `replaced`."""
        return self._ranks_of(self.roster(where, name), name, replaced)

    def job_with_stops(self, name: str | None) -> tuple[list[Rank], list[Reply[StopReports]]]:
        """The same, and their `stops`, with one question to each node."""
        roster = self.roster(False, name, stops=True)
        ranks = self._ranks_of(roster, name)
        by_key = {rank.process: rank for rank in ranks}
        known: dict[ProcessKey, Reply[StopReports]] = {}
        for node, answer in roster.stops.items():
            known.update(_outcomes(node, ListStops(), answer, by_key))
        # An older node and a snapshot do not return stops.
        if others := [rank for rank in ranks if rank.process not in known]:
            known.update({answer.rank.process: answer for answer in self.ask(ListStops(), others)})
        return ranks, [known[rank.process] for rank in ranks]

    def _ranks_of(self, roster: Roster, name: str | None, replaced: bool = False) -> list[Rank]:
        jobs = roster.jobs(replaced=replaced)
        name = check_job(roster, jobs, name)
        if name is None and len(jobs) > 1:
            raise ChooseJob(
                f"{len(jobs)} jobs are running here: {', '.join(sorted(jobs))}",
                hint=f"choose one: --job {min(jobs)}",
            )
        chosen = name if name is not None else next(iter(jobs))
        self._jobs.add(chosen)
        return jobs[chosen]


def _position(rank: Rank) -> tuple[str, str, int | None]:
    """What a process takes over from the one that it replaces: roles are numbered separately."""
    return rank.job, rank.role, rank.number


def _decoded(node: str, question: Question[A], answer: Any) -> A:
    kind: type[A] = answer_type(type(question))
    return _decoded_by(kind, node, question, answer)


def _decoded_or_error(node: str, question: Question[A], answer: Any) -> A | RankdbgError:
    try:
        return _decoded(node, question, answer)
    except RankdbgError as error:
        return error


def _decoded_by(kind: type[A], node: str, question: Question[Any], answer: Any) -> A:
    """Raises RankdbgError: the one that came instead of an answer, or that it is invalid."""
    if isinstance(answer, RankdbgError):
        raise answer
    if isinstance(answer, CheckedAnswer):
        return answer.decoded  # type: ignore[no-any-return]
    try:
        return decode(kind, answer)
    except BadField as error:
        what = f"invalid answer of {node} to the question {question.wire_name!r}: {error}"
        raise NodeFailed(what) from None


@contextmanager
def understanding(node: str, what: str) -> Iterator[None]:
    """Turns errors in documents that wire/ does not decode into one message."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise NodeFailed(f"invalid answer of {node} about its {what} ({reason})") from None


def _outcomes(
    node: str, question: RankQuestion[A], found: OfRanks, by_key: Mapping[ProcessKey, Rank]
) -> dict[ProcessKey, Reply[A]]:
    """The answers of these ranks of a node, or why there is none."""
    outcomes: dict[ProcessKey, Reply[A]] = {}
    for entry in found.answers:
        if rank := by_key.get(ProcessKey(node, *entry.process)):
            try:
                value = decode(answer_type(type(question)), entry.value)
                outcomes[rank.process] = Answer(rank, value)
            except BadField as error:
                outcomes[rank.process] = Silence(rank, f"invalid answer of its agent: {error}")
    for silent in found.silent:
        if rank := by_key.get(ProcessKey(node, *silent.process)):
            outcomes[rank.process] = Silence(rank, silent.reason)
    return outcomes
