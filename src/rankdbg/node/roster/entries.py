"""A process of this machine -> its entry in the answer to a question for the roster."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rankdbg import wire
from rankdbg.node.inquiry import Key
from rankdbg.node.machine import processes
from rankdbg.node.roster import without_agents
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import identity, masking

LONGEST_DETAIL = 200  # characters: torch's errors have thousands


def describe(process: Process, silent: Mapping[Key, str]) -> wire.Message:
    state, detail = _state(process, silent)
    return {
        "pid": process.pid,
        "start": process.start,
        "ppid": process.ppid,
        "job": process.job,
        "kind": process.kind,
        "number": process.number,
        "generation": process.generation,
        "named": bool(process.given_job),
        "above": process.above,
        "modules": process.modules,
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


def _brief(kind: str, why: str) -> str:
    """A short form for rosters, stacks and verdicts; `list` has the full text."""
    text = f"{kind}: {why}" if why else kind
    return text if len(text) <= LONGEST_DETAIL else f"{text[: LONGEST_DETAIL - 1]}…"


@lru_cache(maxsize=16)
def _masked(command: tuple[str, ...]) -> list[str]:
    """Cached: the ranks of a job often have the same long command."""
    return masking.mask_command(list(command))


def _state(process: Process, silent: Mapping[Key, str]) -> tuple[str, str]:
    stat = processes.read_stat(process.pid)
    if stat is None or stat.start != process.start:
        return "gone", process.text("dead") or identity.ENDED
    if stat.state in "ZX":
        return "zombie", processes.explain_state(stat)
    if stat.state in "Tt" and not processes.is_sampled(stat):
        return "stopped", processes.explain_state(stat)
    if stat.exiting:
        return "exiting", without_agents.EXITING
    if stat.state == "D":
        return "blocked", processes.explain_state(stat)
    if process.labels.get("paused"):  # in another debugger
        return "stopped", str(process.labels["paused"])
    if not process.socket:
        exiting = process.no_agent_because == without_agents.EXITING
        return "exiting" if exiting else "no agent", process.no_agent_because
    if process.key in silent:
        return "blocked", silent[process.key]
    for stop in process.stops:
        if stop["state"] == "stopped":
            return "stopped", _brief(stop["kind"], masking.mask_text(str(stop["why"])))
    return "running", ""
