"""The phase of each rank, since when, and whether it has logged recently enough.

  rankdbg phases                  the running job; finds its logs
  rankdbg phases -t slurm:4711    logs on all nodes of a target
  rankdbg phases logs/            all logs in a directory, no job needed
  rankdbg phases --follow         phase changes and stalls, as they happen
  rankdbg phases --html FILE      a page: the phases of all ranks over time

Equal rows are folded. Exit status 1 if a rank has logged nothing for longer than its phase
allows.
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


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.cli.log_options import open_source, read_once
    from rankdbg.frontends.following_logs import follow
    from rankdbg.frontends.reports.phases import print_phases
    from rankdbg.frontends.saving_reports import save_report
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.logs.log_events import EVENTS
    from rankdbg.investigations.logs.rank_phases import RankPhases
    from rankdbg.verdicts.failures.job_phases import courses
    from rankdbg.verdicts.failures.stalls import with_waits
    from rankdbg.verdicts.rules.log_rules import load_rules

    check_html(options, options.follow)
    rules = load_rules(options.rules)
    with open_source(options, rules.phase_patterns()) as source:
        if options.follow:
            followed = follow(source, rules, options.json, EVENTS - {"failure"})
            phases = RankPhases(followed.courses)
        else:
            phases = RankPhases(with_waits(courses(read_once(source), rules)))
        scans = source.scans()
    if not options.follow and options.json:
        print_json("phases", phases.as_json())
    elif not options.follow:
        print_phases(Terminal(), phases)
    if options.html is not None:
        from rankdbg.frontends.html.log_document import document_of_phases

        write_html(options, partial(document_of_phases, phases), "phases", logs_origin(options))
    if options.save:
        save_report(options.save, "phases", phases, print_phases)
    rules.check_slow(scans)
    stalled = any(course.stalled for course in phases.courses)
    return 1 if stalled and not options.follow else 0
