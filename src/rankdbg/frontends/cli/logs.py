"""The logs of all ranks, merged by time; equal lines of several ranks are folded into one.

  rankdbg logs                     of the running job
  rankdbg logs 0-3 --since 10m     of these ranks, the last ten minutes
  rankdbg logs --grep 'nan|inf'    messages that match, with their tracebacks
  rankdbg logs --follow            as they are written, until Ctrl-C
  rankdbg logs 3 --diff            lines that only rank 3 has logged, and
                                   lines that only the others have logged
  rankdbg logs --diff              lines that only some ranks have logged
  rankdbg logs logs/               local log files, no job needed
  rankdbg logs -t ssh:a,b /var/log/train.log

An argument that is a local file or directory is a PATH, any other is RANKS; if it could
be both, write ./3 or ranks(3). With -t, arguments that begin with / or . are remote paths.

Lines that differ in a number are different. Timestamps, pids, hosts and prefixes such as
[rank3]: are not compared and are shown in their own columns. A line without a timestamp
is shown after the line that it follows in its file. --diff compares kinds of lines: it
ignores numbers, addresses and hashes. Exit status 1 if there is nothing to show.
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
    from rankdbg.investigations.logs.log_sources import LogSource
    from rankdbg.logs.entries import LogQuery

MOST = 500_000
TAIL_OF_FOLLOW = 20  # shown at the start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="RANKS|PATH",
        nargs="*",
        help="which ranks: 3, 0-6,9, tp=0, role=policy* (default: all); or log files or "
        "directories, or - for standard input, to read instead of the job's logs",
    )
    parser.add_argument(
        "--since", metavar="WHEN", help="10m, 2h or 1d (ago), 10:41, or '2026-11-15 10:41:07'"
    )
    parser.add_argument("--until", metavar="WHEN", help="end of the time range, same format")
    parser.add_argument("--grep", metavar="REGEX", default="", help="only messages that match")
    parser.add_argument(
        "--tail",
        type=_count,
        metavar="N",
        help=f"the last N messages (default: {TAIL}; with --follow: {TAIL_OF_FOLLOW} at the start)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--follow", action="store_true", help="keep printing new messages, until Ctrl-C"
    )
    how.add_argument(
        "--diff",
        nargs="?",
        const="",
        metavar="RANKS",
        help="lines that only these ranks have logged, and lines that only the others have "
        "logged (default: RANKS; without RANKS, lines that only some ranks have logged)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        dest="everything",
        help="include logs that belong to no rank, such as Ray's own",
    )
    add_common(parser)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= MOST:
        raise argparse.ArgumentTypeError(
            f"invalid number {text!r}: expected a whole number from 1 to {MOST}"
        )
    return int(text)


def run(options: argparse.Namespace) -> int:
    from rankdbg.frontends import showing_logs
    from rankdbg.logs.entries import parse_grep

    ranks, paths = _ranks_and_paths(options)
    if options.grep:
        parse_grep(options.grep)
    with _open(options, paths) as source:
        if options.diff is not None:
            wanted = _wanted(options, "", source)
            return showing_logs.show_differences(
                source, wanted, options.diff or ranks, options.json
            )
        wanted = _wanted(options, ranks, source)
        if options.follow:
            return showing_logs.show_on(source, wanted, options.json)
        return showing_logs.show(source, wanted, options.json)


def _ranks_and_paths(options: argparse.Namespace) -> tuple[str, list[str]]:
    """The ranks (empty: all) and the paths among the arguments."""
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
            f"ranks must be one argument, not {' '.join(ranks)}",
            hint=f"rankdbg logs {','.join(ranks)}",
        )
    for path in paths:
        if path.isdigit():
            kind = "directory" if os.path.isdir(path) else "file"
            sys.stderr.write(
                f"{path} is a local {kind}; to select the rank, write 'ranks({path})'\n"
            )
    return (ranks or [""])[0], paths


def _is_path(word: str, target: Sequence[str] | None) -> bool:
    return word.startswith(("/", ".")) if target else word == "-" or os.path.exists(word)


@contextmanager
def _open(options: argparse.Namespace, paths: Sequence[str]) -> Iterator[LogSource]:
    from rankdbg.investigations.logs.log_sources import given_logs, job_messages

    if paths and not options.target:
        source = given_logs(paths)
        source.find()
        yield source
        return
    if any(target.startswith("snapshot:") for target in options.target or ()):
        raise BadInput("a snapshot contains no logs", hint="name the files: rankdbg logs PATH")
    from rankdbg.frontends.reaching import open_session
    from rankdbg.frontends.reports.ranks import warn_of_silent_nodes

    with open_session(options) as session:
        session.reopens = options.follow
        source = job_messages(session, options.job, paths, options.everything)
        assert source.state is not None
        session.silent_nodes = dict(source.state.silent_nodes)
        warn_of_silent_nodes(session)
        for note in source.state.notes:
            sys.stderr.write(f"{note}\n")
        yield source


def _wanted(options: argparse.Namespace, ranks: str, source: LogSource) -> LogQuery:
    from rankdbg.investigations.logs.moments import parse_moment
    from rankdbg.investigations.logs.picked_ranks import chosen
    from rankdbg.logs.entries import LogQuery

    since = until = None
    if options.since or options.until:
        latest = source.latest()
        since = parse_moment("--since", options.since, latest) if options.since else None
        until = parse_moment("--until", options.until, latest) if options.until else None
    if since is not None and until is not None and since >= until:
        raise BadInput(f"--since {options.since} is not before --until {options.until}")
    numbers, pids = chosen(ranks, source.ranks)
    return LogQuery(
        since=since,
        until=until,
        grep=options.grep,
        limit=options.tail or (TAIL_OF_FOLLOW if options.follow else TAIL),
        ranks=numbers,
        pids=pids,
        follow=options.follow,
        kinds=options.diff is not None,
    )
