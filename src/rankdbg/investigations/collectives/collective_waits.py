"""Who is missing from which collective, in all worlds of a job, as a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rankdbg.investigations.collectives import collective_words as words
from rankdbg.investigations.collectives.world_waits import WorldWaits
from rankdbg.investigations.rank_labels import label, process_json, silent_json, silent_lines
from rankdbg.investigations.rank_labels import named as named_ranks
from rankdbg.investigations.results import Result
from rankdbg.selection import Names
from rankdbg.types import ProcessKey, Rank, Silence
from rankdbg.verdicts.collectives.culprits import SETTLED_SECONDS
from rankdbg.verdicts.collectives.process_groups import ProcessGroup
from rankdbg.verdicts.collectives.worlds import World

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart


@dataclass(frozen=True, repr=False)
class CollectiveWaits(Result):
    """Who waits in which collective, and who is missing from it. `all_ranks`: all ranks of the job,
    none where there are only dumps; `skipped`: files that are no dumps, and why."""

    judged: Sequence[World]
    no_response: Sequence[Silence] = ()
    all_ranks: Sequence[Rank] = ()
    skipped: Sequence[tuple[str, str]] = ()
    chosen: Sequence[ProcessKey] | None = None  # whose groups are listed; None: those of all

    @cached_property
    def worlds(self) -> list[WorldWaits]:
        chosen = None if self.chosen is None else frozenset(self.chosen)
        return [WorldWaits(world, self._named_among, chosen) for world in self.judged]

    @cached_property
    def _named_among(self) -> Sequence[Rank]:
        if self.all_ranks:
            return self.all_ranks
        return [world.rank(n) for world in self.judged for n in world.findings.job.ranks]

    @cached_property
    def _names(self) -> Names:
        return Names(self._named_among)

    @property
    def has_evidence(self) -> bool:
        return any(world.has_evidence for world in self.worlds)

    @cached_property
    def culprits(self) -> list[Rank]:
        """The ranks that hold others up, in all worlds."""
        return [rank for world in self.judged for rank in world.of(world.findings.culprit_ranks)]

    def groups(self) -> list[tuple[WorldWaits, ProcessGroup]]:
        return [(world, group) for world in self.worlds for group in world.groups()]

    # --- for programs -----------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        worlds = self.worlds
        return {
            "culprit": self._names.of(self.culprits),
            "processes": [process_json(rank) for rank in self.culprits],
            "state": self.state,
            "culprits": [w.culprit_json(each) for w in worlds for each in w.findings.culprits],
            "waiting": self._names.of(self._ranks(lambda world: world.findings.waits)),
            "groups": [
                {"world": self.worlds.index(world), **world.group_json(group)}
                for world, group in self.groups()
            ],
            "mismatches": [
                world.mismatch_json(each) for world in worlds for each in world.findings.mismatches
            ],
            "without_evidence": self._names.of(self._ranks(_absent)),
            "without_entries": self._names.of(self._ranks(_empty)),
            "no_response": silent_json(self.no_response),
            "skipped": [{"file": file, "reason": reason} for file, reason in self.skipped],
        }

    def _ranks(self, numbers_of: Callable[[WorldWaits], Iterable[int]]) -> list[Rank]:
        return [rank for world in self.worlds for rank in world.world.of(numbers_of(world))]

    @property
    def state(self) -> str:
        if not self.has_evidence:
            return "unknown"
        if self.culprits:
            return "held up"
        undecided = any(world.findings.undecided for world in self.worlds)
        return "undecided" if undecided else "no rank waits"

    # --- in words ---------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """Who holds the others up and why, each in a sentence or two."""
        if not self.has_evidence:
            return ["Nothing is known: no rank has a record of any collective."]
        texts = [text for world in self.worlds for text in world.sentences()]
        if not texts:
            live = any(t.now for world in self.worlds for t in world.job.traces.values())
            settled = f"nothing is under way for longer than {SETTLED_SECONDS:g} s"
            done = "all that was entered has been finished"
            texts = [f"No rank waits: {settled if live else done}."]
        return texts

    def accusation(self) -> str:
        """`` if there is no culprit."""
        if not self.culprits:
            return ""
        hold = "holds" if len(self.culprits) == 1 else "hold"
        who = named_ranks(self.culprits, self._named_among)
        who = words.capital(who) if who.startswith("rank") else who
        return f"{who} {hold} the others up."

    def mismatch_texts(self) -> list[str]:
        """Of mismatches that the sentences have not told about."""
        return [
            f"mismatch: {world.mismatch_text(mismatch)}"
            for world in self.worlds
            for mismatch in world.other_mismatches()
        ]

    def remarks(self) -> list[str]:
        """What there is no evidence of."""
        lines = []
        silent = {silence.rank.process for silence in self.no_response}
        if absent := [rank for rank in self._ranks(_absent) if rank.process not in silent]:
            lines.append(f"without evidence: {label(absent, self._named_among, 40)}")
        remarks: dict[str, list[Rank]] = {}
        for world in self.worlds:
            for why, ranks in world.empty_remarks().items():
                remarks.setdefault(why, []).extend(ranks)
        for why, ranks in remarks.items():
            lines.append(f"empty: {label(ranks, self._named_among, 40)}  ({why})")
        return lines + [f"skipped: {file}  ({reason})" for file, reason in self.skipped]

    # --- for notebooks ----------------------------------------------------------------

    def summary(self) -> str:
        return self.accusation() or self.sentences()[0]

    def records(self) -> list[dict[str, Any]]:
        """One for each rank in each group."""
        return [record for world in self.worlds for record in world.records()]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        parts: list[HtmlPart] = [*map(Paragraph, [*self.sentences(), *self.mismatch_texts()])]
        for world, group in self.groups():
            rows = [
                TableRow((world.names.numbers(row.ranks), world.row_text(row, group)), row.mark)
                for row in world.rows(group)
                if world.shown & {*row.ranks}
            ]
            title = f"{words.group_name(group)}, {world.names.named(group.members)}"
            parts.append(Table(("ranks", title), rows))
        silent = silent_lines(self.no_response, self.all_ranks)
        texts = [*self.remarks(), *(f"no response: {ranks} ({why})" for ranks, why in silent)]
        return [*parts, *map(Paragraph, texts)]


def _absent(world: WorldWaits) -> list[int]:
    return [number for number in world.job.ranks if world.is_absent(number)]


def _empty(world: WorldWaits) -> list[int]:
    return [number for number in world.job.ranks if world.is_empty(number)]
