"""The stacks of processes below ranks: workers of data loaders, pools, commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rankdbg.investigations.rank_labels import silent_json, single_names
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.session import Sampled
from rankdbg.types import ProcessKey, Rank, Silence

_LONGEST_LABEL = 30


@dataclass(frozen=True, repr=False)
class ChildStacks(MergedStacks):
    """A process is named by its rank and its pid: 1/4711."""

    parents: Mapping[ProcessKey, Rank] = field(default_factory=dict)

    noun = "process"

    @classmethod
    def below(
        cls,
        seen: Sequence[Sampled],
        silent: Sequence[Silence],
        children: Sequence[tuple[Rank, Rank]],
    ) -> ChildStacks:
        """`children`: each process, and its rank."""
        parents = {child.process: rank for child, rank in children}
        return cls(seen, silent, [child for child, _ in children], parents=parents)

    def label(self, ranks: Sequence[Rank]) -> str:
        text = self.picked(ranks)
        if len(text) <= _LONGEST_LABEL:
            return text
        return f"{text[: _LONGEST_LABEL - 8].rpartition(',')[0]},… ({len(ranks)})"

    def picked(self, ranks: Sequence[Rank]) -> str:
        """1/4711,4712 2/4800"""
        families: dict[str, list[str]] = {}
        for child in ranks:
            families.setdefault(self._number(child), []).append(str(child.pid))
        return " ".join(f"{rank}/{','.join(pids)}" for rank, pids in families.items())

    def _number(self, child: Rank) -> str:
        rank = self.parents[child.process]
        return self._names[rank.process]

    @cached_property
    def _names(self) -> dict[ProcessKey, str]:
        return single_names(list({r.process: r for r in self.parents.values()}.values()))

    def members_json(self, ranks: Sequence[Rank]) -> dict[str, Any]:
        return {"processes": [self._json(child) for child in ranks], "count": len(ranks)}

    def _json(self, child: Rank) -> dict[str, Any]:
        rank = self.parents[child.process]
        return {"rank": rank.number, "role": rank.role, "pid": child.pid, "host": child.host}

    def as_json(self) -> dict[str, Any]:
        silent = [
            {**entry, **self._json(silence.rank), "command": " ".join(silence.rank.command)}
            for entry, silence in zip(silent_json(self.no_response), self.no_response, strict=True)
        ]
        return {**super().as_json(), "no_response": silent}

    def _counted(self) -> str:
        count = len(self.all_ranks)
        return f"{count} child process{'es' * (count != 1)} (as rank/pid)"

    def records(self) -> list[dict[str, Any]]:
        """`rank` is the one that a process is below of."""
        parents = {(child.host, child.pid): self.parents[child.process] for child in self.all_ranks}
        rows = super().records()
        return [{**row, "rank": parents[row["host"], row["pid"]].number} for row in rows]
