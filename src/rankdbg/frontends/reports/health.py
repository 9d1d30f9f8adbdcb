"""How the nodes of a job do, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.frontends.reports.rows import print_row
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.text.amounts import in_bytes
from rankdbg.wire.node_answers import Gpu


def print_health(terminal: Terminal, nodes: NodeStates) -> None:
    for node, gpus in nodes.with_gpus.items():
        if gpus:
            of = f"{node}: " if len(nodes.with_gpus) > 1 else ""
            print_row(terminal, "gpus", f"{of}{_figures(gpus)}")
    for complaint, text in nodes.sentences():
        print_row(terminal, complaint.about, text)
        print_row(terminal, "  next", complaint.fix)
    unread = {told.why_no_kernel for told in nodes.well.values()} - {""}
    for why in sorted(unread):
        print_row(terminal, "", terminal.dim(f"kernel messages cannot be read ({why})"))


def _figures(gpus: Sequence[Gpu]) -> str:
    """All of a node in a line: what is odd about one of them is a complaint of its own."""
    parts = [f"{len(gpus)} × {gpus[0].name or 'GPU'}"]
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


def _told(gpus: Sequence[Gpu], name: str) -> list[float]:
    return [told for gpu in gpus if (told := getattr(gpu, name)) is not None]


def _range(gpus: Sequence[Gpu], name: str) -> str:
    values = _told(gpus, name)
    least, most = f"{min(values):.0f}", f"{max(values):.0f}"
    return least if least == most else f"{least}-{most}"
