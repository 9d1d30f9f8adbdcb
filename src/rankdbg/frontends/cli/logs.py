"""The logs of all ranks, merged by time; equal lines of many ranks are one, with its ranks.

  rankdbg logs                     of the job that runs here
  rankdbg logs 0-3 --since 10m     of some ranks, the last ten minutes
  rankdbg logs --grep 'nan|inf'    messages that match, with their tracebacks
  rankdbg logs --follow            as they are written, until Ctrl-C
  rankdbg logs 3 --diff            what rank 3 logged and the others did
                                   not, and the other way round
  rankdbg logs --diff              what only some ranks have logged
  rankdbg logs logs/               log files of this machine, with no job at all
  rankdbg logs -t ssh:a,b /var/log/train.log

A word that is a file or a directory here is a PATH, any other is RANKS; where both are
possible, write ./3 or ranks(3). With -t, words that begin with / or . are paths there.

Lines that differ in a number are different. What only says when and who (clocks, pids,
hosts, prefixes such as [rank3]:) is not compared, and stands in columns of its own.
A line without a clock stands behind the line that it follows. --diff compares kinds of
lines: there, numbers, addresses and hashes do not count.
Exit status 1 if there is nothing to show.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rankdbg.errors import BadInput
from rankdbg.frontends.cli import add_common
from rankdbg.logs.entries import TAIL

if TYPE_CHECKING:
    from rankdbg.frontends.log_readers import Reader
    from rankdbg.logs.entries import Wanted

MOST = 500_000
TAIL_OF_FOLLOW = 20  # before what comes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="RANKS|PATH",
        nargs="*",
        help="which ranks: 3, 0-6,9, tp=0, role=policy* (default: all); log files, or "
        "directories of them, instead of those of the job",
    )
    parser.add_argument(
        "--since", metavar="WHEN", help="10m, 2h, 1d ago; or 10:41, '2026-11-15 10:41:07'"
    )
    parser.add_argument("--until", metavar="WHEN", help="the same, for the end")
    parser.add_argument("--grep", metavar="REGEX", default="", help="only messages that match")
    parser.add_argument(
        "--tail",
        type=_count,
        metavar="N",
        help=f"the last N messages (default: {TAIL}; with --follow {TAIL_OF_FOLLOW} to begin with)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--follow", action="store_true", help="go on as they come, until Ctrl-C")
    how.add_argument(
        "--diff",
        nargs="?",
        const="",
        metavar="RANKS",
        help="what these ranks logged and the others did not, and the other way round (default: "
        "the ranks that are named first; if none are, what only some have logged)",
    )
    parser.add_argument(
        "--all", action="store_true", dest="everything", help="logs of no rank too: Ray's own"
    )
    add_common(parser)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends import showing_logs
    from rankdbg.logs.entries import parse_grep

    ranks, paths = _sorted_out(options)
    if options.grep:
        parse_grep(options.grep)
    with _open(options, paths) as reader:
        if options.diff is not None:
            wanted = _wanted(options, "", reader)
            return showing_logs.show_differences(
                reader, wanted, options.diff or ranks, options.json
            )
        wanted = _wanted(options, ranks, reader)
        if options.follow:
            return showing_logs.show_on(reader, wanted, options.json)
        return showing_logs.show(reader, wanted, options.json)


def _sorted_out(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Ranks (`` for all) and paths, whichever place they were written in."""
    words = [*options.words]
    if options.diff and _is_path(options.diff, options.target):
        words.append(options.diff)
        options.diff = ""
    paths = [word for word in words if _is_path(word, options.target)]
    ranks = [word for word in words if word not in paths]
    for word in ranks:
        if "/" in word or word.endswith((".log", ".out", ".err", ".txt")):
            hint = f"ls {os.path.dirname(word.rstrip('/')) or '.'}"
            raise BadInput(f"no file or directory {word}", hint=hint)
    if len(ranks) > 1:
        raise BadInput(
            f"ranks are one word, not {' '.join(ranks)}", hint=f"rankdbg logs {','.join(ranks)}"
        )
    for path in paths:
        if path.isdigit():
            kind = "directory" if os.path.isdir(path) else "file"
            sys.stderr.write(f"{path} is a {kind} here; for the rank: 'ranks({path})'\n")
    return (ranks or [""])[0], paths


def _is_path(word: str, target: Sequence[str] | None) -> bool:
    return word.startswith(("/", ".")) if target else os.path.exists(word)


@contextmanager
def _open(options: argparse.Namespace, paths: Sequence[str]) -> Iterator[Reader]:
    from rankdbg.frontends.log_readers import GivenReader, NodeReader

    if paths and not options.target:
        yield GivenReader(paths)
        return
    if any(target.startswith("snapshot:") for target in options.target or ()):
        raise BadInput("a snapshot holds no logs", hint="name the files: rankdbg logs PATH")
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import warn_of_silent_nodes

    with open_session(options) as session:
        session.reopens = options.follow
        reader = NodeReader(session, options.job, paths, options.everything)
        session.silent_nodes = dict(reader.silent_nodes)
        warn_of_silent_nodes(session)
        yield reader


def _wanted(options: argparse.Namespace, ranks: str, reader: Reader) -> Wanted:
    from rankdbg.frontends.log_readers import chosen
    from rankdbg.frontends.moments import parse_moment
    from rankdbg.logs.entries import Wanted

    since = until = None
    if options.since or options.until:
        latest = reader.latest()
        since = parse_moment("--since", options.since, latest) if options.since else None
        until = parse_moment("--until", options.until, latest) if options.until else None
    if since is not None and until is not None and since >= until:
        raise BadInput(f"--since {options.since} is not before --until {options.until}")
    numbers, pids = chosen(ranks, reader)
    return Wanted(
        since=since,
        until=until,
        grep=options.grep,
        limit=options.tail or (TAIL_OF_FOLLOW if options.follow else TAIL),
        ranks=numbers,
        pids=pids,
        follow=options.follow,
        kinds=options.diff is not None,
    )
