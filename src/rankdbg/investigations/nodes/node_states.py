"""Node health as a value: disks, memory, processes and GPUs of each node, and what is unusual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rankdbg.errors import RankdbgError
from rankdbg.investigations.nodes.node_health import Gpus, Healths
from rankdbg.investigations.results import Result
from rankdbg.text.amounts import in_bytes
from rankdbg.verdicts.node_health import Complaint, complaints
from rankdbg.wire.node_answers import Disk, Gpu, GpuFigures, NodeFigures

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart


@dataclass(frozen=True, repr=False)
class NodeStates(Result):
    """`health` and `gpus`: by node, as Session.health() and Session.gpus() tell."""

    health: Healths
    gpus: Gpus

    @cached_property
    def well(self) -> dict[str, NodeFigures]:
        return {n: told for n, told in self.health.items() if isinstance(told, NodeFigures)}

    @cached_property
    def with_gpus(self) -> dict[str, Sequence[Gpu]]:
        return {n: told.gpus for n, told in self.gpus.items() if isinstance(told, GpuFigures)}

    @cached_property
    def complaints(self) -> dict[str, Sequence[Complaint]]:
        return {
            node: complaints(told, self.with_gpus.get(node, ())) for node, told in self.well.items()
        }

    def as_json(self) -> dict[str, Any]:
        return {
            node: {
                "disks": [_disk_json(disk) for disk in told.disks],
                "memory": asdict(told.memory),
                "processes": [vars(process) for process in told.processes],
                "kernel": told.why_no_kernel,
                "load": told.load,
                "processors": told.processors,
                "gpus": [gpu.as_json() for gpu in self.with_gpus.get(node, ())],
                "complaints": [
                    {"about": each.about, "text": each.text, "next": each.fix}
                    for each in self.complaints[node]
                ],
            }
            for node, told in self.well.items()
        }

    def sentences(self) -> list[tuple[Complaint, str]]:
        """Each complaint, and where: the same of several nodes is one."""
        nodes: dict[Complaint, list[str]] = {}
        for node, found in self.complaints.items():
            for complaint in found:
                nodes.setdefault(complaint, []).append(node)
        told = []
        for complaint, where in nodes.items():
            shown = ", ".join(where[:3]) + (f" and {len(where) - 3} more" if where[3:] else "")
            on = f"{shown}: " if len(self.well) > 1 else ""
            told.append((complaint, on + complaint.text))
        return told

    @cached_property
    def no_response_nodes(self) -> dict[str, str]:
        """And why they gave no response."""
        return {
            node: told.in_one_line()
            for node, told in self.health.items()
            if isinstance(told, RankdbgError)
        }

    def summary(self) -> str:
        found = "; ".join(text for _, text in self.sentences()) or "nothing unusual"
        lost = self.no_response_nodes
        return f"{_nodes(len(self.well))}: {found}" + (
            f"; no response: {len(lost)}" if lost else ""
        )

    def records(self) -> list[dict[str, Any]]:
        """One for each node."""
        rows: list[dict[str, Any]] = [
            {
                "node": node,
                "memory": told.memory.size,
                "memory_available": told.memory.available,
                "disks": len(told.disks),
                "gpus": len(self.with_gpus.get(node, ())),
                "complaints": "; ".join(each.text for each in self.complaints[node]),
            }
            for node, told in self.well.items()
        ]
        return rows + [
            {"node": node, "no_response": why} for node, why in self.no_response_nodes.items()
        ]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        rows = [
            TableRow((node, _free(told), str(len(self.with_gpus.get(node, ())))))
            for node, told in self.well.items()
        ]
        lost = [Paragraph(f"{node}: {why}") for node, why in self.no_response_nodes.items()]
        return [Table(("node", "memory available", "GPUs"), rows), *self.complaint_parts(), *lost]

    def complaint_parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import FactTable

        return [
            FactTable([(complaint.about, text), ("next", complaint.fix)])
            for complaint, text in self.sentences()
        ]


def _disk_json(disk: Disk) -> dict[str, Any]:
    return {"place": disk.place, "why": disk.why} if disk.size is None else asdict(disk)


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _free(told: NodeFigures) -> str:
    return f"{in_bytes(told.memory.available)} of {in_bytes(told.memory.size)}"
