"""The answers of an agent: one function for each of its questions (wire/questions.py).

Each gets the question, and a function that returns the present card of this process.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import active, announcing, card, describe, evaluate, stacks, threads
from rankdbg.agent.stops import stopped_threads
from rankdbg.process import identity
from rankdbg.wire import questions as asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Card = Callable[[], dict[str, Any]]

# Less than the node waits for an agent before it probes the process from outside.
LOCALS_SECONDS = 0.7
# The output of a command is announced if it is no longer than this.
LONGEST_ANNOUNCED = 4096


def answer(message: dict[str, Any], current_card: Card) -> dict[str, Any]:
    ident = message.get("id")
    try:
        question = asked.read_question(message, asked.BY_AGENT)
        return {"id": ident, "answer": ANSWERS[type(question)](question, current_card)}
    except asked.BadQuestion as error:
        return {"id": ident, "error": {"what": str(error)}}
    except BaseException as error:  # a repr() of the program may raise anything
        return {"id": ident, "error": {"what": describe.exception_text(error)[:500]}}


def _ping(question: asked.Ping, current_card: Card) -> Any:
    return {}


def _card(question: asked.ReadCard, current_card: Card) -> Any:
    """The present card, where the process is stopped or else where its main thread is, and how
    many modules it has loaded."""
    current = current_card()
    for paused_by in active.paused_by:
        if paused := paused_by():
            current = {**current, "labels": {**current["labels"], "paused": paused}}
    stopped = stopped_threads.everyone()
    thread = stopped_threads.find().thread if stopped else None
    return {
        **current,
        "where": None if _waits_for_editor() else stacks.where(thread),
        "step": card.step,
        "modules": len(sys.modules),
        "stops": [stop.report() for stop in stopped],
    }


def _stacks(question: asked.ReadStacks, current_card: Card) -> Any:
    if question.locals:
        try:
            return threads.within(
                question.tolerance(LOCALS_SECONDS), _collect_stacks, question, True
            )
        except threads.Late:  # a repr() of the program takes too long
            pass
    return _collect_stacks(question, with_locals=False)


def _collect_stacks(question: asked.ReadStacks, with_locals: bool) -> Any:
    found = stacks.collect(question.threads == "all", with_locals)
    if question.tasks and "asyncio.tasks" in sys.modules:
        from rankdbg.agent import task_stacks

        found["threads"] += task_stacks.collect(with_locals)
    return found


def _evaluate(question: asked.Evaluate, current_card: Card) -> Any:
    place = question.frame, question.thread
    return evaluate.evaluate(question.expression, *place, question.limit)


def _stops(question: asked.ListStops, current_card: Card) -> Any:
    limited = active.operations_with_limits
    return {
        "stops": [_with_sources(stop, stop.report()) for stop in stopped_threads.everyone()],
        "in_flight": limited() if limited is not None else [],
    }


def announcement(current_card: Card) -> dict[str, Any] | None:
    """The answers to `card` and `stops` together, if they stay the same until a thread continues.
    None while an editor is attached, or while the limit of an operation runs out."""
    if not stopped_threads.everyone() or active.editor is not None:
        return None
    both = {
        **_card(asked.ReadCard(), current_card),
        **_stops(asked.ListStops(), current_card),
    }
    unchanging = all(
        stop["state"] == "stopped" and len(stop["output"]) <= LONGEST_ANNOUNCED
        for stop in both["stops"]
    )
    return both if unchanging and both["stops"] and not both["in_flight"] else None


def _with_sources(stop: stopped_threads.Stop, report: dict[str, Any]) -> dict[str, Any]:
    from rankdbg.agent.stops import source_texts

    return {**report, "sources": source_texts.check(stop.stack)}


def _command(question: asked.RunCommand, current_card: Card) -> Any:
    """Have pdb execute one line, or without a line wait for the end of the last; returns what it
    printed. With `next`, waits up to the timeout for a rank that has continued to stop again.

    A command that shows source text is not executed if this process lacks the text and the client
    may have it: a client that can send text lists the files that it is `without`.
    """
    line, without = question.line, question.without
    cancelled = _cancels_a_pause(line)
    if question.next:
        stopped_threads.wait_for_one(question.limit)
    try:
        stop = stopped_threads.find(names=question.threads or [])
    except LookupError as error:
        state = "cancelled" if cancelled else "none"
        if _is_continue(line) and _waits_for_editor():
            from rankdbg.agent.editor import editor_wait

            state = "ended" if editor_wait.release() else state
        return {"state": state, "output": "", "why": error.args[0], "where": stacks.where()}
    from rankdbg.agent.stops import source_texts

    shows_text = str(line).strip().partition(" ")[0] in source_texts.SHOWING
    if without is not None and shows_text and not source_texts.lacking(stop.stack) <= {*without}:
        return {**_with_sources(stop, stop.report()), "held": True}
    return _with_sources(stop, stop.command(line, question.limit))


def _digest_source(question: asked.DigestSource, current_card: Card) -> Any:
    from rankdbg.agent.stops import source_texts

    return source_texts.digest(question.file)


def _read_source(question: asked.ReadSource, current_card: Card) -> Any:
    from rankdbg.agent.stops import source_texts

    return source_texts.read(question.file)


def _give_source(question: asked.GiveSource, current_card: Card) -> Any:
    from rankdbg.agent.stops import source_texts

    return source_texts.give(question.file, question.text)


def _digest_sources(question: asked.DigestSources, current_card: Card) -> Any:
    from rankdbg.agent.stops import source_texts

    return {"digests": source_texts.digests()}


def _cancels_a_pause(line: str | None) -> bool:
    """`continue` also cancels the pause of a rank that has not yet returned from C."""
    return active.cancel_pause is not None and _is_continue(line) and active.cancel_pause()


def _is_continue(line: Any) -> bool:
    return str(line).strip() in ("c", "cont", "continue")


def _waits_for_editor() -> bool:
    """Before the first line of the program: it is nowhere yet."""
    return any(paused_by() == identity.WAITS_FOR_EDITOR for paused_by in active.paused_by)


def _environment(question: asked.ReadEnvironment, current_card: Card) -> Any:
    """What a snapshot saves of a process beside its stacks."""
    versions = {}
    for name in ("torch", "numpy", "jax", "ray", "vllm", "sglang", "transformers", "deepspeed"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = str(version)
    return {"environment": dict(os.environ), "versions": versions, "path": list(sys.path)}


def _pause(question: asked.Pause, current_card: Card) -> Any:
    from rankdbg.agent.stops import pauses

    if question.cancel:
        return pauses.cancel()
    return pauses.pause(question.limit, question.tolerance(pauses.WAIT_SECONDS))


def _set_break(question: asked.SetBreak, current_card: Card) -> Any:
    from rankdbg.agent.stops import break_requests

    place = question.file, question.line
    wait = question.tolerance(break_requests.MAIN_SECONDS)
    return break_requests.add(*place, question.condition, question.log, question.together, wait)


def _open_breaks(question: asked.OpenBreaks, current_card: Card) -> Any:
    from rankdbg.agent.stops import break_gates

    return break_gates.open_from(question.kind, question.count, question.measuring)


def _confirm_breaks(question: asked.ConfirmBreaks, current_card: Card) -> Any:
    from rankdbg.agent.stops import break_gates

    return break_gates.confirm()


def _clear_breaks(question: asked.ClearBreaks, current_card: Card) -> Any:
    from rankdbg.agent.stops import break_requests

    wait = question.tolerance(break_requests.MAIN_SECONDS)
    return break_requests.clear(question.file, question.line, wait)


def _list_breaks(question: asked.ListBreaks, current_card: Card) -> Any:
    from rankdbg.agent.stops import break_requests

    return break_requests.listing()


def _hold(question: asked.HoldLease, current_card: Card) -> Any:
    from rankdbg.agent.groups import timeouts

    seconds = min(3600.0, max(0.0, question.lease))
    if not seconds:
        return timeouts.release(question.holder)
    held = timeouts.hold(question.holder, seconds, look=not question.renewal)
    if not question.renewal:
        announcing.changed()
    return held


def _collectives(question: asked.ReadCollectives, current_card: Card) -> Any:
    """The content of torch's flight recorders, if the program has loaded torch."""
    from rankdbg.agent.groups import recorded_collectives

    return recorded_collectives.collect()


