"""From options to ranks, and from ranks to text: what most verbs begin and end with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rankdbg import selection
from rankdbg.frontends.reports.rows import print_wrapped
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.rank_labels import silent_lines
from rankdbg.session import Session, check_job
from rankdbg.types import Rank, Silence


def choose(session: Session, options: argparse.Namespace) -> tuple[list[Rank], list[Rank]]:
    """The selected ranks, and all ranks of their job."""
    return choose_from(session, options, selection.parse(options.ranks))


def choose_from(
    session: Session, options: argparse.Namespace, parsed: selection.Selection
) -> tuple[list[Rank], list[Rank]]:
    if options.everything:
        roster = session.roster(where=False, job=options.job)
        jobs = roster.jobs(everything=True)
        chosen = check_job(roster, jobs, options.job)
        members = [r for job, ranks in jobs.items() if chosen in (None, job) for r in ranks]
    else:
        members = session.job(options.job, replaced=selection.names_generations(parsed))
    warn_of_silent_nodes(session)
    return selection.pick(parsed, members), members


def warn_of_silent_nodes(session: Session) -> None:
    """Who runs there is not known, and so cannot be said to be silent."""
    for node, reason in session.silent_nodes.items():
        print_wrapped(Terminal(sys.stderr), f"no response: node {node}  ({reason})")


def print_silent(terminal: Terminal, silent: Sequence[Silence], among: Sequence[Rank]) -> None:
    for ranks, reason in silent_lines(silent, among):
        print_wrapped(terminal, f"no response: {terminal.bold(ranks)}  ({reason})")


def marked(terminal: Terminal, text: str, mark: str) -> str:
    return f"{text}   {terminal.red(f'<- {mark}')}" if mark else text
