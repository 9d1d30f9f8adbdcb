"""What came home, from where, and what did not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rankdbg.frontends.collecting import Collector, Lying, Outcome
from rankdbg.frontends.terminal import Terminal, cut_path

_WORDS = {"crash": "crash file", "included": "other file"}
_MOST_LEFT = 20


class Report:
    """Grows with each look; a file stands in it once."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        self._told: dict[tuple[str, str], int] = {}

    def add(self, files: Sequence[Lying]) -> None:
        for outcome in self._collector.copy(files):
            key = outcome.file.node, outcome.file.path
            before = self._outcomes.get(key)
            if before is not None:
                written = before.written + outcome.written
                state = before.state if outcome.state == "there" else outcome.state
                if state in ("growing", "failed") and outcome.state == "there":
                    state = "there"
                outcome = replace(outcome, state=state, written=written)
            self._outcomes[key] = outcome

    def outcomes(self) -> list[Outcome]:
        return [self._outcomes[key] for key in sorted(self._outcomes)]

    def growing(self) -> bool:
        return any(outcome.state == "growing" for outcome in self._outcomes.values())

    def exit_status(self) -> int:
        states = {outcome.state for outcome in self._outcomes.values()}
        left = bool(states & {"growing", "failed"}) or not states
        return 1 if left or self._collector.lost or self._collector.end_reached else 0

    def tell(self) -> None:
        """One line on stderr for what has come since the last."""
        new = {
            key: outcome.written - self._told.get(key, 0)
            for key, outcome in self._outcomes.items()
            if outcome.written > self._told.get(key, 0)
        }
        if new:
            self._told.update({key: self._outcomes[key].written for key in new})
            sys.stderr.write(f"collected {_count(len(new), 'file')}, {_size(sum(new.values()))}\n")
            sys.stderr.flush()

    def print(self) -> None:
        terminal = Terminal()
        outcomes = self.outcomes()
        if not outcomes and self._collector.lost:
            terminal.print("nothing was collected")
        elif not outcomes:
            terminal.print("these ranks have left no profiles, dumps or logs")
            terminal.print("  hint: --include GLOB names others, from a rank's working directory")
        else:
            self._print_totals(terminal, outcomes)
        left = [outcome for outcome in outcomes if outcome.state in ("growing", "failed")]
        for outcome in left[:_MOST_LEFT]:
            why = f"  ({outcome.why})"
            place = f"{outcome.file.node}:{outcome.file.path}"
            path = cut_path(place, max(30, terminal.width - len("left: ") - len(why)))
            terminal.print(f"{terminal.red('left:')} {path}{why}")
        if len(left) > _MOST_LEFT:
            terminal.print(f"left: {len(left) - _MOST_LEFT} more; --json has all")
        if any(outcome.state == "growing" for outcome in left):
            terminal.print("  hint: --follow 30 waits for what is still being written")
        for node, why in self._collector.lost.items():
            terminal.print(f"silent: node {node}  ({why})")
        for note in self._notes():
            terminal.print(f"note: {note}")

    def _notes(self) -> list[str]:
        end = self._collector.end_reached
        return [*([f"what came last may be left: {end}"] if end else []), *self._collector.notes]

    def _print_totals(self, terminal: Terminal, outcomes: Sequence[Outcome]) -> None:
        new = [outcome for outcome in outcomes if outcome.state in ("copied", "appended")]
        there = sum(outcome.state == "there" for outcome in outcomes)
        size = _size(sum(outcome.written for outcome in new))
        also = f"; {there} were there already" if there else ""
        where = self._collector.destination
        terminal.print(f"collected {_count(len(new), 'file')}, {size}, into {where}{also}")
        nodes = sorted({outcome.file.node for outcome in new})
        width = max(map(len, nodes), default=0)
        for node in nodes:
            kinds = Counter(o.file.kind for o in new if o.file.node == node)
            words = [_count(number, _WORDS.get(kind, kind)) for kind, number in kinds.items()]
            terminal.print(f"  {node:{width}}  {', '.join(words)}")

    def as_json(self) -> dict[str, Any]:
        return {
            "destination": str(self._collector.destination),
            "files": [
                {
                    "node": outcome.file.node,
                    "path": outcome.file.path,
                    "kind": outcome.file.kind,
                    "to": str(self._collector.place_of(outcome.file)),
                    "state": outcome.state,
                    "size": outcome.file.size,
                    "fetched": outcome.written,
                    "sha256": outcome.sha256 or None,
                    "why": outcome.why,
                }
                for outcome in self.outcomes()
            ],
            "silent_nodes": self._collector.lost,
            "notes": self._notes(),
        }


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _size(size: int) -> str:
    number = float(size)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
