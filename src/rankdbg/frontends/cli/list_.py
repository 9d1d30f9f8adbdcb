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
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.sources import Sources
    from rankdbg.frontends.reports.stops import StopReport
    from rankdbg.frontends.terminal import Terminal

    with open_session(options) as session:
        ranks, everybody = choose(session, options)
        sources = Sources(session)
        report = StopReport(sources.stops(ranks), everybody)
        warnings = sources.tell(everybody)
        if options.json:
            print_json("list", {**report.as_json(), "warnings": warnings})
        else:
            report.print(Terminal())
    return 0
