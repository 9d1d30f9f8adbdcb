"""From the options of a command line to what logs say."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rankdbg.errors import NodeFailed, NoJob, NoLogs
from rankdbg.frontends.log_sources import GivenLogs, NodeLogs, Source
from rankdbg.logs.patterns import FileScan, Pattern


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    from rankdbg.frontends.cli import add_common

    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="log files, or directories of them; with -t on its nodes "
        "(default: the logs of the job that runs)",
    )
    add_rules_argument(parser)
    parser.add_argument(
        "--follow",
        action="store_true",
        help="keep watching: changes of phase, stalls and failures as they happen",
    )
    parser.add_argument(
        "--save", metavar="DIR", help="also write report.txt, report.json and evidence.txt there"
    )
    add_common(parser)


def add_rules_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE",
        help="rules of your own, beside rankdbg's; may be given several times",
    )


@contextmanager
def open_source(
    options: argparse.Namespace, patterns: Sequence[Pattern], around: bool = False
) -> Iterator[Source]:
    """Paths alone are of this machine, and no process is looked at. `around`: nodes are, too."""
    if options.paths and not options.target:
        yield GivenLogs(options.paths, patterns)
        return
    from rankdbg.frontends.reaching import open_session

    try:
        session = open_session(options)
    except NoJob as error:
        paths = _outputs_of_ended(options.target or ())
        if not paths:
            raise
        sys.stderr.write(f"{error.what}; what it has left is read\n")
        yield GivenLogs(paths, patterns)
        return
    with session:
        session.reopens = options.follow
        yield NodeLogs(session, patterns, options.job, options.paths, around)


def _outputs_of_ended(targets: Sequence[str]) -> list[str]:
    """The output files of jobs that have ended, where Slurm still knows them and they are here."""
    from rankdbg.clusters import slurm_jobs
    from rankdbg.node.slurm_outputs import find_outputs

    numbers = [rest for name, _, rest in (t.partition(":") for t in targets) if name == "slurm"]
    try:
        patterns = [(p, n) for n in numbers if n.isdigit() for p, _ in slurm_jobs.outputs_of(n)]
    except NodeFailed:
        return []
    return [o.path for pattern, number in patterns for o in find_outputs(pattern, "/", number)]


def scan_paths(paths: Sequence[str], patterns: Sequence[Pattern]) -> list[FileScan]:
    """All logs of these paths."""
    return read_once(GivenLogs(paths, patterns))


def read_once(source: Source) -> list[FileScan]:
    """One that cannot be read is said on stderr, and is not fatal unless it is all there is."""
    source.read()
    scans = source.scans()
    for scan in scans:
        if scan.error:
            much = f", read up to {scan.size} bytes" if scan.size else ""
            sys.stderr.write(f"cannot read {scan.path}: {scan.error}{much}\n")
    if all(scan.error and not scan.size for scan in scans):
        silent = source.state.silent_nodes if source.state is not None else {}
        why = [f"{node}: {reason.removeprefix(f'{node}: ')}" for node, reason in silent.items()]
        raise NoLogs(f"none of {len(scans)} log files could be read" if scans else "no logs", *why)
    return scans
