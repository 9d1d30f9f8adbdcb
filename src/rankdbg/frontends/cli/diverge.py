"""Where replicas stop being equal: parameters that ranks should have alike.

  rankdbg diverge                          parameters and buffers of all ranks
  rankdbg diverge --gradients --optimizer  gradients and optimizer state too
  rankdbg diverge --equal-across dp        compare along these dimensions only
  rankdbg diverge --every 100              keep hashes of every 100th step
  rankdbg diverge --first                  the first difference, and its cause
  rankdbg diverge --html FILE              a page: the ranks by equal tensors

Each rank hashes its tensors bit for bit, where they are, at the start of one step
(rankdbg.progress) that no rank has reached; ranks that report no steps are hashed at
once. What must be equal follows from the mesh, and from DTensor's placements.
Exit status 1 if something differs by more than rounding, or if a rank did not answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rankdbg.frontends.cli import add_common
from rankdbg.frontends.cli.html_option import add_html, check_html, write_html
from rankdbg.frontends.reports.documents import print_json

if TYPE_CHECKING:
    from rankdbg.investigations.replicas.results import Replicas
    from rankdbg.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, ranks="optional")
    parser.add_argument(
        "--equal-across",
        metavar="DIM,DIM",
        help="dimensions of the mesh along which all tensors must be equal",
    )
    parser.add_argument("--gradients", action="store_true", help="compare gradients too")
    parser.add_argument("--optimizer", action="store_true", help="compare optimizer state too")
    parser.add_argument(
        "--random",
        action="store_true",
        help="note random generators that are equal in replicas, or differ along tp",
    )
    parser.add_argument(
        "--every",
        type=_every,
        metavar="N",
        help="from now on, keep the hashes of every N-th step; 0: no longer",
    )
    parser.add_argument(
        "--first",
        action="store_true",
        help="find the first difference, its cause, and the operator that computes differently",
    )
    parser.add_argument("--full", action="store_true", help="show every tensor that differs")
    add_html(parser)


def _every(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(
            f"invalid number {text!r}: expected a whole number from 0 to 1000000"
        )
    return int(text)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports import replicas as reports
    from rankdbg.frontends.reports.ranks import choose
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.replicas import comparing
    from rankdbg.investigations.replicas.results import KINDS

    kinds = [*KINDS]
    for kind, wanted in (
        ("gradient", options.gradients),
        ("optimizer", options.optimizer),
        ("random", options.random),
    ):
        kinds += [kind] if wanted else []
    across = [name.strip() for name in (options.equal_across or "").split(",") if name.strip()]
    check_html(options)
    with open_session(options) as session:
        origin = session.cluster.target, session.cluster.saved
        chosen, all_ranks = choose(session, options)
        ranks = [rank for rank in chosen if rank.kind == "rank"]
        if options.every:
            comparing.check_steps(session, ranks, all_ranks)
        limit = max(comparing.TIMEOUT, session.timeout)
        found = comparing.compare(
            session, ranks, all_ranks, kinds, across, first=options.first, timeout=limit
        )
        if options.every is not None:
            found = _keep(session, found, kinds, options)
    if options.json:
        print_json("diverge", found.as_json())
    else:
        reports.print_replicas(Terminal(), found, full=options.full)
    if options.html is not None:
        from rankdbg.frontends.html.replica_document import document_of_replicas

        write_html(options, partial(document_of_replicas, found), "diverge", *origin)
    return 1 if found.is_faulty or found.without else 0


def _keep(
    session: Session, found: Replicas, kinds: Sequence[str], options: argparse.Namespace
) -> Replicas:
    from rankdbg.frontends.reports import replicas as reports
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.replicas import comparing

    if options.every and not options.json:
        reports.print_cost(Terminal(), found, options.every)
    kept = comparing.keep_every(session, found, options.every, kinds)
    if not options.json:
        reports.print_keeping(Terminal(), found, options.every)
    return kept
