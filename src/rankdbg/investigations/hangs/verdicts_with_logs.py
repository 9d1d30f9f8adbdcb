"""`why` and `doctor` share one verdict: stacks say who holds a job up, logs why it has died.

`why` takes what a culprit logged last, and where ranks parted by their histories, as evidence, and
reads the logs of a job that has died; `doctor` says whether a job that runs is stuck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rankdbg.errors import NoJob, RankdbgError
from rankdbg.investigations.hangs.further_looks import judge_ranks
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.histories import rank_histories
from rankdbg.investigations.logs.log_sources import LogSource, job_logs, job_messages
from rankdbg.investigations.rank_labels import named
from rankdbg.logs.entries import Entry, LogQuery
from rankdbg.process.masking import mask_text
from rankdbg.selection import format_ranks
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.verdicts.hangs import left_order
from rankdbg.verdicts.hangs.evidence import Evidence
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import Verdict
from rankdbg.verdicts.hangs.logged_signs import MOST_MESSAGES, LoggedMessage, evidence_in

if TYPE_CHECKING:
    from rankdbg.investigations.logs.log_diagnosis import Hang, LogDiagnosis

# Culprits whose messages are read.
MOST_RANKS = 4
MOST_PARTED = 2
AT_BREAKPOINT = "at-breakpoint"


def with_logs(found: JobVerdict, session: Session, job: str | None) -> JobVerdict:
    """With what the culprits have logged last; and of ranks that have died, why. Logs that cannot
    be read take nothing from the verdict."""
    first = found.first
    try:
        if found.verdict.state == "ended" or (first is not None and first.cause == "rank-died"):
            found = replace(found, diagnosis=_diagnosis(session, job))
        if first is not None and found.stuck:
            found = _with_histories(found, session, job)
            first = found.first or first
            found = replace(found, logged=_logged(session, job, first.ranks, found))
    except RankdbgError:
        pass
    return found


def _with_histories(found: JobVerdict, session: Session, job: str | None) -> JobVerdict:
    """Where ranks left the others, long before they waited for each other. Jobs without histories
    are the rule where there is no agent."""
    try:
        history = rank_histories.compare(session, rank_histories.read_job(session, job))
    except NoJob:
        return found
    parted = history.parted[:MOST_PARTED]
    if not parted:
        return found
    first = parted[0]
    verdict = left_order.name_departed(found.verdict, first.departure, first.calls())
    words = tuple(each.in_words(history.ranks) for each in parted)
    return replace(found, verdict=verdict, parted=words)


def of_ended_job(diagnosis: LogDiagnosis) -> JobVerdict:
    """Of a job of which nothing is left but its logs."""
    return JobVerdict(Verdict("ended"), Evidence(()), (), diagnosis=diagnosis)


def _diagnosis(session: Session, job: str | None) -> LogDiagnosis:
    # Most jobs that hang have ranks that live.
    from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
    from rankdbg.verdicts.rules.log_rules import load_rules

    rules = load_rules()
    source = job_logs(session, rules.patterns(), job, around=True)
    return LogDiagnosis.of(source.scan(), rules, source.state)


def _logged(
    session: Session, job: str | None, culprits: Sequence[Rank], found: JobVerdict
) -> tuple[str, ...]:
    held = {seen.rank.process for seen in found.evidence.ranks if seen.is_held_at_exception}
    chosen = culprits[:MOST_RANKS]
    numbers = frozenset(rank.number for rank in chosen if rank.number is not None)
    pids = frozenset(rank.pid for rank in chosen if rank.number is None)
    source = job_messages(session, job)
    wanted = LogQuery(ranks=numbers, pids=pids, limit=MOST_MESSAGES * len(chosen))
    entries = source.read(wanted).entries
    now = source.latest()
    told: list[str] = []
    for rank in chosen:
        own = [_message(entry, now) for entry in entries if _is_of(entry, rank)]
        told += evidence_in(named([rank], found.all_ranks), own, rank.process in held)
    return tuple(told)


def _is_of(entry: Entry, rank: Rank) -> bool:
    return entry.rank == rank.number if rank.number is not None else entry.pid == rank.pid


def _message(entry: Entry, now: float) -> LoggedMessage:
    age = None if entry.time is None else now - entry.time
    return LoggedMessage(mask_text(entry.text), age)


# --- for doctor ---------------------------------------------------------------------------


def find_hang(source: LogSource) -> Hang | None:
    """Of the job whose logs these are, if it runs and is stuck; by the rules of `why`."""
    from rankdbg.investigations.logs.log_diagnosis import Hang

    session, state = source.session, source.state
    if session is None or state is None or not state.running:
        return None
    ranks = [rank for rank in state.ranks if rank.kind == "rank"]
    try:
        found = judge_ranks(session, ranks, ranks, load_hang_rules())
    except RankdbgError:  # it has just ended, or a snapshot has no stacks
        return None
    if not found.stuck:
        return None
    first = found.first
    culprit = format_ranks(first.ranks, ranks) if first else ""
    who = f" Culprit: {named(first.ranks, ranks)}, {first.says} [{first.cause}]." if first else ""
    cause = first.cause if first else ""
    return Hang(culprit, cause, found.headline() + who, _is_by_user(found.verdict))


def _is_by_user(verdict: Verdict) -> bool:
    """Whether all culprits are stopped at breakpoints, and none at its exception."""
    signs = [sign for finding in verdict.findings for sign in finding.signs]
    stopped = [s for s in signs if s.rule.cause == AT_BREAKPOINT]
    return bool(signs) and stopped == signs and not any(s.seen.is_held_at_exception for s in signs)
