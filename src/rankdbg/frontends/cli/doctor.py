"""Find in the logs what failed first, why, and what to do.

  rankdbg doctor                          the running job, or the last one
  rankdbg doctor -t ray:auto              logs on all nodes, scanned in place
  rankdbg doctor logs/                    all logs in a directory, no job needed
  rankdbg doctor slurm-4711.out rank*.err
  rankdbg doctor logs/ --full             all failures, phases, harmless lines
  rankdbg doctor logs/ --html FILE        a page: cause, ranks, steps and events
  rankdbg doctor --follow                 report events as they happen
  rankdbg doctor logs/ --rules mine.toml  with rules of your own

Prints what failed first, where and when, with the line that shows it; what follows from it,
what to do, and how sure that is. What a job has overcome, and what belongs to other jobs, is
not a cause. Where nothing has failed and logs go on without progress, it says who holds the job up.
Of a job that runs, one line says whether it is stuck; rankdbg why shows more.
With --full also the lines of each failure, the phase of each rank and whether it
has logged recently enough, and messages that look alarming but are harmless. Exit status 1 if
something has failed or the job is stuck; ranks stopped at breakpoints alone do not count.
"""

from __future__ import annotations

import argparse
from functools import partial

from rankdbg.frontends.cli.html_option import add_html, check_html, logs_origin, write_html
from rankdbg.frontends.reports.documents import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from rankdbg.frontends.cli.log_options import add_log_arguments

    add_log_arguments(parser)
    add_html(parser)
    parser.add_argument(
        "--full", action="store_true", help="all failures with their lines, phases, harmless lines"
    )


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.cli.log_options import open_source, read_once
    from rankdbg.frontends.following_logs import follow
    from rankdbg.frontends.reports.doctor import print_diagnosis, print_full_diagnosis
    from rankdbg.frontends.saving_reports import save_report
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.hangs.verdicts_with_logs import find_hang
    from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
    from rankdbg.investigations.logs.log_events import EVENTS
    from rankdbg.verdicts.rules.log_rules import load_rules

    check_html(options, options.follow)
    rules = load_rules(options.rules)
    with open_source(options, rules.patterns(), around=True) as source:
        if options.follow:
            diagnosis = follow(source, rules, options.json, EVENTS)
        else:
            read = read_once(source)
            diagnosis = LogDiagnosis.of(read, rules, source.state, find_hang(source))
        scans = source.scans()
    if not options.follow and options.json:
        print_json("doctor", diagnosis.as_json())
    elif not options.follow:
        show = print_full_diagnosis if options.full else print_diagnosis
        show(Terminal(), diagnosis)
    if options.html is not None:
        from rankdbg.frontends.html.log_document import document_of_logs

        write_html(options, partial(document_of_logs, diagnosis), "doctor", logs_origin(options))
    if options.save:
        save_report(options.save, "doctor", diagnosis, print_full_diagnosis)
    rules.check_slow(scans)
    return 1 if diagnosis.finds_trouble and not options.follow else 0
