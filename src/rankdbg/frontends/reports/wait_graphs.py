"""A graph of waits as text: from nodes for which no other waits, down to the culprits."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.hangs.wait_graphs import GraphEdge, WaitGraph
from rankdbg.text.escapes import visible_line

NOTHING = "no waits to draw: no rank is known to wait for another rank, thread or process"
MOST_LINES = 300
_DEEPEST = 8  # branches inside of branches


def print_graph(terminal: Terminal, graph: WaitGraph) -> None:
    terminal.print()
    if not graph.edges:
        terminal.print(NOTHING)
        return
    lines = _Drawing(terminal, graph).lines
    for line in lines[:MOST_LINES]:
        terminal.print(line)
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES
        terminal.print(terminal.dim(f"... and {more} more lines; --graph FILE.svg has all"))


class _Drawing:
    """A wait for one thing goes on below; several are branches. Each node is drawn once."""

    def __init__(self, terminal: Terminal, graph: WaitGraph) -> None:
        self._terminal, self._graph = terminal, graph
        self._drawn: set[int] = set()
        self.lines: list[str] = []
        # A circle for which no other node waits has no beginning: any node of it.
        for number in [*graph.roots, *range(len(graph.nodes))]:
            if number not in self._drawn:
                if self.lines:
                    self.lines.append("")
                self._draw(number, "", 0)

    def _draw(self, number: int, indent: str, depth: int) -> None:
        """This node, and all that it waits for."""
        self._draw_node(number, indent)
        edges = self._graph.outgoing.get(number, ())
        while len(edges) == 1:  # not by recursion: a pipeline may have a thousand stages
            (edge,) = edges
            self._write(edge.label, f"{indent}│ ")
            self.lines.append(f"{indent}▼")
            if edge.target in self._drawn:
                self._refer_to(edge, indent)
                return
            self._draw_node(edge.target, indent)
            edges = self._graph.outgoing.get(edge.target, ())
        for place, edge in enumerate(edges, 1):
            last = place == len(edges)
            self._write(
                f"{edge.label} →", indent + ("└─ " if last else "├─ "), indent + "│  " * (not last)
            )
            below = indent + ("   " if last else "│  ")
            if edge.target in self._drawn:
                self._refer_to(edge, below)
            elif depth < _DEEPEST:
                self._draw(edge.target, below, depth + 1)
            else:
                self._write(f"{self._title(edge.target)} (drawn below)", below)

    def _draw_node(self, number: int, indent: str) -> None:
        self._drawn.add(number)
        node = self._graph.nodes[number]
        style = self._terminal.red if node.accused else self._terminal.bold
        self._write(self._title(number), indent, style=style)
        if node.detail:
            self._write(node.detail, indent + "  ", style=self._terminal.dim)

    def _refer_to(self, edge: GraphEdge, indent: str) -> None:
        self._write(f"{self._graph.nodes[edge.target].title} (drawn above)", indent)

    def _title(self, number: int) -> str:
        node = self._graph.nodes[number]
        return f"{node.title}  <- culprit" if node.accused else node.title

    def _write(
        self, text: str, first: str, rest: str | None = None, style: Callable[[str], str] = str
    ) -> None:
        width = max(20, self._terminal.width - len(first))
        for number, line in enumerate(textwrap.wrap(visible_line(text), width)):
            before = first if number == 0 or rest is None else rest.ljust(len(first))
            self.lines.append(before + style(line))
