"""Which rank, module and tensor had the first nan or inf.

  rankdbg nan                tensors with nan or inf; the first one, if caught
  rankdbg nan --arm          stop each rank at its first nan, in its module
  rankdbg nan --arm --exact  on a GPU too, with a wait for it at each module
  rankdbg nan --disarm       do not stop any more
  rankdbg run --stop-on-nan -- COMMAND     armed from the start

Parameters, buffers, gradients and optimizer state are counted where they are. An
armed rank looks at each output of a module and at its gradient: one reduction each,
which takes about a tenth of a step on a CPU, and doubles a step on a GPU that waits
for its kernels to be launched. It stops at a nan, at an infinite loss and at a
gradient that is not finite; not at inf in other outputs, of which masks are made,
nor at gradients that a loss scaler explains. All other ranks of its node are disarmed
then. Timeouts of process groups are held while armed.
Exit status 1 if something is not finite, or if a rank did not answer.
"""

from __future__ import annotations

import argparse

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common
from rankdbg.frontends.reports.documents import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--arm", action="store_true", help="stop each rank where its first nan appears"
    )
    parser.add_argument("--disarm", action="store_true", help="do not stop any more")
    parser.add_argument(
        "--exact",
        action="store_true",
        help="with --arm: on a GPU, stop in the module itself and not after the pass; slower",
    )
    parser.add_argument("--full", action="store_true", help="show every tensor")


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports import nonfinite as reports
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations import nonfinite

    if options.arm and options.disarm:
        raise BadInput("--arm and --disarm exclude each other")
    if options.exact and not options.arm:
        raise BadInput("--exact needs --arm", hint="rankdbg nan --arm --exact")
    with open_session(options) as session:
        chosen, all_ranks = choose(session, options)
        ranks = [rank for rank in chosen if rank.kind == "rank"]
        if options.arm or options.disarm:
            arming = nonfinite.arm(session, ranks, all_ranks, options.arm, options.exact)
            if options.json:
                print_json("nan", arming.as_json())
            else:
                reports.print_arming(Terminal(), arming)
            return 0 if arming.good and not arming.no_response else 1
        state = nonfinite.read(session, ranks, all_ranks)
    if options.json:
        print_json("nan", state.as_json())
    else:
        reports.print_nan(Terminal(), state, full=options.full)
    return 1 if state.is_bad or state.no_response else 0
