"""Where ranks parted: the last thing that all did, and the first difference.

  rankdbg history                 compare all ranks of a job, running or dead
  rankdbg history --diff 3 5      compare two ranks by all that they still have
  rankdbg history --step 410      what each rank did in a step
  rankdbg history --group dp_1    compare calls of one process group only
  rankdbg history --trace F:NAME  also note the branches of a function of file F
  rankdbg history --modules 2     also note calls of modules, two levels deep
  rankdbg history DIR             copied files, or those of an agents' directory
  rankdbg history -t snapshot:DIR
  rankdbg history --html FILE     a page: the ranks by what they did there

Each rank of a job under `rankdbg run` keeps what it did in a file of 1 MB:
collectives, sends and receives with the line that called them,
rankdbg.progress(step), the steps of optimizers, and what the program marks:
rankdbg.mark("accepted", 17). A rank that was killed leaves its file.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common
from rankdbg.frontends.cli.html_option import add_html, check_html, write_html
from rankdbg.frontends.reports.documents import print_json
from rankdbg.types import Answer

if TYPE_CHECKING:
    from rankdbg.investigations.histories.rank_histories import JobHistory
    from rankdbg.session import Session
    from rankdbg.types import Rank


# The page shows where ranks parted.
_WITHOUT_PAGE = {
    "step": "--html shows where the ranks parted; leave --html out to see one step",
    "trace": "start the trace first, then: rankdbg history --html FILE",
    "modules": "set the depth first, then: rankdbg history --html FILE",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="read the history files in this directory"
    )
    add_common(parser)
    parser.add_argument(
        "--diff", nargs=2, type=int, metavar=("RANK", "RANK"), help="compare only these two"
    )
    parser.add_argument("--step", type=int, metavar="N", help="show what each rank did in step N")
    parser.add_argument(
        "--group", metavar="NAME", help="compare only calls of this group, by name or description"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE:FUNCTION",
        help="from now on, note branches and loop turns of this function (Python 3.12 and later); "
        "off: of none",
    )
    parser.add_argument(
        "--modules", type=int, metavar="DEPTH", help="from now on, note calls of modules; 0: none"
    )
    add_html(parser)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports import histories as reports
    from rankdbg.frontends.terminal import Terminal
    from rankdbg.investigations.histories import rank_histories

    _check_one(options)
    folder = _folder(options)
    check_html(options)
    with open_session(options) as session:
        if options.trace or options.modules is not None:
            return _change(session, options)
        origin = session.cluster.target, session.cluster.saved
        job = rank_histories.read_job(session, options.job, folder)
        if options.step is not None:
            shown = rank_histories.events_of_step(session, job, options.step)
            if options.json:
                print_json("history", shown.step_as_json(options.step))
            else:
                reports.print_step(Terminal(), shown, options.step)
            return 0
        if options.diff:
            one, other = _two_ranks(job, options.diff)
            job = rank_histories.compare_two(session, job, one, other)
        elif options.group:
            job = rank_histories.compare_group(session, job, options.group)
        else:
            job = rank_histories.compare(session, job)
    if options.json:
        print_json("history", job.as_json())
    else:
        reports.print_history(Terminal(), job, of_two=bool(options.diff))
    if options.html is not None:
        from rankdbg.frontends.html.history_document import document_of_history

        write_html(options, partial(document_of_history, job), "history", *origin)
    return 0


def _change(session: Session, options: argparse.Namespace) -> int:
    from rankdbg.frontends.reports import histories as reports
    from rankdbg.frontends.terminal import Terminal

    if options.trace and options.trace != "off" and not all(options.trace.rpartition(":")[::2]):
        raise BadInput(f"invalid --trace {options.trace}: expected FILE:FUNCTION, or off")
    if options.modules is not None and options.modules < 0:
        raise BadInput(f"invalid --modules {options.modules}: expected 0 or more")
    ranks = [rank for rank in session.job(options.job) if rank.kind == "rank"]
    replies = session.change_history(ranks, options.trace or "", options.modules)
    if options.json:
        print_json("history", reports.changes_as_json(replies))
    else:
        reports.print_changes(Terminal(), replies, ranks)
    refused = [each for each in replies if not isinstance(each, Answer) or each.value.why]
    return 1 if refused else 0


def _check_one(options: argparse.Namespace) -> None:
    names = ("diff", "step", "group", "trace", "modules")
    for name in ("step", "trace", "modules"):
        if options.html is not None and getattr(options, name) is not None:
            raise BadInput(f"--html and --{name} exclude each other", hint=_WITHOUT_PAGE[name])
    given = [f"--{name}" for name in names if getattr(options, name) is not None]
    if len(given) > 1:
        raise BadInput(f"{given[0]} and {given[1]} exclude each other")


def _folder(options: argparse.Namespace) -> str:
    if not options.directory:
        return ""
    asks = {"-t": options.target, "--trace": options.trace, "--modules": options.modules}
    for name, value in asks.items():
        if value is not None and value != []:
            raise BadInput(f"history DIR reads files of this machine and does not take {name}")
    if not os.path.isdir(options.directory):
        raise BadInput(f"no directory {options.directory}")
    return os.path.abspath(str(options.directory))


def _two_ranks(job: JobHistory, numbers: Sequence[int]) -> tuple[Rank, Rank]:
    if numbers[0] == numbers[1]:
        raise BadInput(f"--diff needs two ranks, not rank {numbers[0]} twice")
    return _rank(job, numbers[0]), _rank(job, numbers[1])


def _rank(job: JobHistory, number: int) -> Rank:
    found = [rank for rank in job.ranks if rank.number == number]
    if not found:
        numbers = ", ".join(str(rank.number) for rank in job.ranks)
        raise BadInput(f"no history of rank {number}", hint=f"there are those of {numbers}")
    return found[0]
