"""A graph of waits as a file: DOT for Graphviz, or SVG for a browser."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from rankdbg.errors import BadInput
from rankdbg.frontends.reports.wait_graphs import NOTHING
from rankdbg.investigations.hangs.wait_graphs import GraphNode, WaitGraph
from rankdbg.text.escapes import visible_line


def save_graph(graph: WaitGraph, name: str) -> None:
    """By the ending of the name. Without any wait no file is written."""
    if not graph.edges:
        sys.stderr.write(f"{NOTHING}; {visible_line(name)} is not written\n")
        return
    text = WRITERS[Path(name).suffix](graph)
    try:
        Path(name).write_text(text, "utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot write {name}: {error.strerror}", hint="--graph needs a writable file"
        ) from None
    sys.stderr.write(f"drawn: {visible_line(name)}\n")


# --- DOT --------------------------------------------------------------------------------------


def dot(graph: WaitGraph) -> str:
    lines = ["digraph waits {", "  node [shape=box, fontname=monospace];"]
    for number, node in enumerate(graph.nodes):
        colour = ", color=red" if node.accused else ""
        lines.append(f"  n{number} [label={_quoted(*_node_lines(node))}{colour}];")
    for edge in graph.edges:
        label = _quoted(*_wrapped(edge.label))
        lines.append(f"  n{edge.source} -> n{edge.target} [label={label}];")
    return "\n".join([*lines, "}", ""])


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


# --- SVG --------------------------------------------------------------------------------------

_CHARACTER, _LINE = 7.3, 16  # of 12 px monospace
_MARGIN, _BESIDE, _BELOW, _ASIDE, _PADDING = 20, 40, 90, 60, 8
_LONGEST_LINE = 44
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" font-family="monospace" font-size="12">
<title>who waits for whom</title>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>
<rect width="100%" height="100%" fill="white"/>"""


class _Box:
    def __init__(self, node: GraphNode) -> None:
        self.accused = node.accused
        self.lines = _node_lines(node)
        self.width = max(map(len, self.lines)) * _CHARACTER + 2 * _PADDING
        self.height = len(self.lines) * _LINE + 2 * _PADDING
        self.x = self.y = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def svg(graph: WaitGraph) -> str:
    """One row below the other, each with those for whom the row above it waits."""
    boxes = [*map(_Box, graph.nodes)]
    y = float(_MARGIN)
    for row in _rows(graph):
        x = float(_MARGIN)
        for number in row:
            boxes[number].x, boxes[number].y = x, y
            x += boxes[number].width + _BESIDE
        y += max(boxes[number].height for number in row) + _BELOW
    labels = (len(line) for edge in graph.edges for line in _wrapped(edge.label))
    room = _ASIDE + max(labels, default=0) * _CHARACTER  # for those at the right side
    width = max(box.x + box.width for box in boxes) + room + _MARGIN
    head = _HEAD.format(width=round(width), height=round(y - _BELOW + _MARGIN))
    drawn = [
        part
        for edge in graph.edges
        for part in _arrow(boxes[edge.source], boxes[edge.target], edge.label)
    ]
    return "\n".join(
        [head, *drawn, *(part for box in boxes for part in _drawn_box(box)), "</svg>\n"]
    )


def _rows(graph: WaitGraph) -> list[list[int]]:
    """By the smallest number of waits from a node for which no other waits."""
    rows: list[list[int]] = []
    placed: set[int] = set()
    for start in [graph.roots, *([number] for number in range(len(graph.nodes)))]:
        row = [number for number in start if number not in placed]
        depth = 0
        while row:
            placed.update(row)
            rows += [[]] if depth == len(rows) else []
            rows[depth] += row
            targets = (edge.target for number in row for edge in graph.outgoing.get(number, ()))
            row = [number for number in dict.fromkeys(targets) if number not in placed]
            depth += 1
    return rows


def _arrow(source: _Box, target: _Box, label: str) -> Iterator[str]:
    down = target.y > source.y
    x1, y1 = source.middle, source.y + source.height
    x2, y2 = target.middle, target.y
    # One that goes back, or to the same row, leaves and arrives at the right side.
    beside = max(source.x + source.width, target.x + target.width) + _ASIDE
    if down:
        path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + 40:.0f} {x2:.0f} {y2 - 40:.0f} {x2:.0f} {y2:.0f}"
        at = (x1 + x2) / 2 + 6, (y1 + y2) / 2 - 8
    else:
        x1, y1 = source.x + source.width, source.y + source.height / 2
        x2, y2 = target.x + target.width, target.y + target.height / 2 + 6 * (source is target)
        path = f"M{x1:.0f} {y1:.0f}C{beside:.0f} {y1:.0f} {beside:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
        at = beside - 10, (y1 + y2) / 2
    yield f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#arrow)"/>'
    yield from _text(_wrapped(label), *at, "#555")


def _drawn_box(box: _Box) -> Iterator[str]:
    colour = "#c00" if box.accused else "#333"
    yield (
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" '
        f'height="{box.height:.0f}" rx="4" fill="#f7f7f7" stroke="{colour}"/>'
    )
    yield from _text(box.lines, box.x + _PADDING, box.y + _PADDING + 12, colour)


def _text(lines: list[str], x: float, y: float, colour: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        at = f'x="{x:.0f}" y="{y + number * _LINE:.0f}" fill="{colour}"'
        yield f"<text {at}>{escape(line)}</text>"


def _node_lines(node: GraphNode) -> list[str]:
    return [*_wrapped(node.title), *_wrapped(node.detail)]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(visible_line(text), _LONGEST_LINE)


WRITERS: dict[str, Callable[[WaitGraph], str]] = {".svg": svg, ".dot": dot}
