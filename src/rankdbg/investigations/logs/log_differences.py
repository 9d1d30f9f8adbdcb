"""What only some ranks have logged, as a value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankdbg import selection
from rankdbg.errors import BadInput, NoLogs
from rankdbg.investigations.logs.log_sources import LogSource, Messages
from rankdbg.investigations.logs.merged_logs import (
    about_files,
    kind_json,
    notes_on,
    read_messages,
)
from rankdbg.investigations.logs.merged_messages import LogWriter, WriterNames, label
from rankdbg.investigations.logs.picked_ranks import as_rank
from rankdbg.logs.entries import LogQuery
from rankdbg.logs.kinds import MessageKind, kinds_of, of_some, only_of
from rankdbg.text.amounts import counted


@dataclass(frozen=True)
class OneSidedMessages:
    """`title`: who has logged these kinds of messages, and who has not."""

    title: str
    kinds: Sequence[MessageKind[LogWriter]]

    @property
    def amount(self) -> str:
        count = len(self.kinds)
        return "nothing" if not count else f"{counted(count, 'kind')} of messages"


@dataclass(frozen=True)
class LogDifferences:
    """`sides`: what only the `group` and what only the others have logged; without a group one,
    what some have logged."""

    sides: Sequence[OneSidedMessages]
    group: str
    files: Mapping[str, Any]
    notes: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        kinds = [[kind_json(kind) for kind in side.kinds] for side in self.sides]
        about = {**self.files, "notes": self.notes}
        if not self.group:
            return {"some": kinds[0], **about}
        return {"group": self.group, "only_group": kinds[0], "only_others": kinds[1], **about}


def compare_logs(source: LogSource, wanted: LogQuery, group: str) -> LogDifferences:
    """`group`: a selection, or `` for no group."""
    messages = read_messages(source, wanted)
    names = WriterNames(source.ranks, source.files)
    kinds, all_ranks = _compared(messages, names)
    files, notes = about_files(messages, source), notes_on(messages, wanted)
    if all(who.number is None for who in all_ranks):
        notes.append("Ray's driver leaves out equal lines of other workers: RAY_DEDUP_LOGS=0")
    if not group:
        title = f"logged by some of {_named(all_ranks)}, not by all"
        return LogDifferences(
            [OneSidedMessages(title, of_some(kinds, all_ranks))], "", files, notes
        )
    ours = _group(group, all_ranks, source, names)
    theirs = all_ranks - ours
    if not theirs:
        raise BadInput(f"{group}: all ranks that have logged; no other ranks to compare with")
    us, others = _named(ours), _named(theirs)
    sides = [
        OneSidedMessages(f"logged by {us}, not by {others}", only_of(kinds, ours)),
        OneSidedMessages(f"logged by {others}, not by {us}", only_of(kinds, theirs)),
    ]
    return LogDifferences(sides, label(sorted(ours)), files, notes)


def _compared(
    messages: Messages, names: WriterNames
) -> tuple[list[MessageKind[LogWriter]], set[LogWriter]]:
    """The kinds of messages of each rank. Lines that a Ray driver prints name processes instead:
    these are compared where no ranks can be."""
    counted = [*zip(messages.entries, messages.counts, strict=True)]
    of_ranks = [(e, count) for e, count in counted if e.rank is not None and not e.copied]
    of_processes = [(e, count) for e, count in counted if e.pid is not None]
    all_ranks: set[LogWriter] = set()
    for chosen in (of_ranks, of_processes):
        kinds = kinds_of((names.of(e), e.order, e.time, e.text, count) for e, count in chosen)
        all_ranks = {who for kind in kinds for who in kind.who}
        if len(all_ranks) > 1:
            return kinds, all_ranks
    known = f"only {label(all_ranks)}" if all_ranks else "no rank"
    raise NoLogs(
        f"--diff compares ranks, and {known} can be distinguished here",
        "the lines do not name the rank that wrote them, and all are in one file",
        hint="let the launcher add the rank: torchrun --tee 3, mpirun --tag-output, srun --label",
    )


def _group(
    text: str, all_ranks: set[LogWriter], source: LogSource, names: WriterNames
) -> set[LogWriter]:
    if source.ranks:
        picked = selection.pick(selection.parse(text), source.ranks)
        ours = {names.of_rank(rank) for rank in picked}
        # A line that tells a number alone may be of each rank that has it.
        return {who for who in all_ranks if who in ours or who in {(w.number, "") for w in ours}}
    ranks = [as_rank(who.number) for who in all_ranks if who.number is not None]
    if not ranks:
        raise BadInput(
            f"the lines name processes, not ranks: {label(all_ranks)}",
            hint="omit the ranks: rankdbg logs --diff PATH",
        )
    return {LogWriter(rank.number, "") for rank in selection.pick(selection.parse(text), ranks)}


def _named(who: Collection[LogWriter]) -> str:
    if all(each.number is None for each in who):
        return label(who)
    return f"rank{'s' if len(who) > 1 else ''} {label(sorted(who))}"
