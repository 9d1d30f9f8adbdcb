"""All that logs say of a job, as text: what `rankdbg doctor` prints."""

from __future__ import annotations

from rankdbg.frontends.reports.causes import print_cause
from rankdbg.frontends.reports.failures import print_failures, print_harmless, print_overcome
from rankdbg.frontends.reports.health import print_health
from rankdbg.frontends.reports.job_state import print_job_state
from rankdbg.frontends.reports.phases import print_phases_now
from rankdbg.frontends.reports.rows import print_row
from rankdbg.frontends.reports.stalls import print_stall
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis, trend_in_words


def print_diagnosis(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    """The cause, if there is one, and then the state of the job; else who holds it up, or in which
    phase the ranks are."""
    if diagnosis.failures:
        print_cause(terminal, diagnosis)
        if diagnosis.state is not None:
            terminal.print()
    _print_state(terminal, diagnosis)
    if diagnosis.stall is not None:
        print_stall(terminal, diagnosis.stall)
    elif not diagnosis.failures:
        print_failures(terminal, diagnosis)
        print_phases_now(terminal, diagnosis.phases)
        _print_trends(terminal, diagnosis)
    if diagnosis.nodes:
        print_health(terminal, diagnosis.nodes)
    if diagnosis.failures or diagnosis.stall is not None:
        terminal.print(terminal.dim("details: rankdbg doctor --full"))
    else:
        print_harmless(terminal, diagnosis)


def _print_state(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    if diagnosis.state is not None:
        print_job_state(terminal, diagnosis.state, diagnosis.gone, diagnosis.missing)
    if diagnosis.hang is not None:
        print_row(terminal, "hang", f"{diagnosis.hang.says} See: rankdbg why")


def _print_trends(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    for trend in diagnosis.diagnosis.trends:
        print_row(terminal, "values", trend_in_words(trend))


def print_full_diagnosis(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    """Each failure with its lines, phases, node health, and what was overcome or is harmless."""
    _print_state(terminal, diagnosis)
    if diagnosis.stall is not None:
        print_stall(terminal, diagnosis.stall)
        terminal.print()
    print_failures(terminal, diagnosis)
    print_phases_now(terminal, diagnosis.phases)
    _print_trends(terminal, diagnosis)
    if diagnosis.nodes:
        print_health(terminal, diagnosis.nodes)
    print_overcome(terminal, diagnosis)
    print_harmless(terminal, diagnosis)
