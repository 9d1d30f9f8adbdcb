"""The text of code at stops: ranks that lack it get the copy that is here, and versions
that differ are known, each once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdbg import grouping
from rankdbg.investigations import local_files
from rankdbg.investigations.rank_labels import label
from rankdbg.selection import format_ranks
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank, Reply, Silence
from rankdbg.wire.answers import SourceEntry, StopReport, StopReports

Identity = tuple[int, ...]

# How many other processes are asked for a text.
MOST_ASKED = 16


@dataclass(frozen=True)
class SourceDifference:
    """A file of which ranks run another version."""

    kind: str  # one of SENTENCES
    file: str
    groups: tuple[tuple[Rank, ...], ...]
    here: str = ""

    def sentence(self, all_ranks: Sequence[Rank]) -> str:
        several = len(self.groups[0]) > 1
        return SENTENCES[self.kind].format(
            name=self.file.rpartition("/")[2],
            here=self.here,
            ranks=f"rank{'s' * several} {label(self.groups[0], all_ranks)}",
            s="" if several else "s",
            has="have" if several else "has",
            versions=" and ".join(label(group, all_ranks) for group in self.groups),
        )

    def as_json(self, all_ranks: Sequence[Rank]) -> dict[str, Any]:
        ranks = [rank for group in self.groups for rank in group]
        return {
            "kind": self.kind,
            "file": self.file,
            "ranks": format_ranks(ranks, all_ranks),
            "text": self.sentence(all_ranks),
        }


SENTENCES = {
    "differs": "{name} differs: {ranks} run{s} another version than {here} here; "
    "lines may not match",
    "differs between ranks": "{name} differs between ranks: {versions} run different versions",
    "changed": "{name} has changed on disk since {ranks} loaded it; lines may not match",
    "changed, shown as loaded": "{name} has changed on disk since {ranks} loaded it; "
    "shown is what was loaded",
    "no source": "{name} differs: {ranks} {has} no source of it, and run{s} another version "
    "than {here} here, which is not shown",
}


class Sources:
    """For one session, so that nothing is looked for or said twice."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._missing: set[str] = set()  # files that are not here either
        self._compared: set[tuple[str, ProcessKey, Identity]] = set()
        self._told: set[tuple[str, str, ProcessKey]] = set()
        self._differences: list[SourceDifference] = []

    # --- what is asked of ranks, with an eye on their sources ---------------------------

    def stops(self, ranks: Sequence[Rank]) -> list[Reply[StopReports]]:
        answers = self._session.stops(ranks)
        self._compare(answers)
        return answers

    def job_with_stops(self, job: str | None) -> tuple[list[Rank], list[Reply[StopReports]]]:
        ranks, answers = self._session.job_with_stops(job)
        self._compare(answers)
        return ranks, answers

    def command(
        self,
        ranks: Sequence[Rank],
        line: str | None,
        wait: float | None = None,
        next_stop: bool = False,
        threads: Sequence[str] = (),
    ) -> list[Reply[StopReport]]:
        answers = self._session.command(ranks, line, wait, self._missing, next_stop, threads)
        lacking = [a for a in answers if isinstance(a, Answer) and self._lacks(a)]
        if lacking:
            supplied = self._supply(lacking)
            held = [a.rank for a in lacking if a.value.held]
            # The others have executed it. What they said has now lines of text in it.
            said = [a.rank for a in lacking if not a.value.held and a.rank.process in supplied]
            again = [
                *(self._session.command(held, line, wait, threads=threads) if held else ()),
                *(self._session.command(said, None, wait, threads=threads) if said else ()),
            ]
            newer = {answer.rank.process: answer for answer in again}
            answers = [newer.get(answer.rank.process, answer) for answer in answers]
        self._compare(answers)
        return answers

    def take_differences(self) -> list[SourceDifference]:
        """What was found since the last time."""
        new, self._differences = self._differences, []
        return new

    def _find(self, file: str) -> Path | None:
        return local_files.find(self._session.maps.local(file))

    # --- ranks that lack a text -----------------------------------------------------------

    def _lacks(self, answer: Answer[StopReport]) -> bool:
        report = answer.value
        if report.held:
            return True
        return report.state == "stopped" and any(map(self._is_wanted, report.sources))

    def _is_wanted(self, entry: SourceEntry) -> bool:
        return not entry.text and entry.file not in self._missing

    def _supply(self, answers: Iterable[Answer[StopReport]]) -> set[ProcessKey]:
        """Send the copies that are here; to whom something was of use."""
        wanted: dict[str, list[tuple[Rank, Identity | None]]] = defaultdict(list)
        for answer in answers:
            for entry in filter(self._is_wanted, answer.value.sources):
                wanted[entry.file].append((answer.rank, entry.identity))
        supplied: set[ProcessKey] = set()
        for file, lacking in wanted.items():
            shown = self._supply_file(file, lacking)
            supplied |= shown
            if not shown:
                self._missing.add(file)
        return supplied

    def _supply_file(
        self, file: str, lacking: Sequence[tuple[Rank, Identity | None]]
    ) -> set[ProcessKey]:
        ranks = [rank for rank, _ in lacking]
        path = self._find(file) or local_files.search(file)
        on_disk = [identity for _, identity in lacking if identity]
        if path is not None and _identity(path) in on_disk:
            return set()  # the very file that has changed, and is not what they run
        if path is not None:
            text = local_files.read(path)
        else:
            text = None if on_disk else self._read_elsewhere(file, ranks)
        answers = self._session.give_source(ranks, file, text) if text else []
        states = [(a.rank, a.value.state) for a in answers if isinstance(a, Answer)]
        if path is not None and not on_disk:
            refused = [rank for rank, state in states if state == "differs"]
            self._note("no source", file, [refused], path)
        return {rank.process for rank, state in states if state == "shown"}

    def _read_elsewhere(self, file: str, lacking: Sequence[Rank]) -> str | None:
        """What another process of the job has: the one that sent the function, say, and not
        all ranks where these are many."""
        without = {rank.process for rank in lacking}
        job = lacking[0].job
        members = self._session.roster(False, job).jobs(everything=True).get(job, [])
        others = [r for r in members if r.agent and r.process not in without]
        others.sort(key=lambda rank: rank.kind == "rank")
        for answer in self._session.read_source(others[:MOST_ASKED], file):
            if isinstance(answer, Answer) and answer.value.text:
                return answer.value.text
        return None

    # --- ranks with another version -------------------------------------------------------

    def _compare(self, answers: Sequence[Reply[StopReports]] | Sequence[Reply[StopReport]]) -> None:
        on_disk: dict[str, list[tuple[Rank, Identity]]] = defaultdict(list)
        changed: dict[tuple[str, str], list[Rank]] = defaultdict(list)
        for answer in answers:
            for entry in _entries(answer):
                if entry.changed:
                    kind = "changed, shown as loaded" if entry.text else "changed"
                    changed[kind, entry.file].append(answer.rank)
                elif entry.identity:
                    on_disk[entry.file].append((answer.rank, entry.identity))
        for (kind, file), ranks in changed.items():
            self._note(kind, file, [ranks])
        for file, having in on_disk.items():
            self._compare_file(file, having)

    def _compare_file(self, file: str, having: list[tuple[Rank, Identity]]) -> None:
        """Each state of a file in a rank once: a `list` that finds nothing new reads no disk."""
        new = [
            (rank, identity)
            for rank, identity in having
            if (file, rank.process, identity) not in self._compared
        ]
        if not new:
            return
        self._compared |= {(file, rank.process, identity) for rank, identity in new}
        path = self._find(file)
        ours = _identity(path) if path else having[0][1]
        if all(identity == ours for _, identity in having):
            return
        digests = [
            (answer.rank, answer.value.digest)
            for answer in self._session.source_digests([rank for rank, _ in new], file)
            if isinstance(answer, Answer) and answer.value.digest
        ]
        if path is not None:
            here = local_files.digest(path)
            self._note("differs", file, [[r for r, digest in digests if digest != here]], path)
            return
        versions = [members for _, members in grouping.group_equal(digests)]
        if len(versions) > 1:
            self._note("differs between ranks", file, versions)

    def _note(
        self, kind: str, file: str, groups: Sequence[Sequence[Rank]], path: Path | None = None
    ) -> None:
        """Each rank is named once."""
        new = []
        for group in groups:
            ranks = {r.process: r for r in group if (kind, file, r.process) not in self._told}
            self._told |= {(kind, file, process) for process in ranks}
            if ranks:
                new.append(tuple(ranks.values()))
        if new:
            here = local_files.name(path) if path else ""
            self._differences.append(SourceDifference(kind, file, tuple(new), here))


def _entries(answer: Reply[StopReports] | Reply[StopReport]) -> list[SourceEntry]:
    """What a rank says about the files of its stops. Snapshots, and ranks with an older
    rankdbg, say nothing."""
    if isinstance(answer, Silence):
        return []
    value = answer.value
    reports = value.stops if isinstance(value, StopReports) else (value,)
    return [entry for report in reports for entry in report.sources]


def _identity(path: Path) -> Identity:
    try:
        return tuple(local_files.identity(path))
    except OSError:  # it has just been removed
        return ()
