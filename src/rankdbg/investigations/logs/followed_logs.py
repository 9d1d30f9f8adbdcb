"""Messages as they are written: equal ones of several ranks are one, if they come together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankdbg.investigations.logs.copies import Copies
from rankdbg.investigations.logs.log_sources import LogSource, Messages
from rankdbg.investigations.logs.merged_logs import fold_json, read_messages
from rankdbg.investigations.logs.merged_messages import LogWriter, WriterNames
from rankdbg.logs.entries import LogQuery
from rankdbg.logs.folding import Fold, Folder

DELAY = 1.0  # seconds that a message waits for equal ones


@dataclass(frozen=True)
class NewMessages:
    """`notes`: nodes and files that cannot be read any more, or again."""

    folds: Sequence[Fold[LogWriter]]
    notes: Sequence[str] = ()

    def as_json(self) -> list[dict[str, Any]]:
        """One for each line."""
        return [fold_json(each) for each in self.folds]


class FollowedLogs:
    def __init__(self, source: LogSource, wanted: LogQuery) -> None:
        self._source = source
        self._wanted = wanted
        self._names = WriterNames(source.ranks, source.files)
        self._copies = Copies(source.files)
        self._folder: Folder[LogWriter] = Folder()
        self._arrived: list[tuple[float, int]] = []  # when folds with smaller numbers were made
        self._failing: set[str] = set()  # nodes and files that cannot be read

    def begin(self) -> NewMessages:
        """The last messages that there are."""
        notes = self._add(read_messages(self._source, self._wanted, may_be_empty=True))
        return NewMessages([*self._folder.take(None)], notes)

    def go_on(self) -> NewMessages:
        """Those that have waited long enough for equal ones."""
        notes = self._add(self._source.read_new(self._wanted))
        ripe = [number for arrived, number in self._arrived if arrived <= time.monotonic() - DELAY]
        del self._arrived[: len(ripe)]
        return NewMessages([*self._folder.take(ripe[-1])] if ripe else [], notes)

    def end(self) -> NewMessages:
        """Those that still wait."""
        return NewMessages([*self._folder.take(None)])

    def _add(self, messages: Messages) -> list[str]:
        """Returns what has changed about files that cannot be read."""
        newest = -1
        for entry in self._copies.without(messages.entries):
            fold = self._folder.add(self._names.of(entry), entry.time, entry.text)
            newest = max(newest, fold.number)
        if newest >= 0:
            self._arrived.append((time.monotonic(), newest + 1))
        failing, before = {*messages.errors}, self._failing
        self._failing = failing
        return [
            *(f"{place}: {messages.errors[place]}" for place in sorted(failing - before)),
            *(f"{place} can be read again" for place in sorted(before - failing)),
        ]
