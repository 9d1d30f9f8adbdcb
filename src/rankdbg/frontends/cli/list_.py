"""Which ranks are stopped in the debugger, where and why.

rankdbg list             all stops of the job, equal ones on one line
rankdbg list tp=0        stops of these ranks
"""

from __future__ import annotations

import argparse

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.reports.sources import warn_of_differences
    from rankdbg.frontends.reports.stops import print_stops
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.stops.stop_sources import Sources
    from rankdbg.investigations.stops.stopped_ranks import RankStops

    with open_session(options) as session:
        ranks, all_ranks = choose(session, options)
        sources = Sources(session)
        answers = sources.stops(ranks)
        found = RankStops(answers, all_ranks, sources.take_differences())
        warn_of_differences(found.differences, all_ranks)
        if options.json:
            print_json("list", found.as_json())
        else:
            print_stops(Terminal(), found)
    return 0
