"""Output of `rankdbg logs`: show, follow or compare messages."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from rankdbg.frontends.reports.documents import print_json
from rankdbg.frontends.reports.log_lines import FoldPrinter, print_kinds
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.logs.followed_logs import FollowedLogs, NewMessages
from rankdbg.investigations.logs.log_differences import compare_logs
from rankdbg.investigations.logs.log_sources import LogSource
from rankdbg.investigations.logs.merged_logs import read_logs
from rankdbg.logs.entries import LogQuery

LOOK_EVERY = 0.5  # seconds between two looks at files that are followed


def show(source: LogSource, wanted: LogQuery, as_json: bool) -> int:
    logs = read_logs(source, wanted)
    if as_json:
        print_json("logs", logs.as_json())
    else:
        FoldPrinter(Terminal(), logs.speakers).print(logs.folds)
        sys.stdout.flush()
        _say(logs.notes)
    return 0 if logs.folds else 1


def show_on(source: LogSource, wanted: LogQuery, as_json: bool) -> int:
    """Until Ctrl-C."""
    followed = FollowedLogs(source, wanted)
    printer = FoldPrinter(Terminal(), 0, width=4)

    def tell(new: NewMessages) -> None:
        _say(new.notes)
        if as_json:
            for line in new.as_json():
                sys.stdout.write(json.dumps(line) + "\n")
        elif new.folds:
            printer.print(new.folds)
        sys.stdout.flush()

    try:
        tell(followed.begin())
        while True:
            time.sleep(LOOK_EVERY)
            tell(followed.go_on())
    except KeyboardInterrupt:
        tell(followed.end())
    return 0


def show_differences(source: LogSource, wanted: LogQuery, group: str, as_json: bool) -> int:
    """`group`: a selection, or `` for no group."""
    found = compare_logs(source, wanted, group)
    if as_json:
        print_json("logs", found.as_json())
        return 0
    terminal = Terminal()
    for side in found.sides:
        terminal.print(f"{terminal.bold(side.title)}: {side.amount}")
        print_kinds(terminal, side.kinds)
    sys.stdout.flush()
    _say(["numbers, addresses and hashes are not compared", *found.notes])
    return 0


def _say(notes: Sequence[str]) -> None:
    terminal = Terminal(sys.stderr)
    for note in notes:
        terminal.print(note)
