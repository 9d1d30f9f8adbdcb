"""A question of the session -> its answer, about the ranks of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any

from rankdbg import masking, rendezvous, wire
from rankdbg.node import checking, classify, discovery, inquiry, processes, relay
from rankdbg.node.discovery import Process
from rankdbg.node.gpus import Gpus
from rankdbg.node.holding import Holding
from rankdbg.node.inquiry import Key
from rankdbg.node.known import call_by_names, from_message, known_or_below
from rankdbg.node.sampling import Sampler
from rankdbg.user_code import innermost_user_frame


class Service:
    """Keeps what was found last, so that a question by pid finds the agent's socket."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope
        self._known: dict[Key, Process] = {}
        self._holding = Holding()
        self._gpus_here = Gpus()
        self._kept = relay.Kept()  # connections to those that stand in the debugger

    def answer(self, message: wire.Message) -> wire.Message:
        question = self.QUESTIONS.get(str(message.get("ask")))
        if question is None:
            return {"error": {"what": f"the node knows no question {message.get('ask')!r}"}}
        seconds = min(3600.0, max(0.1, float(message.get("timeout", 5.0))))
        return {"answer": question(self, message, time.monotonic() + seconds)}

    # --- who is there ---------------------------------------------------------------

    def _roster(self, message: wire.Message, deadline: float) -> Any:
        known = from_message(message.get("known"))
        found = discovery.find_processes(known or ())
        silent = self._ask_cards(found.processes, deadline)
        if known is not None:
            call_by_names(found.processes, known)
        if self._scope.get("unnamed_job"):
            discovery.name_job(found.processes, self._scope["unnamed_job"])
        parent = cache(processes.parent)
        classify.classify(found.processes, parent)
        remaining = discovery.remove_stale(found.processes)
        if known is not None:
            remaining = known_or_below(remaining, known, parent)
        found.processes = discovery.in_scope(remaining, self._scope)
        self._known = {process.key: process for process in found.processes}
        self._kept.drop_all_but({process.socket for process in found.processes if process.stops})
        if message.get("where", True):
            self._look_from_outside(found.processes, silent, deadline)
        return {
            "host": os.uname().nodename,
            "machine": rendezvous.machine(),
            "processes": [_describe(process, silent) for process in found.processes],
            "notes": found.notes + self._notes_if_none(found.processes),
            "other_users": [] if found.processes else discovery.other_users(),
        }

    def _notes_if_none(self, found: list[Process]) -> list[str]:
        """Where else ranks may be, as the session knows."""
        if any(process.kind == "rank" for process in found):
            return []
        return [str(note) for note in self._scope.get("if_no_ranks", ())]

    def _ask_cards(self, found: list[Process], deadline: float) -> dict[Key, str]:
        """Bring the labels up to date by asking the agents; who is silent, and why."""
        asked = {p.key: p for p in found if p.alive and p.socket and inquiry.can_answer(p)}
        questions = {key: {"ask": "card"} for key in asked}
        begun = time.monotonic()
        answers = inquiry.ask(asked, questions, deadline, kept=self._kept)
        waited = time.monotonic() - begun
        silent: dict[Key, str] = {}
        for key, process in asked.items():
            match answers[key]:
                case relay.NoAnswer(why="refused"):
                    # Its program has been replaced by exec: the agent went with it.
                    process.socket = ""
                    process.no_agent_because = "its agent is gone: the process runs another program"
                case relay.NoAnswer() as no:
                    silent[key] = inquiry.why_silent(process, no, waited)
                case {"labels": dict(labels), "where": where, "modules": int(modules)}:
                    process.labels = labels
                    process.where = where
                    step = answers[key].get("step")
                    process.step = step if isinstance(step, int) else None
                    process.stops = answers[key].get("stops", [])
                    process.modules = modules
                case _:
                    silent[key] = "its agent answers what cannot be understood"
        return silent

    def _look_from_outside(
        self, found: list[Process], silent: dict[Key, str], deadline: float
    ) -> None:
        """Where ranks are that have not said so themselves."""
        ranks = {p.key: p for p in found if p.alive and p.kind == "rank" and p.where is None}
        for key, outcome in inquiry.probe(ranks, deadline, False, False).items():
            if not isinstance(outcome, dict):
                continue
            if key in silent:
                silent[key] = inquiry.without_gil(silent[key], [outcome])
            threads = outcome["threads"]
            if threads and threads[0]["main"]:
                frames = threads[0]["frames"]
                ranks[key].where = frames[innermost_user_frame(frame[1] for frame in frames)]

    # --- stacks ---------------------------------------------------------------------

    def _stacks(self, message: wire.Message, deadline: float) -> Any:
        """Several samples of the stacks of several processes. Equal stacks are sent once."""
        wanted = self._wanted(message, deadline)
        samples = max(1, min(1000, int(message.get("samples", 1))))
        interval = float(message.get("interval", 0.25))
        sampler = Sampler(wanted, message, deadline)
        for index in range(samples):
            if index:
                time.sleep(max(0.0, min(interval, deadline - time.monotonic())))
            sampler.sample()
        if samples > 1:
            sampler.look_again_at_the_busy()
        return sampler.result()

    def _wanted(self, message: wire.Message, deadline: float) -> dict[Key, Process]:
        """The processes that a question names. One that is not known is dead by now; but a
        node process that has come in the place of another has yet to look."""
        if not self._known:
            self._roster({"where": False}, deadline)
        wanted: dict[Key, Process] = {}
        for pid, start in message.get("processes", ()):
            known = self._known.get((pid, start))
            wanted[pid, start] = known or Process(pid, start, 0, False, {}, [])
        return wanted

    def find_process(self, message: wire.Message) -> Process:
        """The one that a question about a single process names."""
        deadline = time.monotonic() + float(message.get("timeout", 5.0))
        named = {"processes": [message.get("process")]}
        (process,) = self._wanted(named, deadline).values()
        return process

    # --- values ---------------------------------------------------------------------

    def _evaluate(self, message: wire.Message, deadline: float) -> Any:
        seconds = _for_agents(deadline)
        question = {
            "ask": "evaluate",
            "expression": message.get("expression"),
            "frame": message.get("frame"),
            "thread": message.get("thread"),
            "timeout": seconds,
        }
        return self._relay(message, question, deadline)

    def _stops(self, message: wire.Message, deadline: float) -> Any:
        return self._relay(message, {"ask": "stops"}, deadline)

    def _command(self, message: wire.Message, deadline: float) -> Any:
        """One line for the debugger of each rank, and what came back."""
        seconds = _for_agents(deadline)
        if (wait := message.get("wait")) is not None:
            seconds = min(seconds, float(wait))
        keys = ("line", "without")
        question = {"ask": "command", **{key: message.get(key) for key in keys}}
        return self._relay(message, {**question, "timeout": seconds}, deadline, self._kept)

    def _source(self, message: wire.Message, deadline: float) -> Any:
        """A file of code in each rank: `do` is give (a copy's `text`), read or digest."""
        question = {"ask": "source", **{key: message.get(key) for key in ("do", "file", "text")}}
        return self._relay(message, question, deadline)

    def _sources(self, message: wire.Message, deadline: float) -> Any:
        return self._relay(message, {"ask": "sources"}, deadline)

    def _environment(self, message: wire.Message, deadline: float) -> Any:
        result = self._relay(message, {"ask": "environment"}, deadline)
        for entry in result["answers"]:
            value = entry["value"]
            value["environment"] = masking.mask_environment(value["environment"])
        return result

    def _pause(self, message: wire.Message, deadline: float) -> Any:
        """The main thread of each rank stops where it is, if it is not in C."""
        seconds = _for_agents(deadline)
        question = {"ask": "pause", "cancel": message.get("cancel"), "timeout": seconds}
        return self._relay(message, question, deadline)

    def _break(self, message: wire.Message, deadline: float) -> Any:
        """Breaks at lines: `do` is set, clear or list."""
        keys = ("do", "file", "line", "condition", "log")
        question = {"ask": "break", **{key: message.get(key) for key in keys}}
        return self._relay(message, question, deadline)

    def _hold(self, message: wire.Message, deadline: float) -> Any:
        """Timeouts of process groups, until `end`, or for as long as this process lives."""
        if message.get("end"):
            self._holding.end()
            return {"answers": [], "silent": []}
        self._holding.keep(str(message.get("job")))
        return self._relay(message, self._holding.question(), deadline)

    def _collectives(self, message: wire.Message, deadline: float) -> Any:
        return self._relay(message, {"ask": "collectives"}, deadline)

    def _vitals(self, message: wire.Message, deadline: float) -> Any:
        """What the kernel knows of these processes, whether they have an agent or not."""
        from rankdbg.node import vitals

        wanted = self._wanted(message, deadline)
        found = vitals.look(wanted)
        return {
            "answers": [{"process": key, "value": value} for key, value in found.items()],
            "silent": [
                {"process": key, "reason": f"process {key[0]} is gone"}
                for key in wanted
                if key not in found
            ],
        }

    def _bring(self, message: wire.Message, deadline: float) -> Any:
        """A package for ranks whose environment lacks it; without files: whether it is here."""
        from rankdbg.node import receiving

        name, files = str(message.get("name")), message.get("files")
        if files:
            return {"path": receiving.receive(name, str(files))}
        path = receiving.place_of(name)
        return {"path": path if os.path.isdir(path) else ""}

    def _gpus(self, message: wire.Message, deadline: float) -> Any:
        """What NVML says of the GPUs of this node, whoever uses them."""
        return self._gpus_here.look(deadline)

    def _health(self, message: wire.Message, deadline: float) -> Any:
        """Disks, memory, processes; and what the kernel said that patterns know."""
        from rankdbg.node import health

        if not self._known:
            self._roster({"where": False}, deadline)
        ranks = [process for process in self._known.values() if process.kind == "rank"]
        return health.answer(message, ranks)

    def _logs(self, message: wire.Message, deadline: float) -> Any:
        """Log files: `do` says what (node/log_questions.py)."""
        from rankdbg.node import log_questions

        if not self._known:
            self._roster({"where": False}, deadline)
        return log_questions.answer(message, [*self._known.values()], self._scope, deadline)

    def _profile(self, message: wire.Message, deadline: float) -> Any:
        """`do` is begin, end, piece (of what was found) or clock (of this node)."""
        match message.get("do"):
            case "clock":
                return {"now_ns": time.time_ns()}
            case "piece":
                return self._profiles.piece(message)
        wanted, begins = self._wanted(message, deadline), message.get("do") == "begin"
        if message.get("kind") == "cpu":
            profiles = self._profiles
            return profiles.begin_spies(wanted, message) if begins else profiles.end_spies()
        keys = ("do", "kind", "seconds", "stack")
        question = {"ask": "profile", **{key: message.get(key) for key in keys}}
        if begins:
            question["directory"] = self._profiles.new_directory(wanted)
            begun = _refusals_as_silences(self._relay(message, question, deadline))
            if not begun["answers"]:
                self._profiles.drop()
            return begun
        question["timeout"] = _for_agents(deadline)
        return self._profiles.take(wanted, self._relay(message, question, deadline))

    @cached_property
    def _profiles(self) -> Any:
        from rankdbg.node.profiling import Profiles

        return Profiles()

    def _files(self, message: wire.Message, deadline: float) -> Any:
        """Files of ranks on this disk: `do` is find, read or digest."""
        from rankdbg.node import files

        path = str(message.get("path", ""))
        match message.get("do"):
            case "read":
                return files.read(path, int(message["offset"]), int(message["length"]))
            case "digest":
                return files.digest(path, int(message["length"]))
        return files.find(self._wanted(message, deadline), message)

    def _check(self, message: wire.Message, deadline: float) -> Any:
        """What works on this node."""
        self._roster({"where": False}, deadline)
        ranks = [process for process in self._known.values() if process.kind == "rank"]
        return {"findings": checking.check(ranks, deadline)}

    def _relay(
        self,
        message: wire.Message,
        question: wire.Message,
        deadline: float,
        kept: relay.Kept | None = None,
    ) -> Any:
        """A question that only an agent can answer."""
        wanted = self._wanted(message, deadline)
        asked = {key: p for key, p in wanted.items() if p.socket and inquiry.can_answer(p)}
        begun = time.monotonic()
        questions = dict.fromkeys(asked, question)
        answers = inquiry.ask(asked, questions, deadline, patience=None, kept=kept)
        waited = time.monotonic() - begun
        good, silent = [], []
        for key, process in wanted.items():
            outcome = answers.get(key, relay.NoAnswer("refused"))
            if isinstance(outcome, relay.NoAnswer):
                silent.append(
                    {"process": key, "reason": inquiry.why_silent(process, outcome, waited)}
                )
            elif isinstance(outcome, dict) and "late" in outcome:
                silent.append({"process": key, "reason": _late(outcome)})
            elif isinstance(outcome, dict):
                good.append({"process": key, "value": outcome})
            else:
                reason = "its agent answers what cannot be understood"
                silent.append({"process": key, "reason": reason})
        return {"answers": good, "silent": silent}

    QUESTIONS: Mapping[str, Callable[[Service, wire.Message, float], Any]] = {
        "roster": _roster,
        "stacks": _stacks,
        "evaluate": _evaluate,
        "stops": _stops,
        "command": _command,
        "source": _source,
        "sources": _sources,
        "environment": _environment,
        "pause": _pause,
        "break": _break,
        "hold": _hold,
        "collectives": _collectives,
        "vitals": _vitals,
        "bring": _bring,
        "gpus": _gpus,
        "health": _health,
        "logs": _logs,
        "files": _files,
        "profile": _profile,
        "check": _check,
    }


