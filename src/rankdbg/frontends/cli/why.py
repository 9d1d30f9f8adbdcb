"""Which rank holds the others up, where, why, and what to do.

  rankdbg why                        examine the running job
  rankdbg why --outside              do not use the agents
  rankdbg why dumps/ rank7.txt       judge stack dumps that others have written
  rankdbg why --rules mine.toml      try your own rules first
  rankdbg why --graph [FILE.svg]     draw who waits for whom
  rankdbg why --html FILE            a page to look at and to send
  rankdbg why --save DIR             save it; open it with -t snapshot:DIR

Examines states, stacks, waits and collectives several times: a rank that makes progress is
not stuck. If the job makes progress, is starting or waits for work, the report says so and
names no culprit. The messages that a culprit has logged last are evidence; of a job that has
died, the logs are read as rankdbg doctor does. Stack dumps of py-spy, pystack, gdb, cuda-gdb and faulthandler are judged by the
same rules; two dumps of a process are two samples.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput, NodeFailed, NoJob, NoLogs, RankdbgError
from rankdbg.frontends.cli import (
    add_common,
    add_save,
    positive,
    seconds,
    split_words,
)
from rankdbg.frontends.cli.html_option import add_html, check_html, write_html
from rankdbg.frontends.reports.documents import print_json

if TYPE_CHECKING:
    from rankdbg.investigations.hangs.job_verdicts import JobVerdict
    from rankdbg.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="files")
    parser.add_argument(
        "--samples", type=positive, default=3, metavar="N", help="number of samples (default: 3)"
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=seconds,
        default=1.0,
        metavar="SECONDS",
        help="time between the first and the last sample (default: 1)",
    )
    parser.add_argument(
        "--longest",
        type=seconds,
        default=6.0,
        metavar="SECONDS",
        help="sample for up to this long if that settles the verdict (default: 6)",
    )
    parser.add_argument("--outside", action="store_true", help="do not use the agents")
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE|DIR",
        help="your own rules, tried before rankdbg's (docs/reference/rules.md)",
    )
    parser.add_argument(
        "--graph",
        nargs="?",
        const="",
        metavar="FILE",
        help="draw who waits for whom, here or in FILE.svg or FILE.dot",
    )
    add_html(parser)
    add_save(parser)


def run(options: argparse.Namespace) -> int:
    split_words(options)
    if options.graph is not None:
        _check_graph(options)
    check_html(options)
    if options.files:
        return _judge_dumps(options)
    try:
        return _judge_job(options)
    except (NoJob, NodeFailed) as error:
        return _judge_ended(options, error)


def _check_graph(options: argparse.Namespace) -> None:
    from rankdbg.frontends.reports.graph_files import WRITERS

    if options.graph and not options.graph.endswith(tuple(WRITERS)):
        raise BadInput(
            f"invalid --graph {options.graph!r}: expected a file that ends in .svg or .dot",
            hint="to draw in the terminal, put --graph last: rankdbg why 0-3 --graph",
        )
    if options.json and not options.graph:
        raise BadInput(
            "--graph without a file draws in the terminal, which --json cannot contain",
            hint="rankdbg why --json --graph waits.dot",
        )


def _with_nodes(found: JobVerdict, session: Session) -> JobVerdict:
    from rankdbg.investigations.nodes.node_health import read_figures
    from rankdbg.investigations.nodes.node_states import NodeStates

    return replace(found, nodes=NodeStates(*read_figures(session, found.all_ranks)))


def _judge_dumps(options: argparse.Namespace) -> int:
    from rankdbg import selection
    from rankdbg.investigations.dumps.stack_dumps import read_stack_dumps
    from rankdbg.verdicts.hangs.hang_rules import load_hang_rules

    rules = load_hang_rules(options.rules)
    job = read_stack_dumps(options.files, sys.stdin.buffer)
    _show(job.verdict(selection.parse(options.ranks), rules), options, ", ".join(options.files))
    return 0


def _judge_ended(options: argparse.Namespace, error: RankdbgError) -> int:
    """By the logs that a job has left: what `doctor` says."""
    from rankdbg.frontends.cli.log_options import open_source, read_once
    from rankdbg.investigations.hangs.verdicts_with_logs import of_ended_job
    from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
    from rankdbg.verdicts.rules.log_rules import load_rules

    options.paths, options.follow = [], False
    rules = load_rules()
    try:
        with open_source(options, rules.patterns(), around=True) as source:
            diagnosis = LogDiagnosis.of(read_once(source), rules, source.state)
    except (NoJob, NoLogs, NodeFailed):
        raise error from None
    _show(of_ended_job(diagnosis), options, ", ".join(options.target or ()))
    return 0


def _show(found: JobVerdict, options: argparse.Namespace, target: str, saved: str = "") -> None:
    """`target`: where the data is from; `saved`: when, if not now."""
    _print(found, options.json)
    if options.graph is not None:
        _show_graph(found, options)
    if options.html is not None:
        from rankdbg.frontends.html.job_document import document_of

        write_html(options, partial(document_of, found), "why", target, saved)


def _show_graph(found: JobVerdict, options: argparse.Namespace) -> None:
    from rankdbg.frontends.reports.graph_files import save_graph
    from rankdbg.frontends.reports.wait_graphs import print_graph
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.hangs.wait_graphs import graph_of

    if options.graph:
        save_graph(graph_of(found), options.graph)
    else:
        print_graph(Terminal(), graph_of(found))


def _print(found: JobVerdict, as_json: bool) -> None:
    from rankdbg.frontends.reports.doctor import print_diagnosis
    from rankdbg.frontends.reports.verdicts import print_verdict
    from rankdbg.frontends.terminal import Terminal

    if as_json:
        print_json("why", found.as_json())
        return
    print_verdict(Terminal(), found)
    if found.diagnosis is not None and not found.first:
        print_diagnosis(Terminal(), found.diagnosis)


def _judge_job(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.investigations.hangs.further_looks import judge_ranks
    from rankdbg.verdicts.hangs.hang_rules import load_hang_rules

    rules = load_hang_rules(options.rules)
    with open_session(options) as session:
        ranks, all_ranks = choose(session, options)
        found = judge_ranks(
            session,
            ranks,
            all_ranks,
            rules,
            options.seconds,
            options.samples,
            options.longest,
            kernels=True,
            outside=options.outside,
        )
        if found.first or found.verdict.state == "ended":  # else no logs are imported
            from rankdbg.investigations.hangs.verdicts_with_logs import with_logs

            found = with_logs(found, session, options.job)
        if options.html is not None:
            found = _with_nodes(found, session)
        _show(found, options, session.cluster.target, session.cluster.saved)
        if options.save:
            session.save(options.save)
            sys.stderr.write(f"saved; open it with: rankdbg why -t snapshot:{options.save}\n")
    return 0
