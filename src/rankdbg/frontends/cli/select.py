"""Which ranks a selection picks.

  rankdbg select 'ranks(tp=0)'                       of the job that runs
  rankdbg select 'dp=(0,2), tp=1' --mesh dp=4,tp=2   of a mesh, without any job

What it prints can be pasted wherever ranks are named.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg import mesh, selection
from rankdbg.frontends.cli import add_common, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("--mesh", help="pick from this mesh instead of a job: pp=2,dp=2,tp=2")


def run(options: argparse.Namespace) -> int:
    if options.mesh is not None:
        everybody = mesh.roster(mesh.parse(options.mesh))
        chosen = selection.pick(selection.parse(options.ranks), everybody)
    else:
        from rankdbg.frontends.reaching import open_session
        from rankdbg.frontends.reports.ranks import choose

        with open_session(options) as session:
            chosen, everybody = choose(session, options)
    if options.json:
        numbers = [rank.number for rank in chosen if rank.number is not None]
        text = selection.format_ranks(chosen, everybody)
        print_json("select", {"ranks": numbers, "text": text, "count": len(chosen)})
    else:
        sys.stdout.write(selection.format_ranks(chosen, everybody) + "\n")
    return 0
