"""Copy profiles, dumps and logs from the nodes' disks.

  rankdbg collect all results/               the files that exist now
  rankdbg collect '*policy*' results/        of ranks whose role matches
  rankdbg collect all results/ --follow 30   until the job has ended

Copies Nsight Systems reports, files of py-spy, torch and memray, flight recorder dumps,
crash files and the logs that ranks have open to results/NODE/PATH. Each file is copied once
and checked by size and digest. Run the same command again to resume.
"""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING

from rankdbg import selection
from rankdbg.frontends.cli import add_common, seconds
from rankdbg.frontends.reports.documents import print_json

if TYPE_CHECKING:
    from rankdbg.session import Session
    from rankdbg.types import Rank


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("destination", metavar="DEST", help="the directory to collect into")
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="GLOB",
        help="more files, relative to each rank's working directory: 'outputs/**/*.pkl'",
    )
    parser.add_argument(
        "--follow",
        type=seconds,
        metavar="SECONDS",
        help="poll every SECONDS until the job has ended and all files are copied",
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.collected import CopyProgress, print_collected
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.nodes.collected_files import FileCollection
    from rankdbg.investigations.nodes.rank_files import Collector, check_destination

    options.ranks = as_selection(options.ranks)
    check_destination(options.destination)
    with open_session(options) as session:
        collector = Collector(session, options.destination, options.include)
        collection = FileCollection(
            session, collector, lambda first: _find_ranks(session, options, first)
        )
        # SIGTERM from a scheduler means the same as Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            collection.run(options.follow, CopyProgress())
        except KeyboardInterrupt:
            pass  # files that were copied are complete
        collected = collection.result()
        if options.json:
            print_json("collect", collected.as_json())
        else:
            print_collected(Terminal(), collected)
        collector.raise_if_full(collected.outcomes)
    return 0 if collected.complete else 1


def as_selection(text: str) -> str:
    """A bare pattern selects roles."""
    is_pattern = any(mark in text for mark in "*?[") and text.strip() != "*"
    return f"role={text}" if is_pattern and not set(text) & set("=()") else text


def _find_ranks(session: Session, options: argparse.Namespace, first: bool) -> list[Rank]:
    from rankdbg.frontends.reports.ranks import choose

    if first or options.everything:
        ranks, _ = choose(session, options)
    else:  # without warnings about nodes at each poll; the report has them
        ranks = selection.pick(selection.parse(options.ranks), session.job(options.job))
    if ranks and options.job is None:
        options.job = ranks[0].job  # not another job that starts after this one has ended
    return ranks
