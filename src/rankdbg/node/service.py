"""A question of the session -> its answer, about the ranks of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from rankdbg import masking, wire
from rankdbg.node import classify, discovery, processes, relay
from rankdbg.node.discovery import Process
from rankdbg.node.probes import ProbeFailed, pyspy
from rankdbg.user_code import innermost_user_frame

Key = tuple[int, int]  # pid, start

PROBES_AT_ONCE = 8
# An agent that can answer does so in milliseconds; one that needs longer than this
# belongs to a process that holds the GIL, and is asked from outside.
AGENT_SECONDS = 1.0


class Service:
    """Keeps what was found last, so that a question by pid finds the agent's socket."""

    def __init__(self) -> None:
        self._known: dict[Key, Process] = {}

    def answer(self, message: wire.Message) -> wire.Message:
        question = self.QUESTIONS.get(str(message.get("ask")))
        if question is None:
            return {"error": {"what": f"the node knows no question {message.get('ask')!r}"}}
        seconds = min(3600.0, max(0.1, float(message.get("timeout", 5.0))))
        return {"answer": question(self, message, time.monotonic() + seconds)}

    # --- who is there ---------------------------------------------------------------

    def _roster(self, message: wire.Message, deadline: float) -> Any:
        found = discovery.find_processes()
        silent = self._ask_cards(found.processes, deadline)
        stats = {pid: processes.read_stat(pid) for pid in processes.all_pids()}
        classify.classify(found.processes, lambda pid: stat.ppid if (stat := stats.get(pid)) else 0)
        found.processes = discovery.remove_stale(found.processes)
        self._known = {process.key: process for process in found.processes}
        if message.get("where", True):
            self._look_from_outside(found.processes, deadline)
        return {
            "host": os.uname().nodename,
            "processes": [_describe(process, silent) for process in found.processes],
            "notes": found.notes,
            "other_users": [] if found.processes else discovery.other_users(),
        }

    def _ask_cards(self, found: list[Process], deadline: float) -> dict[Key, str]:
        """Bring the labels up to date by asking the agents; who is silent, and why."""
        asked = {p.key: p for p in found if p.alive and p.socket and _can_answer(p)}
        answers = _ask(asked, {key: {"ask": "card"} for key in asked}, deadline)
        silent: dict[Key, str] = {}
        for key, process in asked.items():
            match answers[key]:
                case relay.NoAnswer(why="refused"):
                    # Its program has been replaced by exec: the agent went with it.
                    process.socket = ""
                    process.no_agent_because = "its agent is gone: the process runs another program"
                case relay.NoAnswer() as no:
                    silent[key] = _why_silent(process, no, AGENT_SECONDS)
                case {"labels": dict(labels), "where": where, "modules": int(modules)}:
                    process.labels = labels
                    process.where = where
                    process.modules = modules
                case _:
                    silent[key] = "its agent answers what cannot be understood"
        return silent

    def _look_from_outside(self, found: list[Process], deadline: float) -> None:
        """Where ranks are that have not said so themselves."""
        ranks = {p.key: p for p in found if p.alive and p.kind == "rank" and p.where is None}
        for key, outcome in _probe(ranks, deadline, False, False).items():
            threads = outcome["threads"] if isinstance(outcome, dict) else []
            if threads and threads[0]["main"]:
                frames = threads[0]["frames"]
                ranks[key].where = frames[innermost_user_frame(frame[1] for frame in frames)]

    # --- stacks ---------------------------------------------------------------------

    def _stacks(self, message: wire.Message, deadline: float) -> Any:
        """Several samples of the stacks of several processes. Equal stacks are sent once."""
        wanted = self._wanted(message)
        samples = max(1, min(1000, int(message.get("samples", 1))))
        interval = float(message.get("interval", 0.25))
        sampler = _Sampler(wanted, message, deadline)
        for index in range(samples):
            if index:
                time.sleep(max(0.0, min(interval, deadline - time.monotonic())))
            sampler.sample()
        return sampler.result()

    def _wanted(self, message: wire.Message) -> dict[Key, Process]:
        """The processes that a question names. One that is not known is dead by now."""
        wanted: dict[Key, Process] = {}
        for pid, start in message.get("processes", ()):
            known = self._known.get((pid, start))
            wanted[pid, start] = known or Process(pid, start, 0, False, {}, [])
        return wanted

    # --- values ---------------------------------------------------------------------

    def _evaluate(self, message: wire.Message, deadline: float) -> Any:
        # The agents end a little before we do, so that their own word for it arrives.
        seconds = max(0.1, (deadline - time.monotonic()) * 0.9)
        question = {
            "ask": "evaluate",
            "expression": message.get("expression"),
            "frame": message.get("frame"),
            "thread": message.get("thread"),
            "timeout": seconds,
        }
        return self._relay(message, question, deadline)

    def _environment(self, message: wire.Message, deadline: float) -> Any:
        result = self._relay(message, {"ask": "environment"}, deadline)
        for entry in result["answers"]:
            value = entry["value"]
            value["environment"] = masking.mask_environment(value["environment"])
        return result

    def _relay(self, message: wire.Message, question: wire.Message, deadline: float) -> Any:
        """A question that only an agent can answer."""
        wanted = self._wanted(message)
        asked = {key: p for key, p in wanted.items() if p.socket and _can_answer(p)}
        begun = time.monotonic()
        answers = _ask(asked, dict.fromkeys(asked, question), deadline, patience=None)
        waited = time.monotonic() - begun
        good, silent = [], []
        for key, process in wanted.items():
            outcome = answers.get(key, relay.NoAnswer("refused"))
            if isinstance(outcome, relay.NoAnswer):
                silent.append({"process": key, "reason": _why_silent(process, outcome, waited)})
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
        "environment": _environment,
    }


