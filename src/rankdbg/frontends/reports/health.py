"""How the nodes of a job do, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankdbg.amounts import in_bytes
from rankdbg.errors import RankdbgError
from rankdbg.frontends.reports.rows import print_row
from rankdbg.frontends.terminal import Terminal
from rankdbg.verdicts.health import Complaint, complaints

Told = Mapping[str, dict[str, Any] | RankdbgError]


class HealthReport:
    """`health` and `gpus`: by node, as Session.health() and Session.gpus() tell."""

    def __init__(self, health: Told, gpus: Told) -> None:
        self._health = {n: told for n, told in health.items() if not isinstance(told, RankdbgError)}
        self._gpus = {n: told for n, told in gpus.items() if not isinstance(told, RankdbgError)}
        self._complaints = {
            node: complaints(told, self._gpus.get(node, {}).get("gpus", ()))
            for node, told in self._health.items()
        }

    def as_json(self) -> dict[str, Any]:
        return {
            node: {
                **{key: told[key] for key in ("disks", "memory", "processes")},
                "kernel": told["why_no_kernel"],
                "gpus": self._gpus.get(node, {}).get("gpus", []),
                "complaints": [vars(complaint) for complaint in self._complaints[node]],
            }
            for node, told in self._health.items()
        }

    def print(self, terminal: Terminal) -> None:
        for node, told in self._gpus.items():
            if told["gpus"]:
                print_row(terminal, "gpus", f"{self._of(node)}{_figures(told['gpus'])}")
        self._print_complaints(terminal)
        unread = {told["why_no_kernel"] for told in self._health.values()} - {""}
        for why in sorted(unread):
            print_row(terminal, "", terminal.dim(f"kernel messages cannot be read ({why})"))

    def _print_complaints(self, terminal: Terminal) -> None:
        """The same of several nodes is one."""
        nodes: dict[Complaint, list[str]] = {}
        for node, found in self._complaints.items():
            for complaint in found:
                nodes.setdefault(complaint, []).append(node)
        for complaint, where in nodes.items():
            shown = ", ".join(where[:3]) + (f" and {len(where) - 3} more" if where[3:] else "")
            on = f"{shown}: " if len(self._health) > 1 else ""
            print_row(terminal, complaint.about, on + complaint.text)
            print_row(terminal, "  do", complaint.fix)

    def _of(self, node: str) -> str:
        return f"{node}: " if len(self._gpus) > 1 else ""


def _figures(gpus: Sequence[Mapping[str, Any]]) -> str:
    """All of a node in a line: what is odd about one of them is a complaint of its own."""
    parts = [f"{len(gpus)} × {gpus[0].get('name') or 'GPU'}"]
    parts += [
        f"{_range(gpus, 'utilization')} % use" if _told(gpus, "utilization") else "",
        f"{_range(gpus, 'power')} W" if _told(gpus, "power") else "",
        f"{_range(gpus, 'temperature')} °C" if _told(gpus, "temperature") else "",
    ]
    used = _told(gpus, "memory_used")
    total = _told(gpus, "memory_total")
    if used and total:
        parts.append(f"{in_bytes(max(used))} of {in_bytes(max(total))} taken")
    return ", ".join(part for part in parts if part)


def _told(gpus: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [gpu[name] for gpu in gpus if gpu.get(name) is not None]


def _range(gpus: Sequence[Mapping[str, Any]], name: str) -> str:
    values = _told(gpus, name)
    least, most = f"{min(values):.0f}", f"{max(values):.0f}"
    return least if least == most else f"{least}-{most}"