def _for_agents(deadline: float) -> float:
    """The agents end a little before we do, so that their own word for it arrives."""
    left = deadline - time.monotonic()
    return max(0.1, left - max(0.1 * left, min(0.4, left / 3)))


def _refusals_as_silences(relayed: dict[str, Any]) -> dict[str, Any]:
    """An agent that says why not has nothing else to say."""
    refusals = [
        {"process": entry["process"], "reason": entry["value"]["why"]}
        for entry in relayed["answers"]
        if "why" in entry["value"]
    ]
    begun = [entry for entry in relayed["answers"] if "why" not in entry["value"]]
    return {"answers": begun, "silent": [*relayed["silent"], *refusals]}


def _late(outcome: dict[str, Any]) -> str:
    late = str(outcome["late"])
    return late if outcome.get("interrupted") else f"{late}, and cannot be interrupted"


def _describe(process: Process, silent: Mapping[Key, str]) -> wire.Message:
    state, detail = _state(process, silent)
    return {
        "pid": process.pid,
        "start": process.start,
        "ppid": process.ppid,
        "job": process.job,
        "kind": process.kind,
        "number": process.number,
        "labels": process.labels,
        "state": state,
        "detail": detail,
        "where": process.where,
        "step": process.step,
        "age": processes.age(process.start),
        "agent": bool(process.socket) and process.alive,
        "python": process.python,
        "command": _masked(tuple(process.command)),
    }


@lru_cache(maxsize=16)
def _masked(command: tuple[str, ...]) -> list[str]:
    """The ranks of a job often have the same command, and a long one."""
    return masking.mask_command(list(command))


def _state(process: Process, silent: Mapping[Key, str]) -> tuple[str, str]:
    stat = processes.read_stat(process.pid)
    if stat is None or stat.start != process.start:
        return "gone", "its process no longer exists"
    if stat.state in "ZX":
        return "zombie", processes.explain_state(stat)
    if stat.state in "Tt":
        return "stopped", processes.explain_state(stat)
    if stat.state == "D":
        return "blocked", processes.explain_state(stat)
    if process.labels.get("paused"):  # in somebody else's debugger
        return "stopped", str(process.labels["paused"])
    if not process.socket:
        return "no agent", process.no_agent_because
    if process.key in silent:
        return "blocked", silent[process.key]
    for stop in process.stops:
        if stop["state"] == "stopped":
            return "stopped", f"{stop['kind']}: {stop['why']}" if stop["why"] else stop["kind"]
    return "running", ""
