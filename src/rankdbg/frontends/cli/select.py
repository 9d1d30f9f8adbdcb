"""Show which ranks a selection picks.

  rankdbg select 'ranks(tp=0)'                       in the running job
  rankdbg select 'dp=(0,2), tp=1' --mesh dp=4,tp=2   in a mesh, without a job

The output is itself a selection and can be used wherever RANKS is expected.
"""

from __future__ import annotations

import argparse
import sys

from rankdbg import selection
from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json
from rankdbg.selection import mesh


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="required")
    parser.add_argument("--mesh", help="pick from this mesh instead of a job: pp=2,dp=2,tp=2")


def run(options: argparse.Namespace) -> int:
    if options.mesh is not None:
        all_ranks = mesh.roster(mesh.parse(options.mesh))
        chosen = selection.pick(selection.parse(options.ranks), all_ranks)
    else:
        from rankdbg.frontends.reaching import open_session
        from rankdbg.frontends.reports.ranks import choose

        with open_session(options) as session:
            chosen, all_ranks = choose(session, options)
    if options.json:
        from rankdbg.investigations.rank_labels import process_json

        numbers = [rank.number for rank in chosen if rank.number is not None]
        text = selection.format_ranks(chosen, all_ranks)
        processes = [process_json(rank) for rank in chosen]
        document = {"ranks": numbers, "text": text, "count": len(chosen), "processes": processes}
        print_json("select", document)
    else:
        sys.stdout.write(selection.format_ranks(chosen, all_ranks) + "\n")
    return 0
