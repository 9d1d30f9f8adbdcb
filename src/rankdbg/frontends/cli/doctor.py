"""What the logs say: what failed first, why, and what to do about it.

  rankdbg doctor                          of the job that runs here, or has run
  rankdbg doctor -t ray:auto              on all nodes, scanned where they lie
  rankdbg doctor logs/                    every log below, no job needed
  rankdbg doctor slurm-4711.out rank*.err
  rankdbg doctor --follow                 what happens, as it happens
  rankdbg doctor logs/ --rules mine.toml  with rules of your own

The first cause comes first, with the rank and the lines that show it; then what is only
a consequence of it, what belongs to the job being taken down, in which phase each rank is
and whether its silence is normal, how the nodes do (GPUs, kernel messages, disks,
memory, processes), and what looks alarming and is harmless. Exit status 1 if something
has failed.
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
    from rankdbg.frontends.reports.doctor import DoctorReport
    from rankdbg.frontends.saving_reports import save_report
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.verdicts.log_rules import load_rules

    rules = load_rules(options.rules)
    with open_source(options, rules.patterns(), around=True) as source:
        if options.follow:
            report = follow(source, rules, options.json, EVENTS)
        else:
            report = DoctorReport(read_once(source), rules, source.state)
    if not options.follow and options.json:
        print_json("doctor", report.as_json())
    elif not options.follow:
        report.print(Terminal())
    if options.save:
        save_report(options.save, "doctor", report)
    return 1 if report.diagnosis.failures and not options.follow else 0