def _ray_waits(question: asked.ReadRayWaits, current_card: Card) -> Any:
    from rankdbg.agent.frameworks import ray_waits

    return {"waits": ray_waits.collect() if "ray" in sys.modules else []}


def _thread_waits(question: asked.ReadThreadWaits, current_card: Card) -> Any:
    from rankdbg.agent import thread_waits

    return thread_waits.collect()


def _change_history(question: asked.ChangeHistory, current_card: Card) -> Any:
    if question.modules is not None:
        from rankdbg.agent.history import module_calls

        return module_calls.set_depth(max(0, question.modules))
    from rankdbg.agent.history import branches

    return branches.trace(question.trace)


def _replicas(question: asked.HashReplicas, current_card: Card) -> Any:
    from rankdbg.agent.replicas import replica_answers

    return replica_answers.hashes(question.kinds, question.step, question.limit)


def _replica_blocks(question: asked.ReadReplicaBlocks, current_card: Card) -> Any:
    from rankdbg.agent.replicas import replica_answers

    wanted, limit = question.blocks, question.limit
    return replica_answers.blocks(question.tensors, wanted, question.step, limit)


def _keep_replicas(question: asked.KeepReplicas, current_card: Card) -> Any:
    from rankdbg.agent.replicas import kept_hashes

    return kept_hashes.keep(question.every, question.kinds)


