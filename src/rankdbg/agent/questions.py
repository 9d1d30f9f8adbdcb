"""What an agent can be asked. One function a question; its arguments are the message's."""

from __future__ import annotations

import os
import sys

from rankdbg.agent import describe, evaluate, stacks, stops, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rankdbg.agent.listener import Listener

# Less than the node waits for an agent before it looks from outside.
LOCALS_SECONDS = 0.7


def answer(message: dict[str, Any], listener: Listener) -> dict[str, Any]:
    ident = message.get("id")
    question = QUESTIONS.get(str(message.get("ask")))
    if question is None:
        what = f"unknown question {str(message.get('ask'))[:80]!r}"
        return {"id": ident, "error": {"what": what}}
    try:
        return {"id": ident, "answer": question(message, listener)}
    except BaseException as error:  # whatever a repr() of the program's raises
        return {"id": ident, "error": {"what": describe.exception_text(error)[:500]}}


def _ping(message: dict[str, Any], listener: Listener) -> Any:
    return {}


def _card(message: dict[str, Any], listener: Listener) -> Any:
    """Who this process is now, where its main thread is, and how much it has loaded."""
    return {
        **listener.current_card(),
        "where": stacks.where(),
        "modules": len(sys.modules),
        "stops": [stop.report() for stop in stops.everyone()],
    }


def _stacks(message: dict[str, Any], listener: Listener) -> Any:
    all_threads = message.get("threads") == "all"
    if message.get("locals"):
        try:
            return threads.within(LOCALS_SECONDS, stacks.collect, all_threads, True)
        except threads.Late:  # a repr() of the program's takes its time
            pass
    return stacks.collect(all_threads, with_locals=False)


def _evaluate(message: dict[str, Any], listener: Listener) -> Any:
    return evaluate.evaluate(
        str(message.get("expression")),
        message.get("frame"),
        message.get("thread"),
        min(3600.0, max(0.0, float(message.get("timeout", 5.0)))),
    )


def _stops(message: dict[str, Any], listener: Listener) -> Any:
    return {"stops": [stop.report() for stop in stops.everyone()]}


def _command(message: dict[str, Any], listener: Listener) -> Any:
    """One line for pdb, or none to wait for the end of the last; and what it printed."""
    try:
        stop = stops.find(message.get("stop"))
    except LookupError as error:
        return {"state": "none", "output": "", "why": error.args[0], "where": stacks.where()}
    seconds = min(3600.0, max(0.0, float(message.get("timeout", 5.0))))
    return stop.command(message.get("line"), seconds)


def _environment(message: dict[str, Any], listener: Listener) -> Any:
    """What a snapshot keeps about a process beside its stacks."""
    versions = {}
    for name in ("torch", "numpy", "jax", "ray", "vllm", "sglang", "transformers", "deepspeed"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = str(version)
    return {"environment": dict(os.environ), "versions": versions, "path": list(sys.path)}


def _pause(message: dict[str, Any], listener: Listener) -> Any:
    """Stop the main thread where it is, or no longer try to."""
    from rankdbg.agent import pauses

    if message.get("cancel"):
        return pauses.cancel()
    return pauses.pause(min(3600.0, max(0.0, float(message.get("timeout", 5.0)))))


def _break(message: dict[str, Any], listener: Listener) -> Any:
    """Set a break at a line, take one or all away, or list them."""
    from rankdbg.agent import breaks

    file, line = message.get("file"), message.get("line")
    match message.get("do"):
        case "set":
            condition, log = str(message.get("condition") or ""), str(message.get("log") or "")
            return breaks.add(str(file), int(line or 0), condition, log)
        case "clear":
            return breaks.clear(file, line)
    return breaks.listing()


QUESTIONS = {
    "ping": _ping,
    "card": _card,
    "stacks": _stacks,
    "evaluate": _evaluate,
    "stops": _stops,
    "command": _command,
    "environment": _environment,
    "pause": _pause,
    "break": _break,
}
