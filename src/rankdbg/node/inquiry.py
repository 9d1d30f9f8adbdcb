"""Ask processes: by their agents where these can answer, from outside where not."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rankdbg import wire
from rankdbg.node import processes, relay
from rankdbg.node.discovery import Process

Key = tuple[int, int]  # pid, start

# An agent that can answer does so in milliseconds; one that needs longer than this
# belongs to a process that holds the GIL, and is asked from outside.
AGENT_SECONDS = 1.0
EACH_SECONDS = 0.002
_HOLDS_GIL = ": the process holds the GIL"


def ask(
    asked: Mapping[Key, Process],
    questions: Mapping[Key, wire.Message],
    deadline: float,
    patience: float | None = AGENT_SECONDS,
    kept: relay.Kept | None = None,
) -> dict[Key, Any]:
    if patience is not None:
        # Leave half of the time for the look from outside. A thousand take longer than one,
        # whoever of them is slow.
        left = deadline - time.monotonic()
        patience = patience * _crowd() + EACH_SECONDS * len(asked)
        deadline = time.monotonic() + min(patience, left / 2)
    sockets = {key: process.socket for key, process in asked.items()}
    return relay.ask_agents(sockets, questions, deadline, kept)


def _crowd() -> float:
    """How many there are for each processor of this machine, at least one: an agent there has
    to wait for its turn."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def probe(
    asked: Mapping[Key, Process],
    deadline: float,
    all_threads: bool,
    with_locals: bool,
    engine: str = "py-spy",
) -> dict[Key, Any]:
    """From outside: what a probe sees of each process, or a text that says why not.

    A process that this engine must not touch, or fails on, is looked at with py-spy; `why`
    then says so. `source` is what has seen it.
    """
    if not asked:
        return {}
    # 25 ms of imports, which most questions save.
    from concurrent.futures import ThreadPoolExecutor

    from rankdbg.node.probes import PROBES, ProbeFailed, find_probe

    def look_with(chosen: str, pid: int) -> Any:
        probe, kind = find_probe(chosen), PROBES[chosen]
        reason = probe.available(pid)
        left = deadline - time.monotonic()
        if chosen != "py-spy":  # keep some for the end of one that hangs, and for py-spy then
            left = max(min(1.0, left), left - 4.0)
        left = min(kind.longest, left)
        if reason or left <= 0:
            return reason or "there was no time left to look from outside"
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
            return {**instead, "why": f"no {PROBES[engine].tool}: {seen}"}
        return instead if instead == seen else f"{seen}; {instead}"

    with ThreadPoolExecutor(PROBES[engine].at_once) as pool:
        return dict(zip(asked, pool.map(look, asked), strict=True))


def can_answer(process: Process) -> bool:
    """A process that is stopped or dead does not answer: no need to wait for it."""
    stat = processes.read_stat(process.pid)
    return stat is not None and stat.start == process.start and stat.state not in "TtZX"


def why_silent(process: Process, no: relay.NoAnswer, waited: float) -> str:
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
            return f"its agent did not answer within {waited:.1f} s{_HOLDS_GIL}"
        case "refused" | "unheard" | "closed":
            return f"its agent hung up{f' ({no.detail})' if no.detail else ''}"
    return f"its agent answers what cannot be understood: {no.detail}"


def without_gil(why: str, looks: Sequence[Mapping[str, Any]]) -> str:
    """An agent that is late may be so for another reason than usual, as looks from outside show."""
    held = any(look.get("gil") for look in looks)
    return why if held or not looks else why.removesuffix(_HOLDS_GIL)
