"""Who holds the others up, and why: the evidence of a whole job -> a verdict.

Each rank has a sign (hang_rules). Flight recorders, where there are any, say who is missing from
which collective; else the signs do: of ranks that wait and one that does something else, it is
the other one. Nobody is accused of a job that comes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from rankdbg import grouping
from rankdbg.verdicts.collectives import Culprit
from rankdbg.verdicts.evidence import Evidence
from rankdbg.verdicts.hang_rules import ROLES, UNKNOWN, HangRule, Role, Sign, find_sign

State = Literal["stuck", "moving", "idle", "starting", "ended"]
Confidence = Literal["high", "medium", "low"]

WAITING = ("collective", "store")
# Others have waited for this long before somebody who is at work is accused; and for so many
# times as long as they usually do, where that is known.
PATIENCE = {"working": 10.0, "outside": 3.0, "own": 2.0, "held": 1.0}
TIMES_AS_USUAL = 5.0
ENOUGH_SAMPLES = 8
ROAMING = 60.0  # for one that is seen in one function after another
# Without flight recorders, the time for which we watched is all that is known.
WATCHED = {"working": 4.0, "outside": 3.0, "own": 1.0, "held": 0.0}
# Processes younger than this are not late.
STARTING_SECONDS = 5.0


@dataclass(frozen=True)
class Finding:
    """Ranks that hold others up, all for one cause."""

    cause: str
    guilty: tuple[int, ...]
    signs: tuple[Sign, ...]  # of the guilty, where they could be seen
    says: str
    why: str
    fix: str
    level: int
    culprit: Culprit | None = None


@dataclass(frozen=True)
class Verdict:
    state: State
    findings: tuple[Finding, ...] = ()  # the first is the answer
    victims: tuple[Sign, ...] = ()
    confidence: Confidence = "low"
    reasons: tuple[str, ...] = ()  # for the confidence
    waited: float | None = None  # seconds, as recorders know
    usual: float | None = None  # seconds between collectives
    signs: tuple[Sign, ...] = ()
    unsure: tuple[Sign, ...] = ()  # native frames of these might say more
    watch_longer: float = 0.0  # seconds that would settle it

    @property
    def stuck(self) -> bool:
        return self.state == "stuck"


class _Case:
    """What leads to the verdict."""

    def __init__(self, evidence: Evidence, signs: list[Sign]) -> None:
        self.evidence = evidence
        self.signs = signs
        self.by_number = {s.seen.rank.number: s for s in signs if s.seen.rank.number is not None}
        recorded = evidence.collectives.waits if evidence.collectives else {}
        self.waiting = [
            sign
            for sign in signs
            if sign.rule.role in WAITING
            or (sign.seen.rank.number in recorded and sign.rule.role not in ("held", "own"))
        ]

    @cached_property
    def findings(self) -> list[Finding]:
        return _by_recorders(self) or _by_absence(self) or _by_signs(self)

    @property
    def watched(self) -> float:
        return max((seen.seconds for seen in self.evidence.ranks), default=0.0)

    @property
    def youngest(self) -> float:
        """The age of the youngest process."""
        return min((seen.after.age for seen in self.evidence.ranks), default=0.0)

    @cached_property
    def waited(self) -> float | None:
        """For how long the ranks of a collective have been in it, as recorders know."""
        collectives = self.evidence.collectives
        if collectives is None:
            return None
        ages = [
            (collectives.job.traces[rank].now - wait.operation.created) / 1e9
            for rank, wait in collectives.waits.items()
            if collectives.job.traces[rank].now and wait.operation.created
        ]
        return max(ages, default=None)

    @cached_property
    def usual(self) -> float | None:
        """The longer ones of the times between two collectives of a rank."""
        collectives = self.evidence.collectives
        if collectives is None:
            return None
        gaps = []
        for trace in collectives.job.traces.values():
            times = sorted(op.created for op in trace.operations if op.finished and op.created)
            gaps += [(b - a) / 1e9 for a, b in pairwise(times)]
        return sorted(gaps)[int(0.9 * (len(gaps) - 1))] if len(gaps) >= 2 else None


def judge(evidence: Evidence, rules: Sequence[HangRule]) -> Verdict:
    signs = [find_sign(seen, rules) for seen in evidence.ranks]
    verdict = _weigh(_Case(evidence, signs))
    unsure = [sign for sign in signs if sign.rule.unsure and not sign.seen.native]
    return replace(verdict, signs=tuple(signs), unsure=tuple(unsure))


# --- who --------------------------------------------------------------------------------------


def _by_recorders(case: _Case) -> list[Finding]:
    """Those who are missing from a collective, by what recorders say."""
    collectives = case.evidence.collectives
    found = []
    for culprit in collectives.culprits if collectives else ():
        for group in _of_one_cause(case, culprit.ranks):
            found.append(_accuse_culprit(case, culprit, group))
    return sorted(found, key=lambda f: (-len(f.culprit.waiting) if f.culprit else 0, -f.level))


def _of_one_cause(case: _Case, numbers: Iterable[int]) -> list[list[int]]:
    causes: dict[str, list[int]] = defaultdict(list)
    for number in numbers:
        sign = case.by_number.get(number)
        causes[sign.rule.cause if sign else ""].append(number)
    return list(causes.values())


def _accuse_culprit(case: _Case, culprit: Culprit, numbers: list[int]) -> Finding:
    signs = tuple(case.by_number[n] for n in numbers if n in case.by_number)
    if not signs and {*numbers} <= {rank.number for rank in case.evidence.others}:
        why = "Others wait for it, and it was not to be looked at."
        says = "it was not looked at"
        return Finding("elsewhere", tuple(numbers), (), says, why, "rankdbg why", 0, culprit)
    if not signs:
        return _absent(case, numbers, culprit)
    sign = signs[0]
    if sign.rule.cause not in ("in-collective", "host-waits-for-gpu", "unknown"):
        return _accuse(signs, culprit)
    cause, why, fix = _OF_CULPRITS["mismatch" if culprit.reason == "mismatch" else "missing"]
    on_gpu = sign.rule.cause == "host-waits-for-gpu"
    if culprit.reason == "not started" or (culprit.reason == "behind" and on_gpu):
        cause, why, fix = _OF_CULPRITS["not started"]
    elif sign.rule.cause == "unknown":
        cause, why, fix = "elsewhere", "It does something that the others do not.", sign.fix
    return Finding(cause, tuple(numbers), signs, sign.says, why, fix, sign.level, culprit)


_OF_CULPRITS = {
    "mismatch": (
        "collective-mismatch",
        "All ranks of a group must call the same collectives, of the same sizes and types, in "
        "the same order.",
        "compare the lines: rankdbg collectives; look for an `if` that depends on the rank or "
        "on its data",
    ),
    "missing": (
        "missing-from-collective",
        "It has not called a collective for which others wait, and waits in another.",
        "compare the lines: rankdbg collectives; look for an `if` that depends on the rank or "
        "on its data",
    ),
    "not started": (
        "kernel-never-ends",
        "Its GPU has not come to the kernel of the collective: an earlier one does not end.",
        "rankdbg stacks --cuda names the kernel that runs there",
    ),
}


def _by_absence(case: _Case) -> list[Finding]:
    """Ranks that have ended, or have never come, and for whom others wait."""
    absent: set[int] = set()
    if case.waiting or not (_goes_on(case.signs) or _all_idle(case.signs)):
        absent |= {r.number for r in case.evidence.gone if r.number is not None}
    if case.waiting:
        absent |= {*case.evidence.missing}
    return [_absent(case, sorted(absent), None)] if absent else []


def _absent(case: _Case, numbers: Sequence[int], culprit: Culprit | None) -> Finding:
    gone = {r.number: r for r in case.evidence.gone}
    at_start = bool(case.waiting) and all(s.rule.cause in _AT_START for s in case.waiting)
    died = [number for number in numbers if number in gone] or not at_start
    many = len(numbers) > 1
    if died:
        cause, says = "rank-died", f"{'their processes are' if many else 'its process is'} gone"
        why = "The process ended, or was killed; the others wait for it."
        fix = "rankdbg doctor LOGS says why; look at dmesg for an OOM kill"
    else:
        cause, says = (
            "rank-never-started",
            f"no process of {'these ranks' if many else 'this rank'}",
        )
        why = "The others wait at the start until all ranks have come."
        fix = "look at the launcher's own output: did it start there, did it fail at import?"
    return Finding(cause, tuple(numbers), (), says, why, fix, len(ROLES), culprit)


_AT_START = ("waits-for-ranks", "master-unreachable", "nccl-bootstrap")


def _by_signs(case: _Case) -> list[Finding]:
    """Where no recorder tells: who does something else than wait."""
    others = [sign for sign in case.signs if sign not in case.waiting]
    if case.waiting and others:
        return _worst(others)
    if case.waiting:
        return _odd_of_waiting(case)
    # Nobody waits: only what is known to stand, and has not run for a moment, is accused.
    return _worst(
        [
            sign
            for sign in others
            if sign.rule.role == "held"
            or (sign.rule.role == "own" and sign.rule is not UNKNOWN and sign.seen.motionless)
        ]
    )


def _worst(signs: Sequence[Sign]) -> list[Finding]:
    """Of each cause one finding; those of the highest level alone."""
    level = max((sign.level for sign in signs), default=0)
    causes: dict[str, list[Sign]] = defaultdict(list)
    for sign in signs:
        if sign.level == level:
            causes[sign.rule.cause].append(sign)
    return sorted((_accuse(same) for same in causes.values()), key=lambda f: len(f.guilty))


def _odd_of_waiting(case: _Case) -> list[Finding]:
    """All wait. Who waits for the master, or at another line than most?"""
    levels = {sign.level for sign in case.waiting}
    if len(levels) > 1:
        return _worst(case.waiting)
    if case.waiting[0].rule.role == "store":
        return _worst(case.waiting)
    if all(sign.rule.cause == "host-waits-for-gpu" for sign in case.waiting):
        return [_kernel_never_ends(case.waiting)]
    places: dict[object, list[Sign]] = defaultdict(list)
    for sign in case.waiting:
        places[sign.seen.frames].append(sign)
    groups = sorted(places.values(), key=len)
    odd = grouping.odd_ones_out([len(group) for group in groups])
    found = [group for group, is_odd in zip(groups, odd, strict=True) if is_odd]
    cause, why, fix = _OF_CULPRITS["mismatch"]
    return [
        Finding(cause, _numbers(group), tuple(group), group[0].says, why, fix, group[0].level)
        for group in found
    ]


def _kernel_never_ends(signs: Sequence[Sign]) -> Finding:
    """All wait for their GPUs, and no recorder knows of a collective that somebody misses."""
    why = "A kernel that runs on the GPU does not end: one of the program's own, or a collective's."
    fix = "rankdbg stacks --cuda names the kernel; for collectives, rankdbg collectives"
    finding = _accuse(signs)
    return replace(finding, cause="kernel-never-ends", why=why, fix=fix)


def _accuse(signs: Sequence[Sign], culprit: Culprit | None = None) -> Finding:
    sign = signs[0]
    return Finding(
        sign.rule.cause,
        _numbers(signs),
        tuple(signs),
        sign.says,
        sign.rule.why,
        sign.fix,
        sign.level,
        culprit,
    )


def _numbers(signs: Iterable[Sign]) -> tuple[int, ...]:
    return tuple(sorted(sign.seen.number for sign in signs))


# --- whether, and how sure --------------------------------------------------------------------


def _weigh(case: _Case) -> Verdict:
    """Whether the job is stuck at all."""
    if not case.findings:
        return Verdict(_state_without_culprits(case))
    first = case.findings[0]
    accused = {number for finding in case.findings for number in finding.guilty}
    victims = tuple(sign for sign in case.waiting if sign.seen.number not in accused)
    moving = Verdict("moving", victims=victims, waited=case.waited, usual=case.usual)
    if any(sign.seen.stirred for sign in victims):
        return moving
    if first.cause == "rank-never-started" and case.youngest < STARTING_SECONDS:
        return replace(moving, state="starting")
    if not victims and first.level < ROLES.index("held") and _goes_on(case.signs):
        return moving
    role = _weighed_as(first)
    longer = _needed(case, role, first.signs)
    if longer > 0:
        return replace(moving, watch_longer=longer)
    return replace(
        moving,
        state="stuck",
        findings=tuple(case.findings),
        confidence=_confidence(case, role),
        reasons=_reasons(case),
    )


def _weighed_as(finding: Finding) -> Role:
    """The role by which the time is measured that others must have waited."""
    if finding.cause == "kernel-never-ends":
        return "working"  # many small kernels look the same for a second
    if finding.level >= len(ROLES):  # it is not there
        return "held"
    role = ROLES[finding.level]
    return "own" if role in (*WAITING, "idle") else role


def _all_idle(signs: Iterable[Sign]) -> bool:
    return all(sign.rule.role == "idle" for sign in signs)


def _goes_on(signs: Iterable[Sign]) -> bool:
    """Who waits for a GPU may spin, which is no work."""
    return any(
        s.seen.stirred or (s.seen.computes and s.rule.role not in WAITING)
        for s in signs
        if not s.seen.stop
    )


def _needed(case: _Case, role: Role, accused: Sequence[Sign]) -> float:
    """For how many more seconds others must have waited; 0 or less: they have."""
    if role == "working" and any(sign.seen.roams for sign in accused):
        return ROAMING - (case.watched if case.waited is None else case.waited)
    longer = _needed_by_time(case, role)
    if role != "working" or case.watched >= WATCHED["working"]:
        return longer  # one that holds the GIL gives few samples, however long one looks
    if any(len(sign.seen.samples) < ENOUGH_SAMPLES for sign in accused):
        return max(longer, 1.0)  # that it stays in one function must be no chance
    return longer


def _needed_by_time(case: _Case, role: Role) -> float:
    if case.waited is None:
        return WATCHED[role] - case.watched
    if case.usual is None:
        return PATIENCE[role] - case.waited
    if role == "working":
        return max(3.0, 2 * TIMES_AS_USUAL * case.usual) - case.waited
    return max(1.5, TIMES_AS_USUAL * case.usual) - case.waited


def _confidence(case: _Case, role: Role) -> Confidence:
    first = case.findings[0]
    if first.cause in ("unknown", "elsewhere", "waits-for-lock"):
        return "low"
    recorded = first.culprit is not None and case.waited is not None
    if role == "held" or (recorded and (case.waited or 0.0) > 2 * PATIENCE["own"]):
        return "high"
    return "low" if role == "working" and case.waited is None else "medium"


def _reasons(case: _Case) -> tuple[str, ...]:
    first = case.findings[0]
    reasons = []
    if first.signs:
        seen = first.signs[0].seen
        reasons.append(f"{seen.there} of {len(seen.samples)} samples in {case.watched:.1f} s")
    else:
        reasons.append(f"the others were watched for {case.watched:.1f} s")
    if first.culprit is not None:
        inside = len(first.culprit.waiting)
        everybody = len(first.culprit.group.members)
        reasons.append(f"{first.culprit.operation.name} entered by {inside} of {everybody}")
    if case.waited is not None and case.usual is not None:
        reasons.append(f"waited for {case.waited:.0f} s, usually {case.usual:.1g} s")
    return tuple(reasons)


def _state_without_culprits(case: _Case) -> State:
    signs = case.signs
    if not signs:
        return "ended"
    if all(sign.rule.role in ("idle", "outside") for sign in signs):
        return "moving" if any(sign.seen.stirred for sign in signs) else "idle"
    if case.waiting and not any(s.seen.stirred for s in case.waiting):
        if case.youngest < STARTING_SECONDS:
            return "starting"
        if all(sign in case.waiting for sign in signs) and not _all_young(case):
            return "stuck"
    return "moving"


def _all_young(case: _Case) -> bool:
    """All are in a collective that has just begun."""
    if case.waited is not None:
        return case.waited < PATIENCE["own"]
    return case.watched < WATCHED["own"]
