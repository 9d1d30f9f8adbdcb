"""From the paths a user gave to what their logs say."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rankdbg.errors import BadInput, NoLogs
from rankdbg.logs.files import find_logs
from rankdbg.logs.patterns import FileScan, Pattern
from rankdbg.logs.scan import Scanner
from rankdbg.verdicts.log_lines import CLOCK


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="log files, or directories of them"
    )
    add_rules_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_rules_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE",
        help="rules of your own, beside rankdbg's; may be given several times",
    )


def scan_paths(paths: Sequence[str], patterns: Sequence[Pattern]) -> list[FileScan]:
    """All logs of these paths. One that cannot be read is said on stderr, and is not fatal
    unless it is all there is."""
    for path in paths:
        if not os.path.exists(path):
            raise BadInput(
                f"no file or directory {path}", hint="ls " + (os.path.dirname(path) or ".")
            )
    scanner = Scanner(patterns, CLOCK)
    files = list(dict.fromkeys(find_logs(paths)))
    if not files:
        raise NoLogs(f"no log files in {', '.join(paths)}")
    scans = [scanner.scan(file) for file in files]
    for scan in scans:
        if scan.error:
            much = f", read up to {scan.size} bytes" if scan.size else ""
            sys.stderr.write(f"cannot read {scan.path}: {scan.error}{much}\n")
    if all(scan.error and not scan.size for scan in scans):
        raise NoLogs(f"none of {len(scans)} log files could be read")
    return scans
