"""What the logs say: what failed first, why, and what to do about it.

  rankdbg doctor logs/                    every log below a directory
  rankdbg doctor slurm-4711.out rank*.err
  rankdbg doctor logs/ --rules mine.toml  with rules of your own

The first cause comes first, with the rank and the lines that show it; then what is only
a consequence of it, what belongs to the job being taken down, and what looks alarming
and is harmless. Exit status 1 if something has failed.
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from rankdbg.frontends.reading_logs import add_log_arguments

    add_log_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reading_logs import scan_paths
    from rankdbg.frontends.reports.failures import FailureReport
    from rankdbg.frontends.reports.phases import PhaseReport
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.verdicts.failures import diagnose
    from rankdbg.verdicts.log_rules import load_rules
    from rankdbg.verdicts.phases import alive_after, courses

    rules = load_rules(options.rules)
    scans = scan_paths(options.paths, rules.patterns())
    diagnosis = diagnose(scans, rules, alive_after(scans, rules))
    failures, phases = FailureReport(diagnosis, scans), PhaseReport(courses(scans, rules))
    if options.json:
        print_json("doctor", {**failures.as_json(), "phases": phases.as_json()})
    else:
        terminal = Terminal()
        failures.print(terminal)
        phases.print_now(terminal)
        failures.print_harmless(terminal)
    return 1 if diagnosis.failures else 0
