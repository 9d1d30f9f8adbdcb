"""What `rankdbg logs` does with the messages that it has read: show them, go on, or compare."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from rankdbg import selection
from rankdbg.errors import BadInput, NoLogs
from rankdbg.frontends.cli import print_json
from rankdbg.frontends.log_readers import Messages, PickedNumbers, Reader, as_rank
from rankdbg.frontends.merging_logs import Copies, Names, Who, label
from rankdbg.frontends.reports.log_lines import (
    FoldPrinter,
    clock,
    fold_json,
    kind_json,
    print_kinds,
)
from rankdbg.frontends.terminal import Terminal
from rankdbg.logs.entries import Wanted
from rankdbg.logs.folding import Folder, fold
from rankdbg.logs.kinds import Kind, kinds_of, of_some, only_of

# Between two looks at files that are followed; and how long a message waits for equal ones.
LOOK_EVERY, DELAY = 0.5, 1.0


def show(reader: Reader, wanted: Wanted, as_json: bool) -> int:
    messages = _read(reader, wanted)
    names, copies = Names(reader.ranks, reader.files), Copies(reader.files)
    entries = copies.without(messages.entries)
    folds = fold((names.of(entry), entry.time, entry.text) for entry in entries)
    notes = [*_notes(messages, wanted), *_copy_notes(copies), *_missing(reader, wanted, messages)]
    if as_json:
        content = {"lines": [fold_json(each) for each in folds], **_about(messages, reader)}
        print_json("logs", {**content, "notes": notes})
    else:
        everybody = {names.of(e) for e in entries if e.rank is not None}
        FoldPrinter(Terminal(), len(everybody)).print(folds)
        sys.stdout.flush()
        _say(notes)
    return 0 if folds else 1


def show_on(reader: Reader, wanted: Wanted, as_json: bool) -> int:
    """Until Ctrl-C."""
    showing = _Following(reader, wanted, as_json)
    try:
        showing.begin()
        while True:
            time.sleep(LOOK_EVERY)
            showing.go_on()
    except KeyboardInterrupt:
        showing.end()
    return 0


class _Following:
    def __init__(self, reader: Reader, wanted: Wanted, as_json: bool) -> None:
        self._reader = reader
        self._wanted = wanted
        self._as_json = as_json
        self._names = Names(reader.ranks, reader.files)
        self._copies = Copies(reader.files)
        self._folder: Folder[Who] = Folder()
        self._arrived: list[tuple[float, int]] = []  # when folds with smaller numbers were made
        self._printer = FoldPrinter(Terminal(), 0, width=4)
        self._failing: set[str] = set()  # nodes and files that cannot be read

    def begin(self) -> None:
        messages = _read(self._reader, self._wanted, may_be_empty=True)
        self._add(messages)
        self._print(None)

    def go_on(self) -> None:
        self._add(self._reader.read_new(self._wanted))
        ripe = [number for arrived, number in self._arrived if arrived <= time.monotonic() - DELAY]
        if ripe:
            del self._arrived[: len(ripe)]
            self._print(ripe[-1])

    def end(self) -> None:
        self._print(None)

    def _add(self, messages: Messages) -> None:
        newest = -1
        for entry in self._copies.without(messages.entries):
            newest = max(
                newest, self._folder.add(self._names.of(entry), entry.time, entry.text).number
            )
        if newest >= 0:
            self._arrived.append((time.monotonic(), newest + 1))
        failing = messages.errors.keys()
        _say([f"{place}: {messages.errors[place]}" for place in sorted(failing - self._failing)])
        _say([f"{place} can be read again" for place in sorted(self._failing - failing)])
        self._failing = {*failing}

    def _print(self, before: int | None) -> None:
        folds = [*self._folder.take(before)]
        if self._as_json:
            for each in folds:
                sys.stdout.write(json.dumps(fold_json(each)) + "\n")
        elif folds:
            self._printer.print(folds)
        sys.stdout.flush()


def show_differences(reader: Reader, wanted: Wanted, group: str, as_json: bool) -> int:
    """`group`: a selection, or `` for no group."""
    messages = _read(reader, wanted)
    names = Names(reader.ranks, reader.files)
    kinds = kinds_of(
        (names.of(entry), entry.order, entry.time, entry.text, count)
        for entry, count in zip(messages.entries, messages.counts, strict=True)
        if entry.rank is not None and not entry.copied
    )
    everybody = {who for kind in kinds for who in kind.who}
    if len(everybody) < 2:
        raise NoLogs(
            f"--diff compares ranks, and only {label(everybody) or 'none'} can be told apart here",
            hint="rankdbg logs   (shows what there is)",
        )
    notes = _notes(messages, wanted)
    if not group:
        return _show_some(of_some(kinds, everybody), everybody, messages, reader, notes, as_json)
    ours = _group(group, everybody, reader, names)
    theirs = everybody - ours
    if not theirs:
        raise BadInput(
            f"{group} are all ranks that have logged: there are no others to compare with"
        )
    sides = only_of(kinds, ours), only_of(kinds, theirs)
    if as_json:
        print_json(
            "logs",
            {
                "group": label(sorted(ours)),
                "only_group": [kind_json(kind) for kind in sides[0]],
                "only_others": [kind_json(kind) for kind in sides[1]],
                **_about(messages, reader),
                "notes": notes,
            },
        )
        return 0
    terminal = Terminal()
    us, others = _named(ours), _named(theirs)
    for title, side in (
        (f"logged by {us}, not by {others}", sides[0]),
        (f"logged by {others}, not by {us}", sides[1]),
    ):
        terminal.print(f"{terminal.bold(title)}: {_kinds(len(side))}")
        print_kinds(terminal, side)
    sys.stdout.flush()
    _say(["numbers, addresses and hashes are not compared", *notes])
    return 0


def _show_some(
    kinds: Sequence[Kind[Who]],
    everybody: set[Who],
    messages: Messages,
    reader: Reader,
    notes: list[str],
    as_json: bool,
) -> int:
    if as_json:
        content = {"some": [kind_json(kind) for kind in kinds], **_about(messages, reader)}
        print_json("logs", {**content, "notes": notes})
        return 0
    terminal = Terminal()
    title = f"logged by some of {_named(everybody)}, not by all"
    terminal.print(f"{terminal.bold(title)}: {_kinds(len(kinds))}")
    print_kinds(terminal, kinds)
    sys.stdout.flush()
    _say(["numbers, addresses and hashes are not compared", *notes])
    return 0


def _group(text: str, everybody: set[Who], reader: Reader, names: Names) -> set[Who]:
    if reader.ranks:
        picked = selection.pick(selection.parse(text), reader.ranks)
        ours = {names.of_rank(rank) for rank in picked}
        # A line that tells a number alone may be of each rank that has it.
        return {who for who in everybody if who in ours or who in {(w.number, "") for w in ours}}
    ranks = [as_rank(who.number) for who in everybody if who.number is not None]
    return {Who(rank.number, "") for rank in selection.pick(selection.parse(text), ranks)}


def _named(who: set[Who]) -> str:
    return f"rank{'s' if len(who) > 1 else ''} {label(sorted(who))}"


def _kinds(count: int) -> str:
    return "nothing" if not count else f"{count} kind{'s' if count != 1 else ''} of messages"


def _read(reader: Reader, wanted: Wanted, may_be_empty: bool = False) -> Messages:
    messages = reader.read(wanted)
    if messages.entries or may_be_empty:
        return messages
    if messages.errors and len(messages.errors) >= len(reader.files):
        raise NoLogs(
            f"none of {len(reader.files)} log files could be read",
            *(f"{place}: {why}" for place, why in [*messages.errors.items()][:5]),
        )
    if isinstance(wanted.ranks, PickedNumbers):
        numbers = {rank for rank, _ in messages.speakers if rank is not None}
        wanted.ranks.check(numbers)  # or what was asked for is not there
    return messages


def _notes(messages: Messages, wanted: Wanted) -> list[str]:
    notes = [f"cannot read {place}: {why}" for place, why in messages.errors.items()]
    first = next((e.time for e in messages.entries if e.time is not None), None)
    reach = f" than {clock(first)}" if first is not None else ""
    if messages.late:
        notes.append(f"time was up: what is older{reach} was not read; --since and --until choose")
    elif messages.older:
        notes.append(
            f"older messages{reach} are left out: --tail N shows more than {wanted.limit}, "
            "--since and --until choose"
        )
    if not messages.entries:
        notes.append("no message matches" if wanted.grep else "no messages")
    if messages.clockless and wanted.since is not None:
        some = ", ".join(sorted(messages.clockless)[:3])
        notes.append(f"no clock in {some}: counted as written when the file was last changed")
    return notes


def _copy_notes(copies: Copies) -> list[str]:
    if not copies.hidden:
        return []
    return [
        f"Ray has left out {copies.hidden} equal messages of other workers, whose own files are not "
        "here: add Ray's session directory, or run the job with RAY_DEDUP_LOGS=0"
    ]


def _missing(reader: Reader, wanted: Wanted, messages: Messages) -> list[str]:
    """Ranks of which no log is known at all."""
    if not reader.ranks or wanted.grep or wanted.since or wanted.until or messages.older:
        return []
    speak = {rank for rank, _ in messages.speakers}
    with_file = {number for file in reader.files for number in file.ranks}
    silent = [
        rank.number
        for rank in reader.ranks
        if rank.number is not None and rank.number not in speak | with_file
        if wanted.ranks is None or rank.number in wanted.ranks
    ]
    if not silent:
        return []
    ranks = f"rank{'s' if len(silent) > 1 else ''} {selection.format_numbers(silent)}"
    return [f"no log file of {ranks}: written to a terminal, or with others into one file"]


def _about(messages: Messages, reader: Reader) -> dict[str, Any]:
    return {
        "older": messages.older,
        "late": messages.late,
        "files": [
            {"node": file.node, "path": file.path, "error": messages.errors.get(file.path, "")}
            for file in reader.files
        ],
    }


def _say(notes: Sequence[str]) -> None:
    terminal = Terminal(sys.stderr)
    for note in notes:
        terminal.print(note)
