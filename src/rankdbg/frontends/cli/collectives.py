"""Which ranks are missing from which collective, from PyTorch's flight recorder.

  rankdbg collectives                       ask the ranks of a running job
  rankdbg collectives --dumps DIR           dumps of a job: pickle or JSON
  rankdbg collectives --dumps trace_rank_*
  rankdbg collectives --html FILE           a page: a lane for each group

Prints the culprit and the cause, then for each process group: the last collective that
each rank entered and finished, the missing ranks, and mismatches of operation, size or
type. Supports gloo and NCCL, subgroups, send and recv.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, add_save
from rankdbg.frontends.cli.html_option import add_html, check_html, write_html
from rankdbg.frontends.reports.documents import print_json

if TYPE_CHECKING:
    from rankdbg.investigations.collectives.collective_waits import CollectiveWaits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--dumps",
        nargs="+",
        metavar="DIR|FILE",
        help="read these dumps of the flight recorder instead of querying a job",
    )
    parser.add_argument("--full", action="store_true", help="show every group and every mismatch")
    add_html(parser)
    add_save(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reports.collectives import print_collectives
    from rankdbg.frontends.terminal import Terminal

    check_html(options)
    waits = _of_dumps(options) if options.dumps else _of_job(options)
    if options.json:
        print_json("collectives", waits.as_json())
    else:
        print_collectives(Terminal(), waits, full=options.full)
    if options.html is not None:
        from rankdbg.frontends.html.collective_document import document_of_collectives

        write_html(
            options, partial(document_of_collectives, waits), "collectives", *_origin(options)
        )
    if waits.has_evidence:
        return 0
    sys.stderr.write(
        "hint: to record collectives, set TORCH_FR_BUFFER_SIZE (in older versions of torch\n"
        "  TORCH_NCCL_TRACE_BUFFER_SIZE) to a number above 0 when the job starts\n"
    )
    return 1


def _origin(options: argparse.Namespace) -> tuple[str, str]:
    """Where the records are from, and when they were saved."""
    found: tuple[str, str] = (", ".join(options.dumps), "") if options.dumps else options.origin
    return found


def _of_dumps(options: argparse.Namespace) -> CollectiveWaits:
    from rankdbg import selection
    from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
    from rankdbg.investigations.dumps.recorder_dumps import read_dumps
    from rankdbg.types import ProcessKey, Rank
    from rankdbg.verdicts.collectives.culprits import judge
    from rankdbg.verdicts.collectives.worlds import World

    for given, name in ((options.target, "-t"), (options.job, "--job"), (options.save, "--save")):
        if given:
            raise BadInput(f"--dumps reads files and does not take {name}")
    dumps = read_dumps(options.dumps)
    if not dumps.traces:
        why = [f"{file}: {reason}" for file, reason in dumps.skipped[:8]]
        raise BadInput("none of these files is a flight recorder dump", *why)
    findings = judge(dumps.traces, "it left no dump", longer_than=0.0)
    roster = [Rank(ProcessKey("", n, 0), job="", number=n) for n in findings.job.ranks]
    chosen = selection.pick(selection.parse(options.ranks), roster)
    world = World(findings, {rank.pid: rank for rank in roster})
    shown = [rank.process for rank in chosen]
    return CollectiveWaits([world], skipped=dumps.skipped, chosen=shown)


def _of_job(options: argparse.Namespace) -> CollectiveWaits:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.investigations.collectives.live_traces import read_collectives

    with open_session(options) as session:
        options.origin = session.cluster.target, session.cluster.saved
        chosen, all_ranks = choose(session, options)
        waits = read_collectives(session, chosen, all_ranks)
        if options.save:
            session.save(options.save)
    return waits
