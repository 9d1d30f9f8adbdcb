"""Who is missing from which collective, by PyTorch's flight recorder.

  rankdbg collectives                       ask the ranks of a running job
  rankdbg collectives --dumps DIR           dumps of a job: pickle or JSON
  rankdbg collectives --dumps trace_rank_*

First who holds the others up and why, then each process group: what every rank has
entered and finished last, who is missing, and where ranks came with another operation,
size or type. gloo and NCCL, groups of some ranks, send and recv.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common, add_save, print_json

if TYPE_CHECKING:
    from rankdbg.frontends.reports.collectives import CollectiveReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--dumps",
        nargs="+",
        metavar="DIR|FILE",
        help="read these dumps of the flight recorder instead of asking a job",
    )
    parser.add_argument("--full", action="store_true", help="every group and every mismatch")
    add_save(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.terminal import Terminal

    report = _of_dumps(options) if options.dumps else _of_job(options)
    if options.json:
        print_json("collectives", report.as_json())
    else:
        report.print(Terminal(), full=options.full)
    if report.has_evidence:
        return 0
    sys.stderr.write(
        "hint: torch's recorder keeps collectives if TORCH_FR_BUFFER_SIZE (in older versions\n"
        "  TORCH_NCCL_TRACE_BUFFER_SIZE) is above 0 when the job starts\n"
    )
    return 1


def _of_dumps(options: argparse.Namespace) -> CollectiveReport:
    from rankdbg import selection
    from rankdbg.frontends.dump_files import read_dumps
    from rankdbg.frontends.reports.collectives import CollectiveReport
    from rankdbg.types import ProcessKey, Rank
    from rankdbg.verdicts.collectives import judge

    for given, name in ((options.target, "-t"), (options.job, "--job"), (options.save, "--save")):
        if given:
            raise BadInput(f"--dumps reads files and takes no {name}")
    dumps = read_dumps(options.dumps)
    if not dumps.traces:
        why = [f"{file}: {reason}" for file, reason in dumps.skipped[:8]]
        raise BadInput("none of these files is a dump of a flight recorder", *why)
    findings = judge(dumps.traces, "it left no dump", longer_than=0.0)
    roster = [Rank(ProcessKey("", n, 0), job="", number=n) for n in findings.job.ranks]
    chosen = selection.pick(selection.parse(options.ranks), roster)
    shown = [rank.number for rank in chosen if rank.number is not None]
    return CollectiveReport(findings, skipped=dumps.skipped, shown=shown)


def _of_job(options: argparse.Namespace) -> CollectiveReport:
    from rankdbg.frontends.live_traces import traces_of
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.collectives import CollectiveReport
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.types import Silence
    from rankdbg.verdicts.collectives import judge

    with open_session(options) as session:
        chosen, everybody = choose(session, options)
        # All are asked, whoever is to be shown: those who wait tell about the others.
        ranks = [rank for rank in everybody if rank.kind == "rank"]
        answers = session.collectives(ranks)
        if options.save:
            session.save(options.save)
    return CollectiveReport(
        judge(traces_of(answers)),
        silent=[answer for answer in answers if isinstance(answer, Silence)],
        everybody=everybody,
        shown=[rank.number for rank in chosen if rank.number is not None],
    )