class _Sampler:
    """Takes samples of many processes, each by its agent if it answers, else by py-spy."""

    def __init__(self, wanted: dict[Key, Process], message: wire.Message, deadline: float) -> None:
        self._all_threads = message.get("threads") == "all"
        self._locals = bool(message.get("locals"))
        self._deadline = deadline
        outside = bool(message.get("outside"))
        self._silent: dict[Key, str] = {}
        self._by_agent: dict[Key, Process] = {}
        self._by_probe: dict[Key, Process] = {}
        for key, process in wanted.items():
            if not processes.is_alive(*key):
                self._silent[key] = f"process {key[0]} is gone"
            elif process.socket and not outside and _can_answer(process):
                self._by_agent[key] = process
            else:
                self._by_probe[key] = process
        self._distinct: dict[bytes, int] = {}
        self._threads: list[Any] = []
        self._samples: dict[Key, list[int]] = {}
        self._why_outside: dict[Key, str] = {}

    def sample(self) -> None:
        threads = "all" if self._all_threads else "main"
        question = {"ask": "stacks", "threads": threads, "locals": self._locals}
        answers = _ask(self._by_agent, dict.fromkeys(self._by_agent, question), self._deadline)
        for key, outcome in answers.items():
            if isinstance(outcome, dict) and isinstance(outcome.get("threads"), list):
                self._keep(key, outcome["threads"])
            else:  # from now on from outside
                process = self._by_agent.pop(key)
                self._by_probe[key] = process
                if isinstance(outcome, relay.NoAnswer):
                    self._why_outside[key] = _why_silent(process, outcome, AGENT_SECONDS)
        probed = _probe(self._by_probe, self._deadline, self._all_threads, self._locals)
        for key, seen in probed.items():
            if isinstance(seen, dict):
                self._keep(key, seen["threads"])
            elif key not in self._samples:
                known = self._why_outside.get(key, "")
                self._silent[key] = f"{known}; {seen}" if known and known != seen else seen
                del self._by_probe[key]

    def _keep(self, key: Key, threads: list[Any]) -> None:
        for thread in threads:
            thread.pop("id", None)  # differs in each process
        text = wire.encode({"threads": threads})
        index = self._distinct.setdefault(text, len(self._threads))
        if index == len(self._threads):
            self._threads.append(threads)
        self._samples.setdefault(key, []).append(index)

    def result(self) -> Any:
        return {
            "distinct": self._threads,
            "processes": [
                {
                    "process": key,
                    "samples": indices,
                    "source": "agent" if key in self._by_agent else "py-spy",
                    "why": self._why_outside.get(key, ""),
                }
                for key, indices in self._samples.items()
            ],
            "silent": [{"process": k, "reason": r} for k, r in self._silent.items()],
        }


def _ask(
    asked: Mapping[Key, Process],
    questions: Mapping[Key, wire.Message],
    deadline: float,
    patience: float | None = AGENT_SECONDS,
) -> dict[Key, Any]:
    if patience is not None:
        # Leave half of the time for the look from outside.
        left = deadline - time.monotonic()
        deadline = time.monotonic() + min(patience, left / 2)
    sockets = {key: process.socket for key, process in asked.items()}
    return relay.ask_agents(sockets, questions, deadline)


def _probe(
    asked: Mapping[Key, Process], deadline: float, all_threads: bool, with_locals: bool
) -> dict[Key, Any]:
    """From outside: the threads of each process, or a text that says why not."""

    def look(key: Key) -> Any:
        reason = pyspy.available(key[0])
        left = deadline - time.monotonic()
        if reason or left <= 0:
            return reason or "there was no time left to look from outside"
        try:
            return pyspy.probe(
                key[0], seconds=left, all_threads=all_threads, with_locals=with_locals
            )
        except ProbeFailed as failure:
            return str(failure)

    if not asked:
        return {}
    from concurrent.futures import ThreadPoolExecutor  # 15 ms that most questions save

    with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
        return dict(zip(asked, pool.map(look, asked), strict=True))


def _can_answer(process: Process) -> bool:
    """A process that is stopped or dead does not answer: no need to wait for it."""
    stat = processes.read_stat(process.pid)
    return stat is not None and stat.start == process.start and stat.state not in "TtZX"


def _late(outcome: dict[str, Any]) -> str:
    late = str(outcome["late"])
    return late if outcome.get("interrupted") else f"{late}, and cannot be interrupted"


def _why_silent(process: Process, no: relay.NoAnswer, waited: float) -> str:
    """What can be found out from outside about a process that does not answer."""
    stat = processes.read_stat(process.pid)
    if stat is None or stat.start != process.start:
        return f"process {process.pid} is gone"
    if state := processes.explain_state(stat):
        return state
    if not process.socket:
        return f"no agent: {process.no_agent_because}"
    match no.why:
        case "late":
            return f"its agent did not answer within {waited:.1f} s: the process holds the GIL"
        case "refused" | "closed":
            return f"its agent hung up{f' ({no.detail})' if no.detail else ''}"
    return f"its agent answers what cannot be understood: {no.detail}"


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
        "age": processes.age(process.start),
        "agent": bool(process.socket) and process.alive,
        "python": process.python,
        "command": masking.mask_command(process.command),
    }


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
    if not process.socket:
        return "no agent", process.no_agent_because
    if process.key in silent:
        return "blocked", silent[process.key]
    return "running", ""
