"""What an agent can be asked. One function a question; its arguments are the message's."""

from __future__ import annotations

import os
import sys

from rankdbg.agent import card, describe, evaluate, stacks, stops, threads

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
    said = listener.current_card()
    editor: Any = sys.modules.get("rankdbg.agent.dap")
    if editor is not None and editor.paused():
        said = {**said, "labels": {**said["labels"], "paused": "in an editor"}}
    return {
        **said,
        "where": stacks.where(),
        "step": card.step,
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
    timeouts: Any = sys.modules.get("rankdbg.agent.timeouts")
    return {
        "stops": [_with_sources(stop, stop.report()) for stop in stops.everyone()],
        "in_flight": timeouts.short_limited() if timeouts is not None else [],
    }


def _with_sources(stop: stops.Stop, report: dict[str, Any]) -> dict[str, Any]:
    from rankdbg.agent import source_texts

    return {**report, "sources": source_texts.look(stop.stack)}


def _command(message: dict[str, Any], listener: Listener) -> Any:
    """One line for pdb, or none to wait for the end of the last; and what it printed.

    Held back if it is to show text that this process lacks, and the client may have: that is
    one who says which files it is `without`.
    """
    cancelled = _cancels_a_pause(message.get("line"))
    try:
        stop = stops.find(message.get("stop"))
    except LookupError as error:
        state = "cancelled" if cancelled else "none"
        return {"state": state, "output": "", "why": error.args[0], "where": stacks.where()}
    seconds = min(3600.0, max(0.0, float(message.get("timeout", 5.0))))
    from rankdbg.agent import source_texts

    line, without = message.get("line"), message.get("without")
    shows_text = str(line).strip().partition(" ")[0] in source_texts.SHOWING
    if without is not None and shows_text and not source_texts.lacking(stop.stack) <= {*without}:
        return {**_with_sources(stop, stop.report()), "held": True}
    return _with_sources(stop, stop.command(line, seconds))


def _source(message: dict[str, Any], listener: Listener) -> Any:
    """A file of code: take a copy of it, read it, or only its digest."""
    from rankdbg.agent import source_texts

    file = str(message.get("file"))
    match message.get("do"):
        case "give":
            return source_texts.give(file, str(message.get("text")))
        case "read":
            return source_texts.read(file)
    return source_texts.digest(file)


def _sources(message: dict[str, Any], listener: Listener) -> Any:
    """The digests of the files that the user's code comes from."""
    from rankdbg.agent import source_texts

    return {"digests": source_texts.digests()}


def _cancels_a_pause(line: Any) -> bool:
    """`continue` is meant for a rank too that is about to pause, as soon as it leaves C."""
    pauses: Any = sys.modules.get("rankdbg.agent.pauses")
    if pauses is None or str(line).strip() not in ("c", "cont", "continue"):
        return False
    return bool(pauses.cancel()["state"] == "cancelled")


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


def _hold(message: dict[str, Any], listener: Listener) -> Any:
    """Hold the timeouts of process groups for so many seconds, or 0: no longer."""
    from rankdbg.agent import timeouts

    seconds = min(3600.0, max(0.0, float(message.get("lease", 0.0))))
    holder = str(message.get("holder"))
    if not seconds:
        return timeouts.release(holder)
    return timeouts.hold(holder, seconds, look=not message.get("renewal"))


def _collectives(message: dict[str, Any], listener: Listener) -> Any:
    """What torch's flight recorders hold, if the program has loaded torch."""
    from rankdbg.agent import collectives

    return collectives.collect()


def _profile(message: dict[str, Any], listener: Listener) -> Any:
    """Begin to record where time or memory goes, or end it and write it down."""
    from rankdbg.agent import profiling

    if message.get("do") == "begin":
        return profiling.begin(message)
    return profiling.end(min(3600.0, max(0.1, float(message.get("timeout", 5.0)))))


QUESTIONS = {
    "ping": _ping,
    "card": _card,
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
    "profile": _profile,
}
