"""Options that the verbs for logs share, and the logs that they name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rankdbg.errors import NoJob, NoLogs
from rankdbg.frontends.cli import add_common
from rankdbg.investigations.logs.log_sources import LogSource, given_logs, job_logs
from rankdbg.investigations.logs.unreadable_logs import unreadable
from rankdbg.logs.patterns import FileScan, Pattern


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="log files or directories, - for standard input; with -t, on the nodes "
        "(default: the logs of the running job)",
    )
    add_rules_argument(parser)
    parser.add_argument(
        "--follow",
        action="store_true",
        help="keep reading; report phase changes, stalls and failures as they happen",
    )
    parser.add_argument(
        "--save", metavar="DIR", help="also write report.txt, report.json and evidence.txt to DIR"
    )
    add_common(parser)


def add_rules_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE",
        help="your own rules, in addition to rankdbg's; may be repeated",
    )


@contextmanager
def open_source(
    options: argparse.Namespace, patterns: Sequence[Pattern], around: bool = False
) -> Iterator[LogSource]:
    """Paths without a target are local files. `around`: also read the health of the nodes."""
    if options.paths and not options.target:
        yield given_logs(options.paths, patterns)
        return
    from rankdbg.frontends.reaching import open_session
    from rankdbg.investigations.logs.ended_jobs import outputs_of_ended

    try:
        session = open_session(options)
    except NoJob as error:
        paths = outputs_of_ended(options.target or ())
        if not paths:
            raise
        sys.stderr.write(f"{error.what}; reading the logs that it left\n")
        yield given_logs(paths, patterns)
        return
    with session:
        session.reopens = options.follow
        yield job_logs(session, patterns, options.job, options.paths, around)


def scan_paths(paths: Sequence[str], patterns: Sequence[Pattern]) -> list[FileScan]:
    """All logs of these paths."""
    return read_once(given_logs(paths, patterns))


def read_once(source: LogSource) -> list[FileScan]:
    """Unreadable files are reported on stderr; an error only if no file could be read."""
    scans = source.scan()
    for line in unreadable((scan.path, _what_failed(scan)) for scan in scans if scan.error):
        sys.stderr.write(f"cannot read {line}\n")
    if all(scan.error and not scan.size for scan in scans):
        silent = source.state.silent_nodes if source.state is not None else {}
        why = [f"{node}: {reason.removeprefix(f'{node}: ')}" for node, reason in silent.items()]
        raise NoLogs(f"none of {len(scans)} log files could be read" if scans else "no logs", *why)
    return scans


def _what_failed(scan: FileScan) -> str:
    return f"{scan.error}, read up to {scan.size} bytes" if scan.size else scan.error
