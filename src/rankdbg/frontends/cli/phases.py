"""In which phase each rank is, since when, and whether its silence is normal.

  rankdbg phases                  the job that runs here: its logs are found
  rankdbg phases -t slurm:4711    on all nodes of a target
  rankdbg phases logs/            every log below a directory, no job needed
  rankdbg phases --follow         changes of phase and stalls, as they happen

Equal rows are folded. Exit status 1 if a rank has been silent for longer than its phase
may be.
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from rankdbg.frontends.reading_logs import add_log_arguments

    add_log_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.following_logs import EVENTS, follow
    from rankdbg.frontends.reading_logs import open_source, read_once
    from rankdbg.frontends.reports.phases import PhaseReport
    from rankdbg.frontends.saving_reports import save_report
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.verdicts.log_rules import load_rules
    from rankdbg.verdicts.phases import courses

    rules = load_rules(options.rules)
    with open_source(options, rules.phase_patterns()) as source:
        if options.follow:
            followed = follow(source, rules, options.json, EVENTS - {"failure"})
            report = PhaseReport(followed.courses)
        else:
            report = PhaseReport(courses(read_once(source), rules))
    if not options.follow and options.json:
        print_json("phases", report.as_json())
    elif not options.follow:
        report.print(Terminal())
    if options.save:
        save_report(options.save, "phases", report)
    stalled = any(course.stalled for course in report.courses)
    return 1 if stalled and not options.follow else 0
