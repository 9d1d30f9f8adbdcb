"""In which phase each rank is, since when, and whether its silence is normal.

  rankdbg phases logs/

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
    from rankdbg.frontends.reading_logs import scan_paths
    from rankdbg.frontends.reports.phases import PhaseReport
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.verdicts.log_rules import load_rules
    from rankdbg.verdicts.phases import courses

    rules = load_rules(options.rules)
    report = PhaseReport(courses(scan_paths(options.paths, rules.phase_patterns()), rules))
    if options.json:
        print_json("phases", {"phases": report.as_json()})
    else:
        report.print(Terminal())
    return 1 if any(course.stalled for course in report.courses) else 0
