"""Queries processes: through their agents if these respond, otherwise from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence

from rankdbg import wire
from rankdbg.node import relay
from rankdbg.node.machine import processes
from rankdbg.node.machine.starvation import Starvation
from rankdbg.node.roster.found_processes import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Key = tuple[int, int]  # pid, start

# An agent normally responds in milliseconds; one that needs longer than this belongs to
# a process that holds the GIL, which is read from outside, or that gets no CPU.
AGENT_SECONDS = 1.0
EACH_SECONDS = 0.002
# Between two looks at whether a process that is late gets a CPU.
LOOK_SECONDS = 0.2
_HOLDS_GIL = ": the process holds the GIL"


def ask(
    asked: Mapping[Key, Process],
    questions: Mapping[Key, wire.Message],
    deadline: float,
    seconds: float | None = AGENT_SECONDS,
    kept: relay.IdleConnections | None = None,
) -> dict[Key, Any]:
    """The answers of their agents. `seconds`: how long to wait for one that may hold the GIL; None:
    until the deadline."""
    sockets = {key: process.socket for key, process in asked.items()}
    if seconds is None:
        return relay.ask_agents(sockets, questions, deadline, kept)
    # Leave half of the time for the look from outside. A thousand take longer than one,
    # even if none of them is slow.
    latest = time.monotonic() + (deadline - time.monotonic()) / 2
    first = time.monotonic() + seconds * _crowd() + EACH_SECONDS * len(asked)
    late = _Late(latest)
    begin_to_look = min(first, latest) - LOOK_SECONDS
    answers = relay.ask_agents(sockets, questions, begin_to_look, kept, late.more_time)
    return {key: late.in_words(key, answer) for key, answer in answers.items()}


class _Late:
    """Waits longer for processes that get no CPU."""

    def __init__(self, latest: float) -> None:
        self._latest = latest
        self._starvation = Starvation()
        self._starved: set[Key] = set()
        self._looked = 0.0  # the last time, on time.monotonic()

    def more_time(self, late: Iterable[Key]) -> float:
        """Until when to wait for these; the first look compares nothing."""
        now, first = time.monotonic(), not self._looked
        if now >= self._looked + LOOK_SECONDS:  # in a shorter time little can be seen
            self._starved = {key for key in late if self._starvation.is_starved(key[0])}
            self._looked = now
        return min(self._latest, now + LOOK_SECONDS) if first or self._starved else now

    def in_words(self, key: Key, answer: Any) -> Any:
        is_late = isinstance(answer, relay.NoAnswer) and answer.why == "late"
        return relay.NoAnswer("starved") if is_late and key in self._starved else answer


def _crowd() -> float:
    """The number of agents per CPU of this machine, at least one: they share the CPUs."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def probe(
    asked: Mapping[Key, Process],
    deadline: float,
    all_threads: bool,
    with_locals: bool,
    engine: str = "py-spy",
) -> dict[Key, Any]:
    """From outside: the result of a probe for each process, or a text that says why not.

    A process that this engine must not touch, or fails on, is read with py-spy; `why` then
    says so. `source` is the probe that was used.
    """
    if not asked:
        return {}
    from rankdbg.node.probes import ProbeFailed, at_once, find_probe, tool_name

    def look_with(chosen: str, pid: int) -> Any:
        try:
            probe, kind = find_probe(chosen)
        except ProbeFailed as failure:
            return str(failure)
        reason = probe.available(pid)
        left = deadline - time.monotonic()
        if chosen != "py-spy":  # keep some time to end a probe that hangs, and for py-spy
            left = max(min(1.0, left), left - 4.0)
        left = min(kind.longest, left)
        if reason or left <= 0:
            return reason or "no time was left to read it from outside"
        try:
            seen = probe.probe(pid, seconds=left, all_threads=all_threads, with_locals=with_locals)
        except ProbeFailed as failure:
            return str(failure)
        return {**seen, "source": kind.tool}

    def look(key: Key) -> Any:
        seen = look_with(engine, key[0])
        if isinstance(seen, dict) or engine == "py-spy":
            return seen
        instead = look_with("py-spy", key[0])
        if isinstance(instead, dict):
            return {**instead, "why": f"no {tool_name(engine)}: {seen}"}
        return instead if instead == seen else f"{seen}; {instead}"

    if len(asked) == 1:
        return {key: look(key) for key in asked}
    # 15 ms of imports, not needed in a pod with one rank.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(at_once(engine)) as pool:
        return dict(zip(asked, pool.map(look, asked), strict=True))


def can_answer(process: Process) -> bool:
    """A stopped or dead process does not respond: no need to wait for it."""
    stat = processes.read_stat(process.pid)
    return stat is not None and stat.start == process.start and stat.state not in "TtZX"


def why_silent(process: Process, no: relay.NoAnswer, waited: float) -> str:
    """Why a process does not respond, as far as that can be seen from outside."""
    stat = processes.read_stat(process.pid)
    if stat is None or stat.start != process.start:
        return f"process {process.pid} is gone"
    if state := processes.explain_state(stat):
        return state
    if not process.socket:
        return f"no agent: {process.no_agent_because}"
    match no.why:
        case "late":
            return f"its agent did not respond within {waited:.1f} s{_HOLDS_GIL}"
        case "starved":
            return (
                f"it got no CPU to answer within {waited:.1f} s: "
                "its node or container is short of CPU"
            )
        case "foreign":
            return f"its agent is not asked: {no.detail}"
        case "refused" | "unheard" | "closed":
            return f"its agent closed the connection{f' ({no.detail})' if no.detail else ''}"
    return f"invalid answer of its agent: {no.detail}"


def without_gil(why: str, looks: Sequence[Mapping[str, Any]]) -> str:
    """Remove the GIL as the reason of a late agent if probes show that it is free."""
    held = any(look.get("gil") for look in looks)
    return why if held or not looks else why.removesuffix(_HOLDS_GIL)
