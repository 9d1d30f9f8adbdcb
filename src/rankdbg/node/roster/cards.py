"""Labels from the agents of processes: announced, asked for, or cached."""

from __future__ import annotations

import threading
import time
from _queue import SimpleQueue
from collections.abc import Mapping

from rankdbg.node import inquiry, relay
from rankdbg.node.inquiry import Key
from rankdbg.node.roster import without_agents
from rankdbg.node.roster.announcements import Announcements
from rankdbg.node.roster.found_processes import Process
from rankdbg.node.roster.labels import is_number, sound_labels
from rankdbg.wire.questions import ReadCard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RENEWAL_SECONDS = 5.0
# The current answer has priority.
DELAY_SECONDS = 0.05


class Cards:
    def __init__(self, announcements: Announcements, kept: relay.IdleConnections) -> None:
        self._announcements = announcements
        self._kept = kept
        self._answers: dict[Key, Any] = {}  # the last ones
        self.unchanged = False  # since the last time: no agent was asked, and nothing changed
        # Cached labels of launchers and helpers, with the number of announcements then.
        self._others: dict[Key, tuple[Any, int]] = {}
        self._to_renew: SimpleQueue[Mapping[Key, Process]] | None = None

    def ask(
        self, found: list[Process], deadline: float, warm: bool, agent_seconds: float
    ) -> dict[Key, str]:
        """Update the labels; returns the processes without a response, and why. `warm`: processes
        that were not ranks the last time are asked, but not waited for."""
        asked = {p.key: p for p in found if p.alive and p.socket and inquiry.can_answer(p)}
        self._announcements.read()
        remembered = self._remembered(asked) if warm else {}
        answers = {**remembered, **self._announced(asked)}
        unknown = {key: process for key, process in asked.items() if key not in answers}
        begun = time.monotonic()
        answers.update(self._ask(unknown, deadline, agent_seconds))
        waited = time.monotonic() - begun
        self.unchanged = not unknown and answers == self._answers
        self._answers = answers
        silent: dict[Key, str] = {}
        for key, process in asked.items():
            if why := _take(process, answers[key], waited):
                silent[key] = why
        if remembered:
            self._renew_soon({key: asked[key] for key in remembered})
        return silent

    def keep_others(self, classified: list[Process]) -> None:
        """Processes that are not ranks have no stops, and only help to number the ranks."""
        self._others = {}
        for process in classified:
            answer, count = self._answers.get(process.key), self._announcements.count(process)
            if process.kind != "rank" and isinstance(answer, dict) and count is not None:
                self._others[process.key] = answer, count

    def _announced(self, asked: Mapping[Key, Process]) -> dict[Key, Any]:
        said = {key: self._announcements.of(process) for key, process in asked.items()}
        return {key: announced for key, announced in said.items() if announced}

    def _remembered(self, asked: Mapping[Key, Process]) -> dict[Key, Any]:
        """Unless a thread has stopped: then it may have become a rank, too."""
        found: dict[Key, Any] = {}
        for key, (answer, count) in self._others.items():
            if key in asked and self._announcements.count(asked[key]) == count:
                found[key] = answer
        return found

    def _ask(
        self,
        processes: Mapping[Key, Process],
        deadline: float,
        agent_seconds: float = inquiry.AGENT_SECONDS,
    ) -> dict[Key, Any]:
        questions = dict.fromkeys(processes, ReadCard().message())
        return inquiry.ask(processes, questions, deadline, agent_seconds, kept=self._kept)

    def _renew_soon(self, others: Mapping[Key, Process]) -> None:
        if self._to_renew is None:
            self._to_renew = SimpleQueue()
            threading.Thread(target=self._renew_all, args=(self._to_renew,), daemon=True).start()
        self._to_renew.put(others)

    def _renew_all(self, wanted: SimpleQueue[Mapping[Key, Process]]) -> None:
        while True:
            others = wanted.get()
            time.sleep(DELAY_SECONDS)
            answers = self._ask(others, time.monotonic() + RENEWAL_SECONDS)
            for key, (_, count) in [*self._others.items()]:
                if isinstance(answers.get(key), dict):
                    self._others[key] = answers[key], count
                elif key in answers:  # ask again, and wait
                    self._others.pop(key, None)


def _take(process: Process, answer: Any, waited: float) -> str:
    """Store the labels of the agent; returns why there are none, or an empty text."""
    match answer:
        case relay.NoAnswer(why="refused"):
            process.socket = ""
            process.no_agent_because = _why_gone(process)
        case relay.NoAnswer(why="foreign", detail=detail):
            process.socket = ""
            process.no_agent_because = detail
        case relay.NoAnswer() as no:
            return inquiry.why_silent(process, no, waited)
        case {"labels": dict(labels), "where": where, "modules": modules} if (
            is_number(modules) and _is_place(where) and _are_stops(answer.get("stops", []))
        ):
            process.labels = sound_labels(labels)
            process.where = where
            step = answer.get("step")
            process.step = step if is_number(step) else None
            process.stops = answer.get("stops", [])
            process.modules = modules
        case _:
            return "invalid answer of its agent"
    return ""


def _is_place(where: object) -> bool:
    """A function, a file and a line; or none."""
    match where:
        case None:
            return True
        case [str(), str(), line]:
            return is_number(line)
    return False


def _are_stops(stops: object) -> bool:
    """As far as the roster uses them; what is shown of them is decoded by the session."""
    return isinstance(stops, list) and all(
        isinstance(stop, dict)
        and all(isinstance(stop.get(name), str) for name in ("state", "kind", "why"))
        for stop in stops
    )


def _why_gone(process: Process) -> str:
    """Why its agent is gone: the program is ending, or was replaced by exec."""
    if without_agents.is_exiting(process.pid):
        return without_agents.EXITING
    return "its agent is gone: the process runs another program"