def _kept_replicas(question: asked.ReadKeptReplicas, current_card: Card) -> Any:
    from rankdbg.agent.replicas import kept_hashes

    return kept_hashes.kept(question.step, question.tensors)


def _module_calls(question: asked.TraceModules, current_card: Card) -> Any:
    from rankdbg.agent.replicas import replica_answers

    under, inside = question.under, question.inside
    return replica_answers.calls(question.step, under, inside, question.limit)


def _read_nan(question: asked.ReadNan, current_card: Card) -> Any:
    from rankdbg.agent.nonfinite import nan_answers

    return nan_answers.read()


def _arm_nan(question: asked.ArmNan, current_card: Card) -> Any:
    from rankdbg.agent.nonfinite import arming

    return arming.arm(question.exact) if question.on else arming.disarm()


def _start_profiler(question: asked.StartProfiler, current_card: Card) -> Any:
    from rankdbg.agent.profilers import profile_runs

    return profile_runs.begin(question)


def _stop_profiler(question: asked.StopProfiler, current_card: Card) -> Any:
    from rankdbg.agent.profilers import profile_runs

    return profile_runs.end(max(0.1, question.limit))


def _load_editor(question: asked.LoadEditor, current_card: Card) -> Any:
    from rankdbg.agent.editor import debug_adapter

    threads.start(debug_adapter.load_ahead)
    return {}


def _release_from_wait(question: asked.ReleaseFromWait, current_card: Card) -> Any:
    from rankdbg.agent.editor import editor_wait

    return {"waited": editor_wait.release()}


ANSWERS: dict[type[asked.Question[Any]], Callable[[Any, Card], Any]] = {
    asked.Ping: _ping,
    asked.ReadCard: _card,
    asked.ReadStacks: _stacks,
    asked.Evaluate: _evaluate,
    asked.ReadEnvironment: _environment,
    asked.ReadCollectives: _collectives,
    asked.ReadRayWaits: _ray_waits,
    asked.ReadThreadWaits: _thread_waits,
    asked.ChangeHistory: _change_history,
    asked.HashReplicas: _replicas,
    asked.ReadReplicaBlocks: _replica_blocks,
    asked.KeepReplicas: _keep_replicas,
    asked.ReadKeptReplicas: _kept_replicas,
    asked.TraceModules: _module_calls,
    asked.ReadNan: _read_nan,
    asked.ArmNan: _arm_nan,
    asked.DigestSource: _digest_source,
    asked.ReadSource: _read_source,
    asked.GiveSource: _give_source,
    asked.DigestSources: _digest_sources,
    asked.ListStops: _stops,
    asked.RunCommand: _command,
    asked.Pause: _pause,
    asked.SetBreak: _set_break,
    asked.OpenBreaks: _open_breaks,
    asked.ConfirmBreaks: _confirm_breaks,
    asked.ClearBreaks: _clear_breaks,
    asked.ListBreaks: _list_breaks,
    asked.HoldLease: _hold,
    asked.StartProfiler: _start_profiler,
    asked.StopProfiler: _stop_profiler,
    asked.LoadEditor: _load_editor,
    asked.ReleaseFromWait: _release_from_wait,
}
