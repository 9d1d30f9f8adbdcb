"""Who holds the others up, if any rank does.

Flight recorders, where there are any, say who is missing from which collective; else the signs do:
of ranks that wait and one that does something else, it is the other one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rankdbg import grouping
from rankdbg.selection import format_ranks
from rankdbg.types import Rank
from rankdbg.verdicts.collectives.culprits import Culprit
from rankdbg.verdicts.collectives.worlds import World
from rankdbg.verdicts.hangs import starting, unreachable
from rankdbg.verdicts.hangs.accusations import Accusation, accuse, in_order, ranks_of, with_owners
from rankdbg.verdicts.hangs.case import AT_GPU, FOR_PROCESSES, Case
from rankdbg.verdicts.hangs.chain_ends import name_end
from rankdbg.verdicts.hangs.collective_circles import follow_into_collective
from rankdbg.verdicts.hangs.evidence import why_ended
from rankdbg.verdicts.hangs.gpu_kernels import one_of_the_program
from rankdbg.verdicts.hangs.hang_rules import ROLES, UNKNOWN, Sign
from rankdbg.verdicts.hangs.store_circles import name_both_sides
from rankdbg.verdicts.hangs.work_waits import sleeps_for_long
from rankdbg.verdicts.waits.thread_links import is_certain_circle
from rankdbg.verdicts.waits.wait_links import place_of


def find(case: Case) -> list[Accusation]:
    """The first is the answer."""
    found = _by_recorders(case)
    if not found and case.ray is not None:
        return [*case.ray.accused]
    found = found or _by_absence(case) or _by_signs(case)
    found = [with_owners(finding, case.chains, case.places) for finding in found]
    ranks = {place_of(sign.seen.rank): sign for sign in case.signs}
    found = [name_end(follow_into_collective(case, finding), ranks) for finding in found]
    found = [name_both_sides(case, finding) for finding in found]
    found = [unreachable.name_lost_packets(case, finding) for finding in found]
    return [unreachable.name_master(case, f) if f.cause == starting.CONNECTS else f for f in found]


def _by_recorders(case: Case) -> list[Accusation]:
    """Those who are missing from a collective, by what recorders say."""
    found = []
    for world in case.evidence.worlds:
        for culprit in world.findings.culprits:
            for ranks in _of_one_cause(case, world.of(culprit.ranks)):
                finding = _accuse_culprit(case, world, culprit, ranks)
                found.append(replace(finding, culprit=culprit, world=world))
    return sorted(found, key=lambda finding: _weight(case, finding))


def _weight(case: Case, finding: Accusation) -> tuple[bool, int, int]:
    """A world that is stuck before one that moves, then the one in which most wait."""
    waiting = finding.world.waiting if finding.world else set()
    signs = [case.by_process[process] for process in waiting if process in case.by_process]
    waits = len(finding.culprit.waiting) if finding.culprit else 0
    return any(sign.seen.stirred for sign in signs), -waits, -finding.level


def _of_one_cause(case: Case, ranks: Iterable[Rank]) -> list[list[Rank]]:
    causes: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        sign = case.by_process.get(rank.process)
        causes[sign.rule.cause if sign else ""].append(rank)
    return list(causes.values())


def _accuse_culprit(
    case: Case, world: World, culprit: Culprit, ranks: Sequence[Rank]
) -> Accusation:
    processes = {rank.process for rank in ranks}
    signs = tuple(case.by_process[r.process] for r in ranks if r.process in case.by_process)
    if not signs and processes <= {rank.process for rank in case.evidence.others}:
        why = "Other ranks wait for it, and it was not selected."
        says = "not examined"
        return Accusation("elsewhere", tuple(ranks), (), says, why, "rankdbg why", 0)
    if not signs:
        return _absent(case, ranks)
    sign = signs[0]
    if sign.rule.cause not in ("in-collective", AT_GPU, "unknown"):
        return accuse(signs)
    kind = "undecided" if culprit.is_undecided else culprit.reason
    cause, why, fix = OF_CULPRITS.get(kind, OF_CULPRITS["missing"])
    on_gpu = sign.rule.cause == AT_GPU
    # One that waits for its GPU, and by its recorder in no collective, comes to none before that.
    elsewhere = culprit.reason == "missing" and not processes & world.waiting
    if culprit.reason == "not started" or (on_gpu and (culprit.reason == "behind" or elsewhere)):
        cause, why, fix = OF_CULPRITS["not started"]
        finding = Accusation(cause, tuple(ranks), signs, sign.says, why, fix, sign.level)
        return _naming_kernel(finding)
    if sign.rule.cause == "unknown":
        cause, why, fix = "elsewhere", "This rank does something that the others do not.", sign.fix
    return Accusation(cause, tuple(ranks), signs, sign.says, why, fix, sign.level)


OF_CULPRITS = {
    "mismatch": (
        "collective-mismatch",
        "All ranks of a group must call the same collectives, of the same sizes and types, in "
        "the same order.",
        "compare the lines: rankdbg collectives; check for an `if` that depends on the rank or "
        "on its data",
    ),
    "missing": (
        "missing-from-collective",
        "This rank has not entered a collective that other ranks wait in, and waits in another.",
        "compare the lines: rankdbg collectives; check for an `if` that depends on the rank or "
        "on its data",
    ),
    "undecided": (
        "missing-from-collective",
        "These ranks wait for each other, in different calls: one of them has left the order "
        "that all must keep.",
        "compare the lines: rankdbg collectives; check for an `if` that depends on the rank or "
        "on its data",
    ),
    "not started": (
        "kernel-never-ends",
        "Its GPU has not started the kernel of the collective: an earlier kernel does not end.",
        "rankdbg stacks --cuda names the kernel that is running",
    ),
}


def _by_absence(case: Case) -> list[Accusation]:
    """Ranks that have ended, or have never come, and for whom others wait."""
    absent: list[Rank] = []
    if case.waiting or not (case.goes_on or case.is_idle):
        absent += [rank for rank in case.evidence.gone if rank.number is not None]
    if case.waiting:
        absent += case.evidence.missing
    return [_absent(case, in_order(absent))] if absent else []


def _absent(case: Case, ranks: Sequence[Rank]) -> Accusation:
    gone = {rank.process for rank in case.evidence.gone}
    died = any(r.process in gone for r in ranks) or not starting.waits_at_start(case.waiting)
    many = len(ranks) > 1
    if died:
        cause, says = "rank-died", f"the {'processes are' if many else 'process is'} gone"
        says += why_ended(ranks)
        why = "The process exited or was killed; the other ranks wait for it."
        fix = "find out why: rankdbg doctor LOGS; check dmesg for an OOM kill"
    else:
        cause, says = (
            "rank-never-started",
            f"no process has joined as {'these ranks' if many else 'this rank'}",
        )
        why = "The other ranks wait at the start until all ranks have joined."
        fix = "check the launcher's output: was the rank started, or did it fail during import?"
    return Accusation(cause, tuple(ranks), (), says, why, fix, len(ROLES))


def _by_signs(case: Case) -> list[Accusation]:
    """Where no recorder tells: who does something else than wait."""
    if lost := starting.misdirected(case.signs):
        return [accuse(lost)]
    others = case.not_waiting
    if case.ends:
        others = [sign for sign in others if _holds_up(sign, case)]
    if case.waiting and others:
        return _worst(others)
    if case.waiting:
        return _odd_of_waiting(case)
    # No rank waits: only what is known to stand, and has not run for a moment, is accused.
    return _worst(
        [
            sign
            for sign in others
            if sign.rule.role == "held"
            or is_certain_circle(case.chains.get(sign.seen.rank.process, ()))
            or (
                sign.rule.role == "own"
                and sign.rule is not UNKNOWN
                and _is_motionless(sign)
                and not sign.seen.works
            )
        ]
    )


def _holds_up(sign: Sign, case: Case) -> bool:
    """Whether a wait leads to it, or it cannot go on whatever others do."""
    return place_of(sign.seen.rank) in case.ends or sign.rule.role in ("own", "held")


def _is_motionless(sign: Sign) -> bool:
    """One that waits for a child looks now and then whether that is alive."""
    return sign.seen.motionless or (sign.child is not None and not sign.seen.stirred)


def _worst(signs: Sequence[Sign]) -> list[Accusation]:
    """Of each cause one finding; those of the highest level alone."""
    level = max((sign.level for sign in signs), default=0)
    causes: dict[str, list[Sign]] = defaultdict(list)
    for sign in signs:
        if sign.level == level:
            causes[sign.rule.cause].append(sign)
    causes["sleeping"] = _for_longest(causes.pop("sleeping", []))
    causes = {cause: same for cause, same in causes.items() if same}
    return sorted((accuse(same) for same in causes.values()), key=lambda f: len(f.ranks))


def _for_longest(asleep: list[Sign]) -> list[Sign]:
    """Those that sleep for long, if others sleep for a moment: these look again and again, for
    something that one of the others may owe."""
    return [*filter(sleeps_for_long, asleep)] or asleep


def _odd_of_waiting(case: Case) -> list[Accusation]:
    """All wait. Who waits for the master, or at another line than most?"""
    levels = {sign.level for sign in case.waiting}
    if len(levels) > 1:
        return _worst(case.waiting)
    if case.waiting[0].rule.role == "store":
        return _worst(case.waiting)
    places: dict[object, list[Sign]] = defaultdict(list)
    for sign in case.waiting:
        places[sign.seen.frames].append(sign)
    groups = sorted(places.values(), key=len)
    odd = grouping.odd_ones_out([len(group) for group in groups])
    found = [group for group, is_odd in zip(groups, odd, strict=True) if is_odd]
    if all(sign.rule.cause == AT_GPU for sign in case.waiting):
        return [_behind_kernels(case.waiting, [sign for group in found for sign in group])]
    names_group = any(sign.seen.names_group for sign in case.waiting)
    if found and names_group and not _has_gone_on_alone(found, groups):
        return [_in_different_calls(case, groups)]
    if not found and case.unanswered:
        return [unreachable.accuse_unanswered(case)]
    return [_at_another_line(group) for group in found]


def _at_another_line(group: Sequence[Sign]) -> Accusation:
    """In another collective than most; or in a wait that is none."""
    if group[0].rule.cause == FOR_PROCESSES:
        return accuse(group)
    kernels = [kernel for sign in group for kernel in sign.seen.kernels]
    if group[0].rule.cause == AT_GPU and not any(kernel.is_collective for kernel in kernels):
        return _kernel_never_ends(group)
    cause, why, fix = OF_CULPRITS["mismatch"]
    says, level = group[0].says, group[0].level
    return Accusation(cause, ranks_of(group), tuple(group), says, why, fix, level)


def _has_gone_on_alone(found: Sequence[Sequence[Sign]], groups: Sequence[Sequence[Sign]]) -> bool:
    """One rank, at a later line of the function in which they part: it has left out what all others
    are in."""
    (alone, *more), *others = found
    rest = [group[0] for group in groups if group is not found[0]]
    return not more and not others and all(_comes_after(alone, other) for other in rest)


def _comes_after(sign: Sign, other: Sign) -> bool:
    for mine, its in zip(reversed(sign.seen.frames), reversed(other.seen.frames), strict=False):
        if mine != its:
            same = (mine.function, mine.file) == (its.function, its.file)
            return same and mine.line > its.line
    return False


def is_by_line(finding: Accusation) -> bool:
    """Whether ranks are accused because they are at another line than most."""
    return finding.cause == "collective-mismatch" and finding.culprit is None


def _in_different_calls(case: Case, groups: Sequence[Sequence[Sign]]) -> Accusation:
    """All, where one of the calls is of a group with other members than all ranks: those at another
    line than most may wait for one of these, and nothing tells who has left the order."""
    cause, why, _ = OF_CULPRITS["undecided"]
    says = f"waiting for each other: {' and '.join(map(_at_one_call, groups))}"
    fix = (
        "what they have called before decides which of them has left the order: start the job with "
        "rankdbg run, or set TORCH_FR_BUFFER_SIZE for torch's flight recorder"
    )
    signs = tuple(case.waiting)
    return Accusation(cause, ranks_of(signs), signs, says, why, fix, signs[0].level)


def _at_one_call(signs: Sequence[Sign]) -> str:
    """ranks 0,2-3 in barrier, train train.py:22"""
    names = format_ranks(ranks_of(signs), signs[0].seen.all_ranks)
    words = signs[0].words
    return f"rank{'s' * (len(signs) > 1)} {names} in {words['called']}, {words['place']}"


def _behind_kernels(waiting: Sequence[Sign], odd: Sequence[Sign]) -> Accusation:
    """All wait for their GPUs. If those at another line than most are behind a kernel of the program
    itself, the others' collectives wait for them; that is looked for there first."""
    if any(one_of_the_program(sign.seen.kernels) for sign in odd):
        return _kernel_never_ends(odd)
    return _kernel_never_ends([*odd, *(sign for sign in waiting if sign not in odd)])


