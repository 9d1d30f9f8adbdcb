"""The verdict about a job that may hang: look at it, judge, and look further while that may settle it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankdbg.investigations.hangs.hang_investigation import HangInvestigation
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.session import Session
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.hangs import culprits, progress
from rankdbg.verdicts.hangs.case import WAITING
from rankdbg.verdicts.hangs.evidence import Evidence
from rankdbg.verdicts.hangs.hang_rules import HangRule
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from rankdbg.verdicts.hangs.patience import MAY_BE_ANSWERED
from rankdbg.verdicts.hangs.starting import CONNECTS
from rankdbg.verdicts.hangs.unreachable import only_waits
from rankdbg.verdicts.hangs.work_waits import waits_in_vain

# Defaults: for how long a job is sampled, how often, and for how long at most if that settles
# the verdict.
SECONDS, SAMPLES, LONGEST = 1.0, 3, 6.0
# A kernel that runs for longer than this is hardly one of many.
BETWEEN_KERNELS = 5.0
# Ranks whose wait is followed to another process, or to a thread; and calls that name no process.
MOST_FOLLOWED = 512
MOST_FOLLOWED_TO_THREADS = 16
_FOR_DATA = ("waits-for-network", "waits-for-pipe", "waits-for-file")
NAME_NO_PROCESS = ("", "futex", "sched_yield", "pause")
# Ranks that are asked for the keys of a store that their functions set.
MOST_ASKED_FOR_KEYS = 256
# Reading native frames stops a process: only for ranks that the verdict depends on.
MOST_NATIVE = 16
# Ranks whose children are looked at: py-spy needs some 30 ms for each of these.
MOST_PARENTS = 8


def judge_ranks(
    session: Session,
    ranks: Sequence[Rank],
    all_ranks: Sequence[Rank],
    rules: Sequence[HangRule],
    seconds: float = SECONDS,
    samples: int = SAMPLES,
    longest: float = LONGEST,
    kernels: bool = False,
    outside: bool = False,
) -> JobVerdict:
    """`ranks`: those to look at, of `all_ranks`; `outside`: ask no agent. The rest: find_verdict()."""
    investigation = HangInvestigation(session, ranks, all_ranks, outside)
    found = find_verdict(investigation, rules, seconds, samples, longest, kernels)
    return JobVerdict(*found, all_ranks)


def find_verdict(
    investigation: HangInvestigation,
    rules: Sequence[HangRule],
    seconds: float = SECONDS,
    samples: int = SAMPLES,
    longest: float = LONGEST,
    kernels: bool = False,
) -> tuple[Verdict, Evidence]:
    """Sample the ranks; while that does not settle the verdict, look further.
    `kernels`: if a kernel does not end, attach cuda-gdb to one of the ranks to name it."""
    looks = _FurtherLooks(investigation, seconds, samples, longest)
    investigation.watch(seconds, samples)
    evidence = investigation.evidence()
    verdict = judge(evidence, rules)
    while looks.take_next(verdict):
        evidence = investigation.evidence()
        verdict = judge(evidence, rules)
    suspect = _behind_a_kernel(verdict) if kernels else None
    if suspect is None:
        return verdict, evidence
    investigation.look_at_kernels(suspect, BETWEEN_KERNELS, 3 * samples)
    evidence = investigation.evidence()
    return judge(evidence, rules), evidence


class _FurtherLooks:
    """What else may settle a verdict, the cheapest and least intrusive first. Each look is taken at
    most once, but for watching longer, which has a budget."""

    def __init__(
        self, investigation: HangInvestigation, seconds: float, samples: int, longest: float
    ) -> None:
        self._investigation = investigation
        self._seconds, self._samples = seconds, samples
        self._longest = longest
        self._taken: set[str] = set()
        self._read_natively: set[ProcessKey] = set()

    def take_next(self, verdict: Verdict) -> bool:
        """False if there is none."""
        return (
            self._once("masters", _at_the_master(verdict), self._investigation.look_at_masters)
            or self._once("children", _parents(verdict), self._look_at_children)
            or self._look_at_helpers(verdict)
            or self._once("owners", _at_something(verdict), self._look_at_owners)
            or self._once("threads", _at_a_thread(verdict), self._look_at_threads)
            or self._look_natively([sign.seen.rank for sign in verdict.may_poll])
            or self._once("variables", _pollers(verdict), self._investigation.follow_variables)
            or self._watch_longer(verdict)
            or self._once("processors", _may_be_starved(verdict), self._look_again)
            or self._look_natively(_unsure(verdict))
            or self._once("groups", _at_other_calls(verdict), self._investigation.look_at_groups)
            or self._once(
                "addresses", _all_wait(verdict), self._investigation.waits.look_at_addresses
            )
            or self._once("store", _beside_a_store(verdict), self._investigation.look_at_threads)
        )

    def _once(self, name: str, ranks: list[Rank], look: Callable[[Sequence[Rank]], None]) -> bool:
        if not ranks or name in self._taken:
            return False
        self._taken.add(name)
        look(ranks)
        return True

    def _look_at_children(self, ranks: Sequence[Rank]) -> None:
        self._investigation.add_children(ranks)
        self._investigation.watch(self._seconds, self._samples)

    def _look_again(self, _: Sequence[Rank]) -> None:
        self._investigation.watch(self._seconds, self._samples)

    def _look_at_owners(self, ranks: Sequence[Rank]) -> None:
        """Twice, if a process that owes something could run: it may get no processor."""
        self._investigation.waits.look_at_owners(ranks)
        if self._investigation.waits.may_be_starved:
            self._investigation.watch(self._seconds, self._samples)

    def _look_at_threads(self, ranks: Sequence[Rank]) -> None:
        """Twice, if one of them waits for something that may arrive piece by piece."""
        self._investigation.look_at_threads(ranks)
        if self._investigation.waits.follows_threads:
            self._investigation.watch(self._seconds, self._samples)

    def _look_at_helpers(self, verdict: Verdict) -> bool:
        """Workers of Ray that are no ranks of the job."""
        found = self._investigation.find_helpers(verdict.unread[:MOST_PARENTS])
        if not found:
            return False
        self._investigation.add_helpers(found)
        self._investigation.watch(self._seconds, self._samples)
        return True

    def _look_natively(self, ranks: list[Rank]) -> bool:
        unread = [rank for rank in ranks if rank.process not in self._read_natively]
        wanted = unread[: MOST_NATIVE - len(self._read_natively)]
        if not wanted:
            return False
        self._read_natively |= {rank.process for rank in wanted}
        self._investigation.look_natively(wanted)
        return True

    def _watch_longer(self, verdict: Verdict) -> bool:
        longer = verdict.watch_longer
        if not self._investigation.has_compared_variables:
            longer = longer if 0 < longer <= self._longest else self._seconds
        if not 0 < longer <= self._longest:
            return False
        before = self._investigation.watched
        self._investigation.watch(longer + 0.1, 3 * self._samples)
        passed = self._investigation.watched - before  # a snapshot is as long as it is
        self._longest -= min(passed, longer + 0.1) if passed > 0 else longer + 0.1
        return True


def _parents(verdict: Verdict) -> list[Rank]:
    return [sign.seen.rank for sign in verdict.unseen_children[:MOST_PARENTS]]


def _at_something(verdict: Verdict) -> list[Rank]:
    """Ranks that wait for a file, socket or process, and not in a collective."""
    if not verdict.findings and not _may_wait_for_each_other(verdict):
        return []
    waits = [
        sign
        for sign in verdict.signs
        if sign.rule.role not in WAITING
        and (sign.seen.wait.call not in NAME_NO_PROCESS or sign.seen.state == "D")
        and not sign.seen.computes
    ]
    return [sign.seen.rank for sign in waits][:MOST_FOLLOWED]


def _may_wait_for_each_other(verdict: Verdict) -> bool:
    """Whether ranks that look idle wait for data, perhaps for that of another one, or for one that
    never comes."""
    return (
        verdict.state == "idle"
        and len(verdict.signs) > 1
        and any(sign.rule.cause in _FOR_DATA or waits_in_vain(sign) for sign in verdict.signs)
    )


def _at_a_thread(verdict: Verdict) -> list[Rank]:
    """Ranks that wait for a lock, another of their threads or a task; in a collective only those
    that are accused."""
    if not verdict.findings and verdict.state != "idle":
        return []
    accused = {rank.process for finding in verdict.findings for rank in finding.ranks}
    waits = [
        sign
        for sign in verdict.signs
        if (sign.rule.role not in WAITING or sign.seen.rank.process in accused)
        and (sign.seen.in_event_loop or (verdict.findings and sign.seen.wait.call == "futex"))
    ]
    return [sign.seen.rank for sign in waits if not sign.seen.computes][:MOST_FOLLOWED_TO_THREADS]


def _beside_a_store(verdict: Verdict) -> list[Rank]:
    """Ranks that wait for a key of the store, and those that may set it."""
    waits = [s.seen.rank for s in verdict.signs if s.rule.cause == "store-key-never-set"]
    others = [sign.seen.rank for sign in verdict.signs if sign.seen.rank not in waits]
    return [*waits, *others][:MOST_ASKED_FOR_KEYS] if waits and verdict.findings else []


def _all_wait(verdict: Verdict) -> list[Rank]:
    """All ranks of a job in which those that are accused wait in collectives, too: they may not reach
    each other."""
    if verdict.state == "stuck" and all(map(only_waits, verdict.findings)):
        return [sign.seen.rank for sign in verdict.signs]
    return []


def _at_other_calls(verdict: Verdict) -> list[Rank]:
    """Ranks that are accused for their line alone, and some of those at other lines: what they call
    may be of a group that has not all ranks."""
    first = verdict.findings[0] if verdict.findings else None
    if first is None or not culprits.is_by_line(first):
        return []
    others = [sign.seen.rank for sign in verdict.waiting]
    return [*first.ranks[: MOST_PARENTS // 2], *others[: MOST_PARENTS // 2]]


def _may_be_starved(verdict: Verdict) -> list[Rank]:
    return [sign.seen.rank for sign in verdict.may_be_starved]


def _pollers(verdict: Verdict) -> list[Rank]:
    """Ranks that wait for others, and take the processor for that; the one at the end of a wait in
    Ray, and suspects: these may compute, or sleep between two pieces of work."""
    if verdict.awaited is not None and (sign := verdict.awaited.sign) is not None:
        slow = sign.rule.cause in MAY_BE_ANSWERED and not sign.seen.stirred
        return [sign.seen.rank] if slow else []
    polling = [s for s in verdict.signs if s.rule.role in WAITING and s.seen.computes]
    polling += [sign.child or sign for sign in verdict.suspects]
    # A suspect that is at one line of a loop after another may compute, or go round in circles.
    if any(sign.seen.stirred for sign in verdict.signs if sign not in verdict.suspects):
        return []
    return [s.seen.rank for s in polling if s.seen.computes or s.seen.wait.call in progress.SLEEPS]


def _unsure(verdict: Verdict) -> list[Rank]:
    if verdict.state not in ("stuck", "idle"):
        return []
    return _those_that_matter(verdict, [sign.seen.rank for sign in verdict.unsure])


def _at_the_master(verdict: Verdict) -> list[Rank]:
    """The ranks that connect to the master, and the master: their frames show the address."""
    connect = [sign.seen.rank for sign in verdict.signs if sign.rule.cause == CONNECTS]
    master = [sign.seen.rank for sign in verdict.signs if sign.seen.rank.number == 0]
    return [*master, *connect][:MOST_NATIVE] if connect else []


def _behind_a_kernel(verdict: Verdict) -> Rank | None:
    """The rank on which to identify the kernel that does not end: one that waits for its GPU, or that
    holds the others up for another reason while its GPU spins."""
    first = verdict.findings[0] if verdict.stuck and verdict.findings else None
    if first is None or not first.signs:
        return None
    sign = first.signs[0]
    spins = any(gpu.name == "spinning" for gpu in sign.seen.gpus)
    is_suspect = first.cause == "kernel-never-ends" or (spins and sign.rule.role not in WAITING)
    return sign.seen.rank if is_suspect else None


def _those_that_matter(verdict: Verdict, unsure: list[Rank]) -> list[Rank]:
    accused = {rank.process for finding in verdict.findings for rank in finding.ranks}
    return sorted(unsure, key=lambda rank: rank.process not in accused)[:MOST_NATIVE]
