"""Several samples of the stacks of many processes."""

from __future__ import annotations

import time

from rankdbg import wire
from rankdbg.node import inquiry, relay
from rankdbg.node.inquiry import Key
from rankdbg.node.machine import processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import masking
from rankdbg.wire.node_questions import SampleStacks
from rankdbg.wire.questions import ReadStacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A main thread that has used this share of the time is computing.
BUSY_SHARE = 0.2
LOOKS_AT_THE_BUSY = 3


class Sampler:
    """Takes samples of many processes, each by its agent if it answers, else by py-spy; or
    all from outside with one engine."""

    def __init__(self, wanted: dict[Key, Process], asked: SampleStacks, deadline: float) -> None:
        self._all_threads = asked.threads == "all"
        self._locals = asked.locals
        self._tasks = asked.tasks
        self._patience = asked.patience
        self._agent_seconds = asked.tolerance(inquiry.AGENT_SECONDS)
        self._deadline = deadline
        engine = asked.engine or ("py-spy" if asked.outside else "agent")
        by_agents = engine == "agent"
        self._engine = "py-spy" if by_agents else engine
        self._silent: dict[Key, str] = {}
        self._by_agent: dict[Key, Process] = {}
        self._by_probe: dict[Key, Process] = {}
        for key, process in wanted.items():
            if not processes.is_alive(*key):
                self._silent[key] = f"process {key[0]} is gone"
            elif process.socket and by_agents and inquiry.can_answer(process):
                self._by_agent[key] = process
            else:
                self._by_probe[key] = process
        self._distinct: dict[bytes, int] = {}
        self._threads: list[Any] = []
        self._samples: dict[Key, list[int]] = {}
        self._sources: dict[Key, str] = {}
        self._why_outside: dict[Key, str] = {}
        self._seen: dict[Key, list[Any]] = {}  # beside each sample from outside
        self._begun = time.monotonic()
        self._used_before = {key: processes.cpu_seconds(key[0]) for key in self._by_agent}

    def sample(self) -> None:
        threads = "all" if self._all_threads else "main"
        asked = ReadStacks(
            threads=threads, locals=self._locals, tasks=self._tasks, patience=self._patience
        )
        questions = dict.fromkeys(self._by_agent, asked.message())
        begun = time.monotonic()
        answers = inquiry.ask(self._by_agent, questions, self._deadline, self._agent_seconds)
        waited = time.monotonic() - begun
        for key, outcome in answers.items():
            if isinstance(outcome, dict) and isinstance(outcome.get("threads"), list):
                self._keep(key, outcome["threads"])
            else:  # from now on from outside
                process = self._by_agent.pop(key)
                self._by_probe[key] = process
                if isinstance(outcome, relay.NoAnswer):
                    self._why_outside[key] = inquiry.why_silent(process, outcome, waited)
        for key, seen in self._probe(self._by_probe, self._engine).items():
            if isinstance(seen, dict):
                self._keep(key, seen["threads"])
                self._keep_beside(key, seen)
            elif key not in self._samples:
                known = self._why_outside.get(key, "")
                self._silent[key] = f"{known}; {seen}" if known and known != seen else seen
                del self._by_probe[key]

    def look_again_at_the_busy(self) -> None:
        """Read processes again that compute, but were at the same line in every sample.

        An agent gets the GIL only where the interpreter releases it, which in a loop is always
        the same place: such a rank would seem not to move. py-spy sees all places.
        """
        elapsed = time.monotonic() - self._begun
        busy = {
            key: process
            for key, process in self._by_agent.items()
            if len(set(self._samples.get(key, ()))) == 1
            and processes.cpu_seconds(key[0]) - self._used_before[key] > BUSY_SHARE * elapsed
        }
        for _ in range(LOOKS_AT_THE_BUSY):
            for key, seen in self._probe(busy, "py-spy").items():
                if isinstance(seen, dict) and seen["threads"]:
                    self._keep(key, seen["threads"])
                    self._seen.setdefault(key, []).append(seen)

    def _probe(self, asked: dict[Key, Process], engine: str) -> dict[Key, Any]:
        return inquiry.probe(asked, self._deadline, self._all_threads, self._locals, engine)

    def _keep(self, key: Key, threads: list[Any]) -> None:
        for thread in threads:
            thread.pop("id", None)  # differs in each process
            for values in thread.get("locals", ()):
                values.update(masking.mask_environment(values))
        text = wire.encode({"threads": threads})
        index = self._distinct.setdefault(text, len(self._threads))
        if index == len(self._threads):
            self._threads.append(threads)
        self._samples.setdefault(key, []).append(index)

    def _keep_beside(self, key: Key, seen: dict[str, Any]) -> None:
        """What a look from outside tells beyond the stacks, which are compared for equality."""
        self._sources[key] = seen["source"]
        self._seen.setdefault(key, []).append(seen)
        if seen.get("why"):
            self._why_outside[key] = seen["why"]

    def _gil(self, key: Key) -> tuple[str, list[str]]:
        """Who held the GIL in every look from outside; and who waited for it in the last."""
        looks = self._seen.get(key, [])
        holders = {look.get("gil", "") for look in looks}
        holder = holders.pop() if len(holders) == 1 else ""
        return holder, looks[-1].get("waits_for_gil", []) if looks else []

    def _why(self, key: Key) -> str:
        """Why it was looked at from outside."""
        return inquiry.without_gil(self._why_outside.get(key, ""), self._seen.get(key, []))

    def result(self) -> Any:
        return {
            "distinct": self._threads,
            "processes": [self._process(key, samples) for key, samples in self._samples.items()],
            "silent": [{"process": k, "reason": r} for k, r in self._silent.items()],
        }

    def _process(self, key: Key, samples: list[int]) -> dict[str, Any]:
        holder, waiting = self._gil(key)
        kernels = [look["kernels"] for look in self._seen.get(key, ()) if look.get("kernels")]
        return {
            "process": key,
            "samples": samples,
            "source": "agent" if key in self._by_agent else self._sources.get(key, "py-spy"),
            "why": self._why(key),
            "gil": holder,
            "waits_for_gil": waiting,
            "kernels": kernels[-1] if kernels else [],
        }