def _kernel_never_ends(signs: Sequence[Sign]) -> Accusation:
    """Of ranks that wait for their GPUs where no recorder knows of a collective from which a rank is
    missing."""
    why = "A kernel on the GPU does not end: one of the program itself, or a collective's."
    fix = "rankdbg stacks --cuda names the kernel; for collectives, rankdbg collectives"
    finding = accuse(signs)
    return _naming_kernel(replace(finding, cause="kernel-never-ends", why=why, next=fix))


def _naming_kernel(finding: Accusation) -> Accusation:
    """With what cuda-gdb has seen on the GPU of one of them."""
    sign = next((sign for sign in finding.signs if sign.seen.kernels), None)
    if sign is None:
        return finding
    kernel = one_of_the_program(sign.seen.kernels) or sign.seen.kernels[0]
    where = f"waiting for its GPU, in {sign.words['place']}, where"
    if kernel.ended:
        says = f"{where} one kernel after another runs: {kernel.text}"
        why = "Its GPU is at work: the kernel that ran there had ended some seconds later."
        return replace(finding, cause=AT_GPU, says=says, why=why, next=sign.fix)
    says = f"{where} {kernel.sentence}"
    fix = (
        "find the code that launches this kernel: with CUDA_LAUNCH_BLOCKING=1 the rank waits in "
        "the line that launched it"
    )
    return replace(finding, says=says, next=fix)
