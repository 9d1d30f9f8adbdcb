"""What was collected from the nodes' disks, from where, and what was left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankdbg.errors import NoJob, RankdbgError, SelectionError
from rankdbg.investigations.nodes.rank_files import Collector, NodeFile, Outcome, place_of
from rankdbg.session import Session
from rankdbg.types import Rank

# For files that are still being written: without --follow, and when the job has ended, since
# nsys takes its time.
PATIENCE, LAST_PATIENCE = 5.0, 300.0
# Polls without a rank after which the job counts as ended (a launcher that restarts its ranks
# has none in between), and polls without a node after which the nodes count as lost.
ENDED, LOST = 2, 3


@dataclass(frozen=True)
class CollectedFiles:
    """`outcomes`: one for each file; `lost`: nodes that gave no response, and why; `end_reached`:
    why there are no nodes any more."""

    destination: Path
    outcomes: Sequence[Outcome]
    lost: Mapping[str, str]
    end_reached: str
    noted: Sequence[str]

    @property
    def new(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state in ("copied", "appended")]

    @property
    def left(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state in ("growing", "failed")]

    @property
    def complete(self) -> bool:
        return bool(self.outcomes) and not (self.left or self.lost or self.end_reached)

    @property
    def notes(self) -> list[str]:
        end = self.end_reached
        return [*([f"the latest output may be missing: {end}"] if end else []), *self.noted]

    def as_json(self) -> dict[str, Any]:
        return {
            "destination": str(self.destination),
            "files": [
                {
                    "node": outcome.file.node,
                    "path": outcome.file.path,
                    "kind": outcome.file.kind,
                    "to": str(place_of(self.destination, outcome.file)),
                    "state": outcome.state,
                    "size": outcome.file.size,
                    "fetched": outcome.written,
                    "sha256": outcome.sha256 or None,
                    "why": outcome.why,
                }
                for outcome in self.outcomes
            ],
            "no_response_nodes": self.lost,
            "notes": self.notes,
        }


class FileCollection:
    """A collection under way: grows with each look; a file is in it once. `find_ranks`: called with
    whether it is the first time."""

    def __init__(
        self, session: Session, collector: Collector, find_ranks: Callable[[bool], list[Rank]]
    ) -> None:
        self._session = session
        self._collector = collector
        self._find_ranks = find_ranks
        self._outcomes: dict[tuple[str, str], Outcome] = {}

    def run(self, follow: float | None, tell: Callable[[CollectedFiles], None]) -> None:
        """Once, or with `follow` every so many seconds until the job has ended; `tell` is called
        after each look but the last. May be interrupted at any time."""
        collector = self._collector
        ranks = self._ranks(first=True)
        # All nodes if there are no ranks.
        self._add(collector.look(ranks, [] if ranks else self._session.cluster.nodes()))
        self._session.reopens = follow is not None
        absent = 0
        while follow is not None and absent < (LOST if collector.end_reached else ENDED):
            tell(self.result())
            collector.raise_if_full(self._outcomes.values())
            time.sleep(follow)
            ranks = self._ranks(first=False)
            absent = 0 if ranks else absent + 1
            self._add(collector.look(ranks))
        deadline = time.monotonic() + (PATIENCE if follow is None else LAST_PATIENCE)
        while (self._is_growing() or collector.busy) and time.monotonic() < deadline:
            time.sleep(0.5)
            self._add(collector.look(ranks))

    def result(self) -> CollectedFiles:
        collector = self._collector
        outcomes = [self._outcomes[key] for key in sorted(self._outcomes)]
        return CollectedFiles(
            collector.destination,
            outcomes,
            collector.lost,
            collector.end_reached,
            collector.notes,
        )

    def _ranks(self, first: bool) -> list[Rank]:
        """Empty when the job has ended; the first time only with --include."""
        self._collector.end_reached = ""
        try:
            ranks = self._find_ranks(first)
        except NoJob:
            if first and not self._collector.includes_more:
                raise
            return []
        except RankdbgError as error:
            if first:
                raise
            # None of these ranks exists any more; or, on Slurm, their nodes are gone.
            if not isinstance(error, SelectionError):
                self._collector.end_reached = error.in_one_line()
            return []
        return [rank for rank in ranks if rank.state not in ("gone", "zombie")]

    def _is_growing(self) -> bool:
        return any(outcome.state == "growing" for outcome in self._outcomes.values())

    def _add(self, files: Sequence[NodeFile]) -> None:
        try:
            self._collector.copy(files)
        finally:  # also what was done before Ctrl-C
            for outcome in [*self._collector.finished]:
                self._note(outcome)

    def _note(self, outcome: Outcome) -> None:
        key = outcome.file.node, outcome.file.path
        before = self._outcomes.get(key)
        if before is not None:
            written = before.written + outcome.written
            state = before.state if outcome.state == "there" else outcome.state
            if state in ("growing", "failed") and outcome.state == "there":
                state = "there"
            outcome = replace(outcome, state=state, written=written)
        self._outcomes[key] = outcome
