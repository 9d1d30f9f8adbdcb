"""Which ranks stand in the debugger, where and why.

rankdbg list             all stops of the job, equal ones on one line
rankdbg list tp=0        of these ranks
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.stops import StopReport
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.session import Session

    with Session(options.target, options.timeout) as session:
        ranks, everybody = choose(session, options)
        report = StopReport(session.stops(ranks), everybody)
        if options.json:
            print_json("list", report.as_json())
        else:
            report.print(Terminal())
    return 0
