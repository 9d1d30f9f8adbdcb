"""A question of the session -> its answer, about the ranks of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from rankdbg import wire
from rankdbg.node import inquiry, offers, programs, relay
from rankdbg.node.inquiry import Key
from rankdbg.node.machine.interruptions import Interruptions
from rankdbg.node.roster.announcements import Announcements
from rankdbg.node.roster.found_processes import Process
from rankdbg.node.roster.node_roster import NodeRoster
from rankdbg.node.roster.scans import Scans
from rankdbg.node.timeout_holds import TimeoutHold
from rankdbg.process import masking
from rankdbg.wire import node_questions, questions
from rankdbg.wire.decoding import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Questions of the node that change nothing, which it can therefore begin to answer again when a module
# is missing.
_LOOKS = (node_questions.ListProcesses, node_questions.SampleStacks)


class Service:
    """Answers from what it reads on this machine, or from what its agents say."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope
        scans = Scans()
        self._holding = TimeoutHold(scans)
        self._announcements = Announcements()
        self._kept = relay.IdleConnections()  # connections to stopped ranks
        self._roster = NodeRoster(scope, scans, self._announcements, self._kept)
        self._interruptions = Interruptions()

    def answer(self, message: wire.Message) -> wire.Message:
        try:
            question = questions.read_question(message, node_questions.ASKED)
        except questions.BadQuestion as error:
            return {"error": {"what": str(error)}}
        if not (question.repeatable or isinstance(question, _LOOKS)):
            offers.need_rest()  # first: it must not turn out in the middle
            programs.find_packages()
        deadline = time.monotonic() + max(0.1, question.limit)
        answer = self.QUESTIONS.get(type(question))
        if answer is None:
            assert isinstance(question, questions.RankQuestion)
            return {"answer": self._relay(question, deadline)}
        return {"answer": answer(self, question, deadline)}

    # --- what this machine answers ----------------------------------------------------

    def _processes(self, question: node_questions.ListProcesses, deadline: float) -> Any:
        return self._roster.answer(question, deadline, self._stops_of)

    def _stops_of(self, ranks: list[Key], deadline: float) -> Any:
        return self._stops(questions.ListStops(processes=ranks), deadline)

    def _stacks(self, question: node_questions.SampleStacks, deadline: float) -> Any:
        from rankdbg.node.probes.stack_samples import Sampler

        samples = max(1, min(1000, question.samples))
        sampler = Sampler(self._roster.wanted(question.processes, deadline), question, deadline)
        for index in range(samples):
            if index:
                time.sleep(max(0.0, min(question.interval, deadline - time.monotonic())))
            sampler.sample()
        if samples > 1:
            sampler.look_again_at_the_busy()
        return sampler.result()

    def find_process(self, message: wire.Message) -> Process:
        """The process of a stream. Raises BadField."""
        deadline = time.monotonic() + decode(float, message.get("timeout", 5.0), ".timeout")
        key = decode(tuple[int, int], message.get("process"), ".process")
        return self._roster.wanted([key], deadline)[key]

    # --- values ---------------------------------------------------------------------

    def _stops(self, question: questions.ListStops, deadline: float) -> Any:
        """Without output that was meant for another client."""
        wanted = self._roster.wanted(question.processes, deadline)
        self._announcements.read()
        announced = {
            key: self._announcements.of(process) if inquiry.can_answer(process) else {}
            for key, process in wanted.items()
        }
        others = [key for key, said in announced.items() if not said]
        result = self._relay(questions.ListStops(processes=others), deadline)
        result["answers"] += [
            {"process": key, "value": {name: said[name] for name in ("stops", "in_flight")}}
            for key, said in announced.items()
            if said
        ]
        for entry in result["answers"]:
            for stop in entry["value"].get("stops", ()):
                texts = {key: str(stop[key]) for key in ("why", "output") if key in stop}
                stop.update({key: masking.mask_text(text) for key, text in texts.items()})
        return result

    def _command(self, question: questions.RunCommand, deadline: float) -> Any:
        """One line for the debugger of each rank, and its output."""
        return self._relay(question, deadline, self._kept, question.wait)

    def _environment(self, question: questions.ReadEnvironment, deadline: float) -> Any:
        result = self._relay(question, deadline)
        for entry in result["answers"]:
            value = entry["value"]
            value["environment"] = masking.mask_environment(value["environment"])
        return result

    def _hold(self, question: node_questions.HoldTimeouts, deadline: float) -> Any:
        if question.end:
            self._holding.end()
            return {"answers": [], "silent": []}
        self._holding.keep(question.job)
        return self._ask_agents(question.processes, self._holding.question().message(), deadline)

    def _vitals(self, question: node_questions.ReadVitals, deadline: float) -> Any:
        from rankdbg.node.machine import vitals

        wanted = self._roster.wanted(question.processes, deadline)
        ranks = {process.pid for process in self._roster.ranks()}
        return _by_process(wanted, vitals.look(wanted, self._interruptions, ranks))

    def _owners(self, question: node_questions.FindOwners, deadline: float) -> Any:
        from rankdbg.node.machine import wait_owners

        wanted = self._roster.wanted(question.processes, deadline)
        found = wait_owners.look(wanted, question.connections, question.threads)
        if any(wait_owners.has_mutexes(told) for told in found.values()):
            from rankdbg.node.probes import mutex_holders

            mutex_holders.name(found.values(), deadline)
        return _by_process(wanted, found)

    def _thread_owners(self, question: node_questions.FindThreadOwners, deadline: float) -> Any:
        from rankdbg.node.probes import thread_owners

        wanted = self._roster.wanted(question.processes, deadline)
        return _by_process(wanted, thread_owners.look(wanted, deadline))

    def _addresses(self, question: node_questions.ReadAddresses, deadline: float) -> Any:
        from rankdbg.node.machine import addresses

        wanted = self._roster.wanted(question.processes, deadline)
        return _by_process(wanted, addresses.look(wanted))

    def _nccl(self, question: node_questions.ReadNcclState, deadline: float) -> Any:
        from rankdbg.node.machine import nccl_ras

        wanted = self._roster.wanted(question.processes, deadline)
        found = nccl_ras.ask([pid for pid, _ in wanted], deadline)
        return _by_process(
            wanted, {each: {"communicators": found.get(each[0], [])} for each in wanted}
        )

    def _raylets(self, question: node_questions.ReadRaylets, deadline: float) -> Any:
        from rankdbg.node.machine import raylets

        return raylets.look()

    def _history(self, question: node_questions.ReadHistories, deadline: float) -> Any:
        from rankdbg.node import history_files

        if question.folder:
            files = history_files.in_folder(question.folder)
        else:
            self._roster.scan_first(deadline, question.job or None)
            files = history_files.of_agents(self._roster.directories())
        wanted = question.job, question.ranks, question.steps, question.last
        return history_files.read(files, *wanted)

    def _bring(self, question: node_questions.BringPackage, deadline: float) -> Any:
        from rankdbg.node import receiving

        if question.files:
            return {"path": receiving.receive(question.name, question.files)}
        return {"path": receiving.find(question.name)}

    def _gpus(self, question: node_questions.ReadGpus, deadline: float) -> Any:
        return self._gpus_here.look(deadline)

    @cached_property
    def _gpus_here(self) -> Any:
        from rankdbg.node.machine.gpus import Gpus

        return Gpus()

    def _health(self, question: node_questions.ReadHealth, deadline: float) -> Any:
        from rankdbg.node.machine import node_figures

        self._roster.scan_first(deadline)
        of_job = self._roster.known if question.ranks is None else {*question.ranks}
        ranks = [process for process in self._roster.ranks() if process.key in of_job]
        return node_figures.answer(question, ranks)

    def _find_logs(self, question: node_questions.FindLogs, deadline: float) -> Any:
        from rankdbg.node.logs import log_places

        self._roster.scan_first(deadline, question.job)
        environment = self._scope.get("environment", {})
        there = [*self._roster.known.values()]
        if question.left:
            there += self._roster.ended()
        return log_places.find(there, question, environment)

    def _scan_logs(self, question: node_questions.ScanLogs, deadline: float) -> Any:
        from rankdbg.node.logs import log_scan

        return log_scan.scan(question, deadline)

    def _read_logs(self, question: node_questions.ReadLogs, deadline: float) -> Any:
        from rankdbg.node.logs import log_reading

        return log_reading.answer(question.message(), deadline)

    def _begin_profile(self, question: node_questions.BeginProfile, deadline: float) -> Any:
        wanted = self._roster.wanted(question.processes, deadline)
        if question.kind == "cpu":
            return self._profiles.begin_spies(wanted, question)
        start = questions.StartProfiler(
            directory=self._profiles.new_directory(wanted),
            kind=question.kind,
            seconds=question.seconds,
            stack=question.stack,
        )
        begun = _refusals_as_silences(self._ask_agents(wanted, start.message(), deadline))
        if not begun["answers"]:
            self._profiles.drop()
        return begun

    def _end_profile(self, question: node_questions.EndProfile, deadline: float) -> Any:
        if question.kind == "cpu":
            return self._profiles.end_spies()
        wanted = self._roster.wanted(question.processes, deadline)
        stop = questions.StopProfiler(timeout=_for_agents(deadline)).message()
        return self._profiles.take(wanted, self._ask_agents(wanted, stop, deadline))

    def _read_profile(self, question: node_questions.ReadProfile, deadline: float) -> Any:
        return self._profiles.piece(question)

    def _read_clock(self, question: node_questions.ReadClock, deadline: float) -> Any:
        return {"now_ns": time.time_ns()}

    @cached_property
    def _profiles(self) -> Any:
        from rankdbg.node.profiles.node_profiles import Profiles

        return Profiles()

    def _find_files(self, question: node_questions.FindFiles, deadline: float) -> Any:
        from rankdbg.node import rank_files

        return rank_files.find(self._roster.wanted(question.processes, deadline), question)

    def _read_file(self, question: node_questions.ReadFile, deadline: float) -> Any:
        from rankdbg.node import rank_files

        return rank_files.read(question.path, question.offset, question.length)

    def _digest_file(self, question: node_questions.DigestFile, deadline: float) -> Any:
        from rankdbg.node import rank_files

        return rank_files.digest(question.path, question.length)

    def _check(self, question: node_questions.CheckNode, deadline: float) -> Any:
        self._roster.read(deadline)
        from rankdbg.node.machine import checking

        agent_seconds = question.tolerance(checking.AGENT_SECONDS)
        return {"findings": checking.check(self._roster.ranks(), deadline, agent_seconds)}

    # --- what agents answer -----------------------------------------------------------

    def _relay(
        self,
        question: questions.RankQuestion[Any],
        deadline: float,
        kept: relay.IdleConnections | None = None,
        wait: float | None = None,
    ) -> Any:
        message = question.for_agents()
        if question.timed_by == "agent":
            seconds = _for_agents(deadline)
            message["timeout"] = seconds if wait is None else min(seconds, wait)
        return self._ask_agents(question.processes, message, deadline, kept)

    def _ask_agents(
        self,
        keys: Iterable[Key],
        question: wire.Message,
        deadline: float,
        kept: relay.IdleConnections | None = None,
    ) -> Any:
        wanted = self._roster.wanted(keys, deadline)
        asked = {key: p for key, p in wanted.items() if p.socket and inquiry.can_answer(p)}
        begun = time.monotonic()
        messages = dict.fromkeys(asked, question)
        answers = inquiry.ask(asked, messages, deadline, seconds=None, kept=kept)
        waited = time.monotonic() - begun
        good, silent = [], []
        for key, process in wanted.items():
            outcome = answers.get(key, relay.NoAnswer("refused"))
            if isinstance(outcome, dict) and "late" not in outcome:
                good.append({"process": key, "value": outcome})
                continue
            reason = "invalid answer of its agent"
            if isinstance(outcome, relay.NoAnswer):
                reason = inquiry.why_silent(process, outcome, waited)
            elif isinstance(outcome, dict):
                reason = _late(outcome)
            silent.append({"process": key, "reason": reason})
        return {"answers": good, "silent": silent}

    # Other questions are passed on to agents.
    QUESTIONS: Mapping[type[questions.Question[Any]], Callable[[Service, Any, float], Any]] = {
        node_questions.ListProcesses: _processes,
        node_questions.SampleStacks: _stacks,
        questions.ListStops: _stops,
        questions.RunCommand: _command,
        questions.ReadEnvironment: _environment,
        node_questions.HoldTimeouts: _hold,
        node_questions.ReadVitals: _vitals,
        node_questions.FindOwners: _owners,
        node_questions.FindThreadOwners: _thread_owners,
        node_questions.ReadAddresses: _addresses,
        node_questions.ReadNcclState: _nccl,
        node_questions.ReadRaylets: _raylets,
        node_questions.ReadHistories: _history,
        node_questions.BringPackage: _bring,
        node_questions.ReadGpus: _gpus,
        node_questions.ReadHealth: _health,
        node_questions.CheckNode: _check,
        node_questions.FindLogs: _find_logs,
        node_questions.ScanLogs: _scan_logs,
        node_questions.ReadLogs: _read_logs,
        node_questions.ReadNewLogs: _read_logs,
        node_questions.FindFiles: _find_files,
        node_questions.ReadFile: _read_file,
        node_questions.DigestFile: _digest_file,
        node_questions.BeginProfile: _begin_profile,
        node_questions.EndProfile: _end_profile,
        node_questions.ReadProfile: _read_profile,
        node_questions.ReadClock: _read_clock,
    }


def _by_process(wanted: Iterable[Key], found: Mapping[Key, Any]) -> dict[str, Any]:
    return {
        "answers": [{"process": key, "value": value} for key, value in found.items()],
        "silent": [
            {"process": key, "reason": f"process {key[0]} is gone"}
            for key in wanted
            if key not in found
        ],
    }


def _for_agents(deadline: float) -> float:
    """The deadline of agents is a little earlier, so that their own error arrives."""
    left = deadline - time.monotonic()
    return max(0.1, left - max(0.1 * left, min(0.4, left / 3)))


def _refusals_as_silences(relayed: dict[str, Any]) -> dict[str, Any]:
    """Turns errors of agents into reasons of silences."""
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
