"""Lines that say that something is over: a retry went through, a link is up, the job has finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rankdbg.logs.expressions import expression
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.done_steps import LoggedStep
from rankdbg.verdicts.failures.events import Event, Outcome
from rankdbg.verdicts.failures.findings import Finding
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file
from rankdbg.verdicts.failures.identities import Identities, Identity
from rankdbg.verdicts.failures.subjects import pod_in
from rankdbg.verdicts.rules.log_rules import LogRules, RecoveryRule


@dataclass(frozen=True)
class Recovery:
    rule: RecoveryRule
    path: str
    offset: int
    writer: Identity
    time: float | None
    text: str

    @property
    def is_end(self) -> bool:
        """Whether it says that the job, or one process of it, has finished."""
        return "*" in self.rule.of

    @property
    def is_own_end(self) -> bool:
        return self.is_end and self.rule.where == "process"


class Recoveries:
    """`progress`: the steps that the job has done."""

    def __init__(
        self,
        scans: Iterable[FileScan],
        rules: LogRules,
        identities: Identities,
        clocks: Clocks,
        progress: Sequence[LoggedStep],
    ) -> None:
        self._rules = rules
        self._identities = identities
        self._clocks = clocks
        found = [
            self._recovery(scan, hit)
            for scan in scans
            for hit in scan.hits
            if hit.pattern.startswith("recovery:")
        ]
        self._recoveries = self._with_ends(found, progress)

    @property
    def finished(self) -> bool:
        """Whether the job says so."""
        return any(recovery.is_end for recovery in self._recoveries)

    @property
    def finished_ranks(self) -> set[int | None]:
        """Those that say so themselves."""
        return {recovery.writer.rank for recovery in self._recoveries if recovery.is_end} - {None}

    def outcome_of(self, event: Event) -> tuple[Outcome, str] | None:
        """And how it is known; None if none of the lines speaks of it."""
        for recovery in self._recoveries:
            if self._has_ended(recovery, event):
                return "recovered", recovery.text.strip()
            if event.tier and recovery.is_end and _is_before(recovery, event):
                return "handled", "the job had finished before"
        return None

    def is_over(self, finding: Finding) -> bool:
        """Whether the log that has the finding says later that it is over."""
        return any(
            recovery.path == finding.path
            and recovery.offset > finding.offset
            and finding.mode in recovery.rule.of
            and _names_the_same(recovery, finding)
            for recovery in self._recoveries
        )

    def _recovery(self, scan: FileScan, hit: Hit) -> Recovery:
        rule = self._rules.recoveries[int(hit.pattern.partition(":")[2])]
        writer = self._identities.speaker(scan.path, hit)
        time = self._clocks.time(scan.path, hit)
        return Recovery(rule, scan.path, hit.offset, writer, time, hit.text)

    def _with_ends(
        self, recoveries: Sequence[Recovery], progress: Sequence[LoggedStep]
    ) -> list[Recovery]:
        """What single processes say of their own end is the job's if most ranks, or nothing but
        launchers, say so, and do no step after it."""
        ends = [recovery for recovery in recoveries if recovery.is_own_end]
        others = [recovery for recovery in recoveries if not recovery.is_own_end]
        last: dict[str, int] = {}
        for done in progress:
            last[done.path] = max(done.offset, last.get(done.path, 0))
        ended = [r for r in ends if r.offset > last.get(r.path, -1)]
        ranks = {r.writer.rank for r in ended} - {None}
        trained = {done.rank for done in progress} - {None} or self._identities.ranks
        of_job = len(ranks & trained) * 2 > len(trained) if trained else len(ended) == len(ends)
        kept = [replace(r, rule=replace(r.rule, where="job")) for r in ended] if of_job else []
        return [*others, *kept]

    def _has_ended(self, recovery: Recovery, event: Event) -> bool:
        rule, last = recovery.rule, event.findings[-1]
        if event.mode not in rule.of and not recovery.is_end:
            return False
        if not _names_the_same(recovery, last):
            return False
        if rule.where == "process" and not _is_same_process(recovery, event):
            return False
        if rule.where == "host" and recovery.writer.host != event.first.writer.host:
            return False
        pod, own = (
            pod_in(line.text) or self._identities.described_pod(line.path, line.offset)
            for line in (recovery, last)
        )
        if pod and own and pod != own:
            return False
        if recovery.path == last.path:
            return recovery.offset > last.offset
        if recovery.is_end and last.time is None and event.rule.role == "teardown":
            return True  # whenever it was: the end of a job that says that it has finished
        if recovery.is_end and is_kernel_file(last.path) and not last.zoned:
            return True  # whatever the kernel's clock: the job says that it has finished
        if recovery.time is None or last.time is None or not last.comparable:
            return False
        return recovery.time > last.time


def _is_before(recovery: Recovery, event: Event) -> bool:
    first = event.first
    if recovery.path == first.path:
        return recovery.offset < first.offset
    known = recovery.time is not None and first.time is not None and first.comparable
    # Of a line without a clock, the one above it says not before when it was written.
    is_sure = first.exact or event.tier >= 2
    return known and is_sure and (recovery.time or 0.0) < (first.time or 0.0)


def _names_the_same(recovery: Recovery, finding: Finding) -> bool:
    """Unless the lines name different things: one file server is back, another is not."""
    if not recovery.rule.same:
        return True
    same = expression(recovery.rule.same, "recovery: same")
    found = [same.search(text) for text in (recovery.text, finding.text)]
    named = {each["what"] for each in found if each}
    return len(named) < 2


def _is_same_process(recovery: Recovery, event: Event) -> bool:
    writer = event.first.writer
    if recovery.writer.rank is not None and writer.rank is not None:
        return recovery.writer.rank == writer.rank
    pids = {recovery.writer.pid, writer.pid}
    # Ray's driver copies the lines of all actors; a container's log is of one server.
    copied = recovery.text.startswith("(") and event.first.text.startswith("(")
    if copied and None not in pids and len(pids) > 1:
        return False
    return recovery.path == event.first.path
