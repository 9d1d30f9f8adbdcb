"""The processes of this machine that a session asks about: found, asked, named and kept.

scan /proc -> name jobs -> ask the agents for their cards -> kinds and numbers -> entries
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from rankdbg.node import inquiry, relay
from rankdbg.node.inquiry import Key
from rankdbg.node.roster import ended_processes, first_ranks, job_scope, owners, users
from rankdbg.node.roster.ancestors import look_above
from rankdbg.node.roster.announcements import Announcements
from rankdbg.node.roster.cards import Cards
from rankdbg.node.roster.entries import describe
from rankdbg.node.roster.found_processes import Process
from rankdbg.node.roster.launcher_records import (
    LauncherLabels,
    add_dead,
    call_by_names,
    from_message,
    known_or_below,
)
from rankdbg.node.roster.repeated_rosters import RepeatedRosters
from rankdbg.node.roster.scans import Scans, as_they_are_now
from rankdbg.process import rendezvous
from rankdbg.process.user_code import innermost_user_frame
from rankdbg.roster.jobs import name_unnamed
from rankdbg.roster.ranks import classify
from rankdbg.wire.node_questions import ListProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    AskStops = Callable[[list[Key], float], Any]


class NodeRoster:
    """Keeps the last answer, so that a question by pid finds the socket of the agent."""

    def __init__(
        self,
        scope: Mapping[str, Any],
        scans: Scans,
        announcements: Announcements,
        kept: relay.IdleConnections,
    ) -> None:
        self.known: dict[Key, Process] = {}
        self._scope = scope
        self._about: list[Any] = []  # the question of the last warm roster
        self._scans = scans
        self._announcements = announcements
        self._repeated = RepeatedRosters(scans, announcements)
        self._kept = kept
        self._cards = Cards(announcements, kept)

    def ranks(self) -> list[Process]:
        return [process for process in self.known.values() if process.kind == "rank"]

    def directories(self) -> list[str]:
        """Of agents."""
        carded = (os.path.dirname(p.files[0]) for p in self.known.values() if p.files)
        return [*dict.fromkeys([rendezvous.directory(), *carded])]

    def ended(self) -> list[Process]:
        """The ranks and launchers of jobs of which no process is left."""
        from rankdbg.node.roster import ended_jobs

        running = {process.job for process in self.known.values()}
        found = ended_jobs.find(self.directories(), self._scope)
        return [process for process in found if process.job not in running]

    def wanted(self, keys: Iterable[Key], deadline: float) -> dict[Key, Process]:
        """The processes that a question names. An unknown process has ended."""
        self.scan_first(deadline)
        return {key: self.known.get(key) or Process(*key, 0, False, {}, []) for key in keys}

    def scan_first(self, deadline: float, job: str | None = None) -> None:
        """If this node process is a new one."""
        if not self.known:
            self.read(deadline, job)

    def read(self, deadline: float, job: str | None = None) -> None:
        """Look, for what is known afterwards."""
        self.answer(ListProcesses(where=False, job=job), deadline, lambda ranks, deadline: None)

    def answer(self, question: ListProcesses, deadline: float, ask_stops: AskStops) -> Any:
        """`warm`: for a shell, which asks often. Unchanged processes are not read again, and other
        jobs than the given one are omitted. `seen`: the version of an answer that the client
        has."""
        if question.seen and (last := self._repeated.unchanged(question)):
            self.known = last
            return {"unchanged": question.seen, "processes": []}
        known, warm = from_message(question.known), question.warm
        found = self._scans.update(known or ()) if warm else self._scans.scan(known or ())
        there, found = found.processes, found.copy()
        if warm and known is None and not self._scope.get("unnamed_job"):
            there = job_scope.may_belong(there, question.job, self._scope)
        found.processes = as_they_are_now(there)
        if known is not None:
            add_dead(found.processes, known)
        look_above(found.processes)
        self._name_jobs(found.processes, known)
        asked = job_scope.may_belong(found.processes, question.job, self._scope)
        if warm:
            self._announcements.watch(asked)
            found.processes = asked
        moment = self._repeated.moment(asked)
        silent = self._cards.ask(asked, deadline, warm, question.tolerance(inquiry.AGENT_SECONDS))
        about = [known, question.job, [(p.key, p.alive) for p in asked]] if warm else []
        if about and about == self._about and self._cards.unchanged:
            found.processes = [*self.known.values()]
        else:
            found.processes = self._of_interest(found.processes, asked, known)
        self.known = {process.key: process for process in found.processes}
        self._about = about
        self._kept.drop_all_but({process.socket for process in found.processes if process.stops})
        keys = {process.key for process in asked}
        if question.where:
            in_question = [process for process in found.processes if process.key in keys]
            self._look_from_outside(in_question, silent, deadline)
        answer = {
            "host": os.uname().nodename,
            "machine": rendezvous.machine(),
            "processes": [describe(process, silent) for process in found.processes],
            "notes": found.notes + self._notes_if_none(found.processes),
            "other_users": [] if found.processes else users.other_users(),
        }
        if question.stops:
            ranks = [p.key for p in found.processes if p.kind == "rank" and p.key in keys]
            answer["stops"] = ask_stops(ranks, deadline)
        if warm and self._cards.unchanged and not silent and not _silent_stops(answer):
            answer["version"] = self._repeated.keep(question, moment, self.known)
        return answer

    def _of_interest(
        self, found: list[Process], asked: list[Process], known: LauncherLabels | None
    ) -> list[Process]:
        """The processes in scope, each with its kind and number."""
        self._name_jobs(asked, known)  # labels of agents do not have these names
        first_ranks.number(found)
        classify(found)
        self._cards.keep_others(found)
        remaining = ended_processes.remove_stale(found)
        if known is not None:
            remaining = known_or_below(remaining, known)
        return job_scope.in_scope(remaining, self._scope)

    def _name_jobs(self, found: list[Process], known: LauncherLabels | None) -> None:
        """Assign names from the launcher or the session to jobs without one."""
        if known is not None:
            call_by_names(found, known)
        owners.set_apart(found)
        if self._scope.get("unnamed_job"):
            job_scope.name_job(found, self._scope["unnamed_job"])
        name_unnamed(found)

    def _notes_if_none(self, found: list[Process]) -> list[str]:
        """Notes about other places of ranks, from the session."""
        if any(process.kind == "rank" for process in found):
            return []
        return [str(note) for note in self._scope.get("if_no_ranks", ())]

    def _look_from_outside(
        self, found: list[Process], silent: dict[Key, str], deadline: float
    ) -> None:
        """The positions of ranks whose agents did not respond."""
        unknown = [p for p in found if p.alive and p.where is None and not p.labels.get("paused")]
        ranks = {p.key: p for p in unknown if p.kind == "rank"}
        for key, outcome in inquiry.probe(ranks, deadline, False, False).items():
            if not isinstance(outcome, dict):
                continue
            if key in silent:
                silent[key] = inquiry.without_gil(silent[key], [outcome])
            threads = outcome["threads"]
            if threads and threads[0]["main"]:
                frames = threads[0]["frames"]
                ranks[key].where = frames[innermost_user_frame(frame[1] for frame in frames)]


def _silent_stops(roster: Mapping[str, Any]) -> bool:
    return bool(roster["stops"]["silent"]) if "stops" in roster else False
