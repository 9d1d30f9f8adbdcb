"""Reports in full: what `why`, `stacks` and `logs` print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rankdbg.frontends.reports.doctor import print_diagnosis
from rankdbg.frontends.reports.log_lines import FoldPrinter
from rankdbg.frontends.reports.stacks import print_stacks
from rankdbg.frontends.reports.verdicts import print_verdict
from rankdbg.frontends.terminal import PageTerminal
from rankdbg.frontends.top.keys import PageRequest
from rankdbg.investigations.hangs.further_looks import judge_ranks
from rankdbg.investigations.hangs.verdicts_with_logs import with_logs
from rankdbg.investigations.logs.log_sources import job_messages
from rankdbg.investigations.logs.merged_logs import read_logs
from rankdbg.investigations.logs.picked_ranks import numbers_and_pids
from rankdbg.investigations.stacks.reading_stacks import read_stacks
from rankdbg.investigations.watch.live_jobs import LiveJob
from rankdbg.logs.entries import LogQuery
from rankdbg.session import Session
from rankdbg.verdicts.hangs.hang_rules import HangRule

Show = Callable[[PageTerminal], None]
LOG_MESSAGES = 500


def read_page(session: Session, request: PageRequest, job: LiveJob, rules: list[HangRule]) -> Show:
    """Raises RankdbgError."""
    if request.kind == "why":
        return _read_why(session, job, rules)
    if request.kind == "stacks":
        return _read_stacks(session, request, job)
    return _read_logs(session, request, job)


def _read_why(session: Session, job: LiveJob, rules: list[HangRule]) -> Show:
    found = judge_ranks(session, job.ranks, job.ranks, rules, kernels=True)
    found = with_logs(found, session, job.name)

    def show(terminal: PageTerminal) -> None:
        print_verdict(terminal, found)
        if found.diagnosis is not None and not found.first:
            print_diagnosis(terminal, found.diagnosis)

    return show


def _read_stacks(session: Session, request: PageRequest, job: LiveJob) -> Show:
    merged = read_stacks(session, request.ranks or job.ranks, job.ranks)
    return lambda terminal: print_stacks(terminal, merged)


def _read_logs(session: Session, request: PageRequest, job: LiveJob) -> Show:
    query = LogQuery(limit=LOG_MESSAGES)
    if request.ranks is not None:
        numbers, pids = numbers_and_pids(request.ranks)
        query = replace(query, ranks=numbers, pids=pids)
    source = job_messages(session, job.name)
    logs = read_logs(source, query)

    def show(terminal: PageTerminal) -> None:
        FoldPrinter(terminal, logs.speakers).print(logs.folds)
        for note in logs.notes:
            terminal.print(terminal.dim(note))

    return show
