"""For how long others must have waited before a rank is accused: one that may be at work gets more time,
and much more if something shows that it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankdbg.verdicts.hangs import progress
from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.accused_case import AccusedCase
from rankdbg.verdicts.hangs.case import AT_GPU, WAITING
from rankdbg.verdicts.hangs.chain_ends import ends_for_good
from rankdbg.verdicts.hangs.evidence import Seen
from rankdbg.verdicts.hangs.hang_rules import ROLES, Role, Sign
from rankdbg.verdicts.waits.thread_links import is_circle
from rankdbg.verdicts.waits.wait_links import Link

# Others have waited for this long before a rank that is at work is accused; and for so many
# times as long as they usually do, where that is known.
PATIENCE = {"working": 10.0, "outside": 3.0, "own": 2.0, "held": 1.0}
TIMES_AS_USUAL = 5.0
ENOUGH_SAMPLES = 8
AT_WORK = 600.0  # for one of which something shows that it is at work
# A sleep that ends within this time (seconds) delays the verdict: it may be a retry, or work.
SHORT_SLEEP = 60.0
AWAKE = 1.0  # seconds after a sleep in which the next thing is seen
# Without flight recorders, the time for which we watched is all that is known.
WATCHED = {"working": 4.0, "outside": 3.0, "own": 1.0, "held": 0.0}
# For how long ranks must have waited where only the kernel tells that, and nothing how long they
# usually do.
ALONE = 6.0
# Where others have returned from the same function, one that waits for a server is slow.
MAY_BE_ANSWERED = ("sleeping", "waits-for-network", "waits-for-pipe", "event-loop-awaits")


def weighed_as(finding: Accusation) -> Role:
    """The role by which the time is measured that others must have waited."""
    if finding.cause == "kernel-never-ends" or any(map(_gpu_goes_on, finding.signs)):
        return "working"  # many small kernels look the same for a second
    if finding.level >= len(ROLES):  # it is not there
        return "held"
    role = ROLES[finding.level]
    if finding.cause == "event-loop-awaits" and role == "idle":
        role = "outside"  # an answer may come, or a timer end
    if ends_for_good(finding.behind):
        return "own"
    may_work = any(_may_work(sign.seen, finding) for sign in finding.signs)
    if may_work and (role in ("own", "outside", "idle") or finding.cause == "gil-held"):
        return "working"
    return "own" if role in (*WAITING, "idle") else role


def _may_work(seen: Seen, finding: Accusation) -> bool:
    """What waits for its own threads or children is at work while these compute, what waits for
    data while data arrives, and what sleeps if that is between two functions."""
    moves = owing_thread_moves(seen, finding.behind)
    changed = seen.gets_results
    return seen.works or seen.supplied or seen.roams or seen.tasks_moved or changed or moves


def owing_thread_moves(seen: Seen, chain: Iterable[Link]) -> bool:
    """Whether a thread of a rank's chain was at different places, or gets what it waits for piece
    by piece: it may come to the release."""
    owing = [link.whom.name for link in chain if link.whom.kind == "thread"]
    moved = [thread for thread, (_, moving) in seen.others.items() if moving]
    return any(
        name.startswith(f"thread {thread} (")
        for thread in (*moved, *seen.served_threads)
        for name in owing
    )


def seconds_needed(case: AccusedCase, role: Role, accused: Sequence[Sign]) -> float:
    """For how many more seconds others must have waited; 0 or less: they have."""
    if role == "working" and any(_is_at_work(sign, case.findings[0]) for sign in accused):
        return AT_WORK - (case.watched if case.quiet is None else case.quiet)
    if (asleep := max(map(_sleeps_for, accused), default=0.0)) > 0:
        return asleep + AWAKE
    longer = _needed_by_time(case, role)
    if case.findings[0].cause in MAY_BE_ANSWERED and case.findings[0].usual is not None:
        rest = max(60.0, 10 * case.findings[0].usual) - (case.waited or 0.0)
        unwatched = WATCHED["outside"] - case.watched
        return unwatched if rest > 0 and unwatched > 0 else rest
    if role != "working" or case.watched >= WATCHED["working"]:
        return longer  # one that holds the GIL gives few samples, however long one looks
    if any(len(sign.seen.samples) < ENOUGH_SAMPLES for sign in accused):
        return max(longer, 1.0)  # that it stays in one function must be no chance
    return longer


def _is_at_work(sign: Sign, finding: Accusation) -> bool:
    """Whether something shows that. Who computes in one function of Python, and none of its
    variables changes, may go round in circles; a call of C, another thread or a child that computes
    ends when it is done."""
    seen = sign.seen
    return (
        seen.roams
        or seen.supplied
        or seen.tasks_moved
        or seen.gets_results
        or seen.moves_data
        or sign.progresses
        or owing_thread_moves(seen, finding.behind)
        or _waits_for_unknown_kernel(sign)
        or _gpu_goes_on(sign)
        or (finding.cause not in _OF_C and seen.computes_outside_python)
        or (
            not _only_counts(sign.child)
            and seen.works
            and not seen.computes
            and not is_circle(finding.behind)
        )
    )


def _only_counts(child: Sign | None) -> bool:
    return child is not None and child.seen.only_counts and child.seen.computes


_OF_C = ("garbage-collection", AT_GPU, "compile-hangs")


def _sleeps_for(sign: Sign) -> float:
    """Seconds until a sleep ends that may be part of its work, and of which no end has been seen;
    0 if it does not sleep, sleeps for long, or sleeps again and again, as one that connects."""
    asleep = sign.child or sign
    if asleep.rule.role in WAITING:
        return 0.0
    left = progress.sleeps_for(asleep.seen.before, asleep.seen.after)
    return left if left <= SHORT_SLEEP else 0.0


def _waits_for_unknown_kernel(sign: Sign) -> bool:
    """It polls its GPU, and no figure says that the kernel there does nothing: it may be long."""
    spins = any(gpu.name == "spinning" for gpu in sign.seen.gpus)
    return sign.rule.cause == AT_GPU and sign.seen.computes and not spins


def _gpu_goes_on(sign: Sign) -> bool:
    """The kernel that ran there has ended."""
    return any(kernel.ended for kernel in sign.seen.kernels)


def _needed_by_time(case: AccusedCase, role: Role) -> float:
    if case.quiet is None:
        slept = 0.0 if case.asleep is None or role == "held" else ALONE - case.asleep
        return max(WATCHED[role] - case.watched, slept)
    if case.usual is None:
        return PATIENCE[role] - case.quiet
    if role == "working":
        return max(3.0, 2 * TIMES_AS_USUAL * case.usual) - case.quiet
    return max(1.5, TIMES_AS_USUAL * case.usual) - case.quiet
