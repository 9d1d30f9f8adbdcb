"""Bring profiles, dumps and logs home from the nodes' disks.

  rankdbg collect all results/            what is there now
  rankdbg collect '*policy*' results/     of ranks whose role fits
  rankdbg collect all results/ --follow 30   while the job runs, and its end

Nsight Systems reports, py-spy's, torch's and memray's files, flight recorder dumps, what
crashes leave, and the logs that ranks hold open come to lie in results/NODE/PATH, each once,
checked by size and digest. The same command again goes on where it ended.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankdbg import selection
from rankdbg.errors import NoJob, RankdbgError, SelectionError
from rankdbg.frontends.cli import add_common, print_json, seconds

if TYPE_CHECKING:
    from rankdbg.frontends.collecting import Collector
    from rankdbg.frontends.reports.collected import Report
    from rankdbg.session import Session
    from rankdbg.types import Rank

# For files that are still being written: without --follow, and when the job has ended, since
# nsys takes its time.
PATIENCE, LAST_PATIENCE = 5.0, 300.0
# Looks without a rank after which the job has ended (a launcher that starts its ranks again has
# none in between), and without a node after which these are lost.
ENDED, LOST = 2, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("destination", metavar="DEST", help="the directory to collect into")
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="GLOB",
        help="other files too: 'outputs/**/*.pkl', from each rank's working directory",
    )
    parser.add_argument(
        "--follow",
        type=seconds,
        metavar="SECONDS",
        help="look again every so often, until the job has ended and all is there",
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.collecting import Collector, check_destination
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.collected import Report

    options.ranks = as_selection(options.ranks)
    check_destination(options.destination)
    with open_session(options) as session:
        collector = Collector(session, options.destination, options.include)
        report = Report(collector)
        try:
            _collect(session, collector, report, options)
        except KeyboardInterrupt:
            pass  # what is there is whole
        if options.json:
            print_json("collect", report.as_json())
        else:
            report.print()
        collector.raise_if_full(report.outcomes())
    return report.exit_status()


def as_selection(text: str) -> str:
    """A pattern alone is one of roles."""
    is_pattern = any(mark in text for mark in "*?[") and text.strip() != "*"
    return f"role={text}" if is_pattern and not set(text) & set("=()") else text


def _collect(
    session: Session, collector: Collector, report: Report, options: argparse.Namespace
) -> None:
    ranks = _ranks(session, collector, options, first=True)
    report.add(collector.look(ranks, _nodes(session, ranks)))
    session.reopens = options.follow is not None
    absent = 0
    while options.follow is not None and absent < (LOST if collector.end_reached else ENDED):
        report.tell()
        collector.raise_if_full(report.outcomes())
        time.sleep(options.follow)
        ranks = _ranks(session, collector, options, first=False)
        absent = 0 if ranks else absent + 1
        report.add(collector.look(ranks))
    patience = PATIENCE if options.follow is None else LAST_PATIENCE
    deadline = time.monotonic() + patience
    while (report.growing() or collector.busy) and time.monotonic() < deadline:
        time.sleep(0.5)
        report.add(collector.look(ranks))


def _nodes(session: Session, ranks: Sequence[Rank]) -> list[str]:
    """All, where there are no ranks that could say which."""
    return [] if ranks else session.cluster.nodes()


def _ranks(
    session: Session, collector: Collector, options: argparse.Namespace, first: bool
) -> list[Rank]:
    """None when the job has ended; at first only if --include says what else is wanted."""
    from rankdbg.frontends.reports.ranks import choose

    collector.end_reached = ""
    try:
        if first or options.everything:
            ranks, _ = choose(session, options)
        else:  # without a word about silent nodes, at each look; the report has them
            ranks = selection.pick(selection.parse(options.ranks), session.job(options.job))
    except NoJob:
        if first and not options.include:
            raise
        return []
    except RankdbgError as error:
        if first:
            raise
        # None of these ranks is there any longer; or, on Slurm, their nodes are not.
        if not isinstance(error, SelectionError):
            collector.end_reached = error.in_one_line()
        return []
    return [rank for rank in ranks if rank.state not in ("gone", "zombie")]
