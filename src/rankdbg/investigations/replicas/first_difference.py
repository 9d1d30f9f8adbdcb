"""The first difference: by step from the hashes that ranks have kept, then what kind of mistake it is,
and which module, and which operator of it, returns different outputs for equal inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rankdbg.investigations.replicas.common_steps import AtOneStep, CommonSteps
from rankdbg.investigations.replicas.findings import Computation, FirstDifference, Machine
from rankdbg.investigations.replicas.results import Replicas
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank
from rankdbg.verdicts.replicas.causes import Cause, find_cause
from rankdbg.verdicts.replicas.differences import Difference, find_differences
from rankdbg.verdicts.replicas.kept_steps import FirstDifferingStep, common_steps
from rankdbg.verdicts.replicas.odd_data import OddData, find_odd_data
from rankdbg.verdicts.replicas.odd_modules import ModulePass, OddModule, find_odd_module
from rankdbg.verdicts.replicas.odd_operators import OperatorPass, find_odd_operator
from rankdbg.wire.replica_answers import ModuleCalls, ReplicaTensor

# Tensors whose cause is looked for.
MOST_CAUSES = 50
# What must be equal at any step; gradients are so after they were reduced.
_LASTING = ("parameter", "buffer")

Tensors = Mapping[ProcessKey, Sequence[ReplicaTensor]]


@dataclass(frozen=True)
class ComparedStep:
    """Of all kinds, at one step."""

    ranks: Sequence[Rank]
    tensors: Tensors
    differences: Sequence[Difference]
    equal_across: Collection[str] = ()


def find_first(
    session: Session, steps: CommonSteps, now: Replicas, evidence: ComparedStep
) -> FirstDifference:
    since, at_first = _first_kept(session, evidence)
    if at_first is None:
        # Gradients that differ while parameters do not are no mistake: they may be reduced later.
        lasting = [each for each in evidence.differences if each.kind in _LASTING]
        at_first = ComparedStep(evidence.ranks, evidence.tensors, lasting or now.differences)
    causes = [
        _cause(each, at_first.tensors, evidence.tensors, now)
        for each in at_first.differences[:MOST_CAUSES]
    ]
    under = _module_around(at_first.differences[0].name) if at_first.differences else ""
    computation = _compute(session, steps, evidence.ranks, under)
    return FirstDifference(since, at_first.differences, tuple(causes), computation)


def _first_kept(
    session: Session, now: ComparedStep
) -> tuple[FirstDifferingStep | None, ComparedStep | None]:
    """By bisection: a parameter that has become different stays so. Without any that was kept, or if
    the last ones are equal, there is no evidence of that step."""
    replies = session.kept_replicas(now.ranks)
    kept = [each.value.steps for each in replies if isinstance(each, Answer)]
    known = common_steps(kept) if len(kept) == len(now.ranks) else []
    if not known or not any(each.kind in _LASTING for each in now.differences):
        return None, None
    last = _at(session, now, known[-1])
    if not last.differences:
        return FirstDifferingStep(None, known[-1]), None
    low, high, found = -1, len(known) - 1, last  # equal at low, different at high
    while high - low > 1:
        middle = (low + high) // 2
        looked = _at(session, now, known[middle])
        if looked.differences:
            high, found = middle, looked
        else:
            low = middle
    return FirstDifferingStep(known[high], known[low] if low >= 0 else None), found


def _at(session: Session, now: ComparedStep, step: int) -> ComparedStep:
    replies = session.kept_replicas(now.ranks, step)
    tensors = {e.rank.process: e.value.tensors for e in replies if isinstance(e, Answer)}
    differences = [
        each
        for each in find_differences(now.ranks, tensors, now.equal_across)
        if each.kind in _LASTING
    ]
    return ComparedStep(now.ranks, tensors, differences, now.equal_across)


def _cause(difference: Difference, then: Tensors, now: Tensors, result: Replicas) -> Cause:
    """By what was kept at that step, where gradients and states were kept too: later ones may differ
    as a consequence."""
    kinds = {each.kind for told in then.values() for each in told}
    tensors = then if {"gradient", "optimizer"} <= kinds else now
    rounding = [
        result.is_rounding(each) for each in result.differences if each.key == difference.key
    ]
    return find_cause(difference, tensors, is_rounding=bool(rounding) and all(rounding))


def _module_around(tensor: str) -> str:
    """layers.17.norm.weight: layers.17"""
    return ".".join(tensor.split(" ")[0].split(".")[:-2])


def _compute(
    session: Session, steps: CommonSteps, ranks: Sequence[Rank], under: str
) -> Computation | None:
    """None if no step came. A second step, where the first one has found something: it follows the
    operators of that module too."""
    one = _follow(session, steps, ranks, under)
    if one is None:
        return None
    modules, data = _modules(one), _data(one)
    if modules.first is None:
        return Computation(modules, one.step, data=data)
    two = _follow(session, steps, ranks, under, modules.first.module)
    if two is None:
        return Computation(modules, one.step, again=False, data=data)
    again = _modules(two).first
    repeated = again is not None and _what(again) == _what(modules.first)
    operators = _operators(two, again) if again is not None and repeated else None
    machines = {rank.process: Machine(value.gpu, value.kind) for rank, value in two.answers}
    return Computation(modules, one.step, repeated, operators, machines, data)


def _follow(
    session: Session,
    steps: CommonSteps,
    ranks: Sequence[Rank],
    under: str,
    inside: str | None = None,
) -> AtOneStep[ModuleCalls] | None:
    return steps.ask_at_step(
        ranks, lambda step: session.module_calls(ranks, step, under, inside, steps.timeout)
    )


def _modules(found: AtOneStep[ModuleCalls]) -> ModulePass:
    calls = {rank.process: value.calls for rank, value in found.answers}
    return find_odd_module([rank for rank, _ in found.answers], calls)


def _data(found: AtOneStep[ModuleCalls]) -> tuple[OddData, ...]:
    calls = {rank.process: value.calls for rank, value in found.answers}
    return find_odd_data([rank for rank, _ in found.answers], calls)


def _operators(found: AtOneStep[ModuleCalls], odd: OddModule) -> OperatorPass:
    operators = {rank.process: value.operators for rank, value in found.answers}
    return find_odd_operator(odd.ranks, operators)


def _what(odd: OddModule) -> object:
    return odd.phase, odd.module, odd.type, [rank.process for rank in odd.odd]
