"""What works on each node as a value, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.wire.node_answers import CheckResult

_MARKS = {True: "ok", False: "NO", None: "-"}


@dataclass(frozen=True)
class NodeChecks:
    """`nodes`: the findings of each, as Session.check() returns them, or why it cannot be reached."""

    nodes: Mapping[str, CheckResult | RankdbgError]

    @property
    def works(self) -> bool:
        answers = self.nodes.values()
        return not self.unreached() and all(
            finding.works is not False
            for answer in answers
            if not isinstance(answer, RankdbgError)
            for finding in answer.findings.values()
        )

    def unreached(self) -> dict[str, list[str]]:
        """The nodes, by the reason."""
        nodes: dict[str, list[str]] = {}
        for node, answer in self.nodes.items():
            if isinstance(answer, RankdbgError):
                nodes.setdefault(str(answer), []).append(node)
        return nodes

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Mark, name, text, and where: the same on several nodes is one."""
        same: dict[str, dict[tuple[bool | None, str], list[str]]] = {}
        for node, answer in self.nodes.items():
            findings = {} if isinstance(answer, RankdbgError) else answer.findings
            for name, finding in findings.items():
                key = finding.works, finding.text
                same.setdefault(name, {}).setdefault(key, []).append(node)
        return [
            (_MARKS[works], name, text, self._on(nodes))
            for name, texts in same.items()
            for (works, text), nodes in texts.items()
        ]

    def _on(self, nodes: list[str]) -> str:
        """Empty if there is only one node."""
        if len(nodes) == len(self.nodes):
            return "" if len(nodes) == 1 else f"all {len(nodes)} nodes"
        return f"on {', '.join(nodes[:4])}" + (f" and {len(nodes) - 4} more" if nodes[4:] else "")

    def as_json(self) -> dict[str, Any]:
        return {"nodes": {node: _as_json(answer) for node, answer in self.nodes.items()}}


def _as_json(answer: CheckResult | RankdbgError) -> dict[str, Any]:
    if isinstance(answer, RankdbgError):
        return {"reached": False, "reason": str(answer), "findings": {}}
    return {"reached": True, "reason": "", **asdict(answer)}
