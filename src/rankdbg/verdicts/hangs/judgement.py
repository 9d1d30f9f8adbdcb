"""Who holds the others up, and why: the evidence of a whole job -> a verdict.

Each rank has a sign (hang_rules). culprits.py says who is accused; here it is weighed whether the
job is stuck at all, and how sure that is. No rank is accused in a job that makes progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rankdbg.verdicts.hangs import culprits, ray_causes, spark_waits, starting, starved
from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.accused_case import AccusedCase
from rankdbg.verdicts.hangs.child_signs import find_signs, has_unseen_children
from rankdbg.verdicts.hangs.evidence import Evidence
from rankdbg.verdicts.hangs.gpu_kernels import one_of_the_program
from rankdbg.verdicts.hangs.hang_rules import ROLES, HangRule, Role, Sign
from rankdbg.verdicts.hangs.patience import PATIENCE, WATCHED, seconds_needed, weighed_as
from rankdbg.verdicts.hangs.ray_culprits import Awaited, RayFindings
from rankdbg.verdicts.hangs.work_waits import sleeps_for_long
from rankdbg.verdicts.waits.wait_links import Party, ProcessPlace

# By dumps alone: `waiting` for a rank that may be at work; `unclear`: no rank waits for another.
State = Literal["stuck", "moving", "idle", "starting", "ending", "ended", "waiting", "unclear"]
Confidence = Literal["high", "medium", "low"]

# How often a second a wait for an object in Ray's store wakes up by itself, at most.
OBJECT_WAIT_WAKES = 20.0
# Processes younger than this are not late.
STARTING_SECONDS = 5.0


@dataclass(frozen=True)
class Verdict:
    state: State
    findings: tuple[Accusation, ...] = ()  # the first is the answer
    waiting: tuple[Sign, ...] = ()  # for the accused
    confidence: Confidence = "low"
    reasons: tuple[str, ...] = ()  # for the confidence
    waited: float | None = None  # seconds, as recorders know, or the kernel
    started: float | None = None  # seconds ago, if it is stuck at its start
    usual: float | None = None  # seconds between collectives
    signs: tuple[Sign, ...] = ()
    unsure: tuple[Sign, ...] = ()  # native frames of these might say more
    watch_longer: float = 0.0  # seconds that would settle it
    suspects: tuple[Sign, ...] = ()  # those that are accused, or would be
    unseen_children: tuple[Sign, ...] = ()  # the children of these might say more
    may_poll: tuple[Sign, ...] = ()  # native frames tell whether these compute, or poll in a wait
    awaited: Awaited | None = None  # by a driver or actor of Ray, whether that is at work or not
    starved: tuple[Party, ...] = ()  # of a job that may move: those that get no processor
    may_be_starved: tuple[Sign, ...] = ()  # another look at these would tell
    unread: tuple[ProcessPlace, ...] = ()  # processes at the end of a wait that were not looked at

    @property
    def stuck(self) -> bool:
        return self.state == "stuck"


def judge(evidence: Evidence, rules: Sequence[HangRule]) -> Verdict:
    signs = spark_waits.settle(find_signs(evidence.ranks, rules))
    case = AccusedCase(evidence, signs, rules)
    verdict = _weigh_dumps(case) if evidence.dumped else _with_ray(_weigh(case), case.ray)
    unsure = [sign for sign in signs if sign.rule.unsure and not sign.seen.native]
    children = [] if _moves_on(verdict, signs) else [s for s in signs if has_unseen_children(s)]
    return replace(
        verdict,
        signs=tuple(signs),
        unsure=tuple(unsure),
        unseen_children=tuple(children),
        may_poll=tuple(_may_poll(signs, unsure)),
        starved=verdict.starved or (starved.among(signs) if verdict.state == "moving" else ()),
    )


def _with_ray(verdict: Verdict, ray: RayFindings | None) -> Verdict:
    """With what is waited for in Ray, stuck or not."""
    if ray is None:
        return verdict
    return replace(verdict, awaited=ray.awaited, unread=ray.unread)


def _may_poll(signs: Sequence[Sign], unsure: Iterable[Sign]) -> list[Sign]:
    """Those that compute at one line while no rank of the job is seen to make progress: MPI and
    CUDA wait so."""
    if len(signs) < 2 or any(sign.seen.stirred for sign in signs):
        return []
    return [sign for sign in unsure if sign.seen.computes]


def _moves_on(verdict: Verdict, signs: Iterable[Sign]) -> bool:
    """Whether it does not matter what single ranks wait for."""
    settled = not verdict.stuck and verdict.watch_longer <= 0
    return settled and any(sign.seen.stirred for sign in signs)


# --- whether, and how sure --------------------------------------------------------------------


def _weigh(case: AccusedCase) -> Verdict:
    """Whether the job is stuck at all."""
    if case.signs and all(sign.seen.rank.state == "exiting" for sign in case.signs):
        return Verdict("ending")
    if not case.findings:
        return Verdict(case.ray.state if case.ray else _state_without_culprits(case))
    first = case.findings[0]
    waiting = _waiting_for_accused(case)
    waited = case.asleep if case.waited is None else case.waited
    moving = Verdict("moving", waiting=waiting, waited=waited, usual=case.usual)
    if case.passes_locks_on or any(_shows_progress(sign, first) for sign in waiting):
        return moving
    if first.cause == "rank-never-started" and case.youngest < STARTING_SECONDS:
        return replace(moving, state="starting")
    if not waiting and first.level < ROLES.index("held") and case.goes_on:
        return moving
    role = weighed_as(first)
    if _is_still_starting(case, first, role, waiting):
        return replace(moving, state="starting")
    if starting.is_ordinary(role, first.signs, waiting, case.signs):
        return moving
    moving = replace(moving, suspects=first.signs)
    if case.go_on:
        return moving
    if without_processor := starved.find(case, first, waiting):
        return replace(moving, starved=without_processor)
    longer = seconds_needed(case, role, first.signs)
    if longer > 0:
        return replace(moving, watch_longer=longer)
    return replace(
        moving,
        state="stuck",
        findings=tuple(case.findings),
        confidence=_confidence(case, role),
        reasons=_reasons(case),
        may_be_starved=starved.may_be(case, first, waiting),
        started=case.youngest if starting.waits_at_start(case.waiting) else None,
    )


def _shows_progress(sign: Sign, accused: Accusation) -> bool:
    """A wait for an object in the store asks for it anew, a few times a second."""
    seen = sign.seen
    if accused.cause != ray_causes.OBJECTS or not seen.stirred:
        return seen.stirred
    woken = seen.after.woken - seen.before.woken
    return seen.moving or seen.stepped or woken > OBJECT_WAIT_WAKES * seen.seconds


def _weigh_dumps(case: AccusedCase) -> Verdict:
    """Nothing tells for how long ranks have been where they are; two dumps of one rank tell
    whether it moves."""
    waiting = _waiting_for_accused(case) if case.findings else ()
    watched = [sign.seen for sign in case.signs]
    is_single = any(len(seen.samples) < 2 for seen in watched)
    if any(sign.seen.stirred for sign in waiting):
        return Verdict("moving", waiting=waiting)
    role = weighed_as(case.findings[0]) if case.findings else None
    if role is None or (not waiting and role != "held" and is_single):
        if case.signs and case.is_idle:
            return Verdict("idle")
        return Verdict("unclear" if is_single or not any(s.stirred for s in watched) else "moving")
    first = case.findings[0]
    has_moved = any(sign.seen.stirred for sign in first.signs)
    if has_moved and any(sign.seen.roams for sign in first.signs):
        return Verdict("moving", waiting=waiting)
    may_be_at_work = role == "working" or first.cause == "unknown" or has_moved
    return Verdict(
        "waiting" if may_be_at_work and (is_single or has_moved) else "stuck",
        findings=tuple(case.findings),
        waiting=waiting,
        confidence="low" if may_be_at_work or first.cause == "waits-for-lock" else "medium",
        reasons=_reasons_of_dumps(case, is_single),
    )


def _reasons_of_dumps(case: AccusedCase, is_single: bool) -> tuple[str, ...]:
    if is_single:
        return ("one dump of each rank: it shows where ranks are, not whether they make progress",)
    fewest = min(len(sign.seen.samples) for sign in case.signs)
    return (f"no rank that waits has moved between {fewest} dumps", "dumps contain no times")


def _is_still_starting(
    case: AccusedCase, first: Accusation, role: Role, waiting: tuple[Sign, ...]
) -> bool:
    if first.cause != "master-unreachable":
        return starting.is_early(role, first.signs, waiting)
    if starting.misdirected(case.signs):
        return False
    return min(sign.seen.after.age for sign in first.signs) < starting.CONNECTING


def _waiting_for_accused(case: AccusedCase) -> tuple[Sign, ...]:
    """Those of its world, where recorders know worlds: others may wait for something else."""
    accused = {rank.process for finding in case.findings for rank in finding.ranks}
    world = case.findings[0].world
    chain = {link.who.place for link in case.findings[0].chain}
    if chain:
        members = {process for process in case.by_process if ProcessPlace(*process[:2]) in chain}
    elif world is not None and len(case.evidence.worlds) > 1:
        members = {rank.process for rank in world.ranks.values()}
    else:
        members = {*case.by_process}
    return tuple(
        sign
        for sign in case.waiting
        if sign.seen.rank.process in members and sign.seen.rank.process not in accused
    )


def _confidence(case: AccusedCase, role: Role) -> Confidence:
    first = case.findings[0]
    followed = first.chain or first.behind
    if first.cause in ("unknown", "elsewhere", "waits-for-lock") and not followed:
        return "low"
    if first.cause == "sleeping" and not any(map(sleeps_for_long, first.signs)):
        return "low"  # it looks again and again for what another one may owe
    if first.culprit is not None and first.culprit.is_undecided:
        return "medium"
    if culprits.is_by_line(first):
        return "low"  # that line may belong to a group of which others are missing
    recorded = (first.culprit is not None or first.party is not None) and case.waited is not None
    # One that computes may have far more to do than the others, however long they have waited.
    long = recorded and role != "working" and (case.waited or 0.0) > 2 * PATIENCE["own"]
    if role == "held" or long:
        return "high"
    is_seen = any(one_of_the_program(sign.seen.kernels) for sign in first.signs)
    may_work = role == "working" and case.waited is None and not is_seen
    return "low" if may_work else "medium"


def _reasons(case: AccusedCase) -> tuple[str, ...]:
    first = case.findings[0]
    reasons = []
    if first.signs:
        seen = first.signs[0].seen
        reasons.append(
            f"there in {seen.there} of {len(seen.samples)} samples over {case.watched:.1f} s"
        )
        if (child := first.signs[0].child) is not None and child.seen.place is not None:
            looks = f"{child.seen.there} of {len(child.seen.samples)} samples"
            reasons.append(f"process {child.seen.rank.pid} in {looks}")
    else:
        reasons.append(f"the other ranks were watched for {case.watched:.1f} s")
    if first.culprit is not None and not first.culprit.is_undecided:
        inside = len(first.culprit.waiting)
        members = len(first.culprit.group.members)
        reasons.append(f"{first.culprit.operation.name} entered by {inside} of {members} ranks")
    if case.waited is not None and case.usual is not None:
        reasons.append(
            f"the ranks have waited {case.waited:.0f} s; the usual wait is {case.usual:.1g} s"
        )
    return tuple(reasons)


def _state_without_culprits(case: AccusedCase) -> State:
    signs = case.signs
    if not signs:
        return "ended"
    if all(sign.rule.role in ("idle", "outside") for sign in signs):
        return "moving" if any(sign.seen.stirred for sign in signs) else "idle"
    if case.waiting and not any(s.seen.stirred or s.seen.is_starved for s in case.waiting):
        if case.youngest < STARTING_SECONDS or starting.is_driver_alone(signs):
            return "starting"
        if not case.not_waiting and not _all_young(case):
            return "stuck"
    return "moving"


def _all_young(case: AccusedCase) -> bool:
    """All are in a collective that has just begun."""
    if case.waited is not None:
        return case.waited < PATIENCE["own"]
    return case.watched < WATCHED["own"]
