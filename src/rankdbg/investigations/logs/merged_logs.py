"""The logs of all ranks as a value: messages by time, equal messages of many ranks once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rankdbg import selection
from rankdbg.errors import NoLogs
from rankdbg.investigations.logs.copies import Copies
from rankdbg.investigations.logs.log_sources import LogSource, Messages
from rankdbg.investigations.logs.merged_messages import LogWriter, WriterNames, label
from rankdbg.investigations.logs.picked_ranks import PickedNumbers
from rankdbg.investigations.logs.unreadable_logs import unreadable
from rankdbg.investigations.results import Result
from rankdbg.logs.entries import LogQuery
from rankdbg.logs.folding import Fold, fold
from rankdbg.logs.kinds import MessageKind
from rankdbg.text.amounts import counted

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

CLOCK_WIDTH = len("10:41:07.123")


@dataclass(frozen=True, repr=False)
class MergedLogs(Result):
    """`folds`: messages, oldest first, each with those who wrote it; `speakers`: how many ranks
    wrote any; `files`: what was read; `notes`: what was not, and why."""

    folds: Sequence[Fold[LogWriter]]
    speakers: int = 0
    files: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        lines = [fold_json(each) for each in self.folds]
        return {"lines": lines, **self.files, "notes": [*self.notes]}

    def summary(self) -> str:
        count = len(self.folds)
        return f"{counted(count, 'message')} of {counted(self.speakers, 'rank')}"

    def records(self) -> list[dict[str, Any]]:
        """One for each message; `time` is the first time that it was written."""
        return [
            {
                "time": None if each.first is None else datetime.fromtimestamp(each.first),
                "ranks": label(each.who),
                "count": len(each.who),
                "text": each.text,
            }
            for each in self.folds
        ]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import MOST_ROWS, Paragraph, Table, TableRow

        last = self.folds[-MOST_ROWS:]
        rows = [TableRow((clock(each.first), label(each.who), each.text)) for each in last]
        left_out = len(self.folds) - len(last)
        notes = [f"{left_out} older messages are in as_json()"] if left_out else []
        texts = [*notes, *self.notes]
        return [Table(("time", "ranks", "message"), rows), *map(Paragraph, texts)]


def read_logs(source: LogSource, wanted: LogQuery) -> MergedLogs:
    messages = read_messages(source, wanted)
    names, copies = WriterNames(source.ranks, source.files), Copies(source.files)
    entries = copies.without(messages.entries)
    folds = fold((names.of(entry), entry.time, entry.text) for entry in entries)
    notes = [*notes_on(messages, wanted), *_copy_notes(copies)]
    notes += _missing(source, wanted, messages)
    speakers = {names.of(entry) for entry in entries if entry.rank is not None}
    return MergedLogs(folds, len(speakers), about_files(messages, source), notes)


def read_messages(source: LogSource, wanted: LogQuery, may_be_empty: bool = False) -> Messages:
    messages = source.read(wanted)
    if messages.entries or may_be_empty:
        return messages
    if messages.errors and len(messages.errors) >= len(source.files):
        raise NoLogs(
            f"none of {len(source.files)} log files could be read",
            *unreadable(messages.errors.items())[:5],
        )
    if isinstance(wanted.ranks, PickedNumbers):
        numbers = {rank for rank, _ in messages.speakers if rank is not None}
        wanted.ranks.check(numbers)  # or what was asked for is not there
    return messages


def notes_on(messages: Messages, wanted: LogQuery) -> list[str]:
    notes = [f"cannot read {line}" for line in unreadable(messages.errors.items())]
    first = next((e.time for e in messages.entries if e.time is not None), None)
    reach = f" than {clock(first)}" if first is not None else ""
    if messages.late:
        notes.append(
            f"time limit reached: older messages{reach} were not read; use --since and --until"
        )
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


def _missing(source: LogSource, wanted: LogQuery, messages: Messages) -> list[str]:
    """Ranks of which no log is known at all."""
    if not source.ranks or wanted.grep or wanted.since or wanted.until or messages.older:
        return []
    speak = {rank for rank, _ in messages.speakers}
    with_file = {number for file in source.files for number in file.ranks}
    silent = [
        rank.number
        for rank in source.ranks
        if rank.number is not None and rank.number not in speak | with_file
        if wanted.ranks is None or rank.number in wanted.ranks
    ]
    if not silent:
        return []
    ranks = f"rank{'s' if len(silent) > 1 else ''} {selection.format_numbers(silent)}"
    return [f"no log file of {ranks}: written to a terminal, or with others into one file"]


def about_files(messages: Messages, source: LogSource) -> dict[str, Any]:
    return {
        "older": messages.older,
        "late": messages.late,
        "files": [
            {"node": file.node, "path": file.path, "error": messages.errors.get(file.path, "")}
            for file in source.files
        ],
    }


def clock(time: float | None) -> str:
    return "" if time is None else f"{datetime.fromtimestamp(time):%H:%M:%S.%f}"[:CLOCK_WIDTH]


def iso(time: float | None) -> str | None:
    if time is None:
        return None
    return datetime.fromtimestamp(time).astimezone().isoformat(timespec="milliseconds")


def fold_json(fold: Fold[LogWriter]) -> dict[str, Any]:
    return {
        **_who_json(fold.who),
        "time": iso(fold.first),
        "last": iso(fold.last),
        "text": fold.text,
    }


def kind_json(kind: MessageKind[LogWriter]) -> dict[str, Any]:
    return {
        **_who_json(kind.who),
        "time": iso(kind.time),
        "count": kind.count,
        "text": kind.text,
    }


def _who_json(who: Iterable[LogWriter]) -> dict[str, Any]:
    """Ranks as they are written everywhere; who has no number by name."""
    numbered = [each for each in who if each.number is not None]
    return {
        "ranks": label(numbered),
        "others": sorted(each.name for each in who if each.number is None),
    }
