"""wait_graphs.py, graph_files.py: a graph of waits as text, DOT and SVG."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdbg.errors import BadInput
from rankdbg.frontends.reports.graph_files import dot, save_graph, svg
from rankdbg.frontends.reports.wait_graphs import MOST_LINES, NOTHING, print_graph
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.hangs.wait_graphs import GraphEdge, GraphNode, WaitGraph

CHAIN = WaitGraph(
    (
        GraphNode("ranks 0-2,4-511"),
        GraphNode("rank 3", "waiting for a lock, in next_batch data.py:31", accused=True),
        GraphNode("thread Prefetch (fetch data.py:41)"),
    ),
    (
        GraphEdge(0, 1, "all_reduce #1204 of group 0"),
        GraphEdge(1, 2, "the lock self._lock, held by"),
    ),
)


def drawn(graph: WaitGraph) -> str:
    text = io.StringIO()
    print_graph(Terminal(text), graph)
    return text.getvalue()


def test_chain() -> None:
    assert drawn(CHAIN) == (
        "\n"
        "ranks 0-2,4-511\n"
        "│ all_reduce #1204 of group 0\n"
        "▼\n"
        "rank 3  <- culprit\n"
        "  waiting for a lock, in next_batch data.py:31\n"
        "│ the lock self._lock, held by\n"
        "▼\n"
        "thread Prefetch (fetch data.py:41)\n"
    )


def test_branches_and_a_circle() -> None:
    """Each node is drawn once."""
    nodes = tuple(GraphNode(f"rank {number}") for number in range(3))
    edges = (GraphEdge(0, 1, "recv"), GraphEdge(0, 2, "send"), GraphEdge(2, 0, "barrier"))
    assert drawn(WaitGraph(nodes, edges)) == (
        "\n"
        "rank 0\n"
        "├─ recv →\n"
        "│  rank 1\n"
        "└─ send →\n"
        "   rank 2\n"
        "   │ barrier\n"
        "   ▼\n"
        "   rank 0 (drawn above)\n"
    )


def test_nothing_to_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said, and no file is written."""
    assert NOTHING in drawn(WaitGraph())
    save_graph(WaitGraph(), str(tmp_path / "waits.svg"))
    assert NOTHING in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_pipeline_of_a_thousand_stages() -> None:
    """The text is cut, with a hint; a file has all."""
    nodes = tuple(GraphNode(f"rank {number}") for number in range(1000))
    pipeline = WaitGraph(nodes, tuple(GraphEdge(n, n + 1, "recv") for n in range(999)))
    lines = drawn(pipeline).splitlines()
    assert len(lines) <= MOST_LINES + 2
    assert lines[-1].endswith("--graph FILE.svg has all")
    assert svg(pipeline).count("<rect ") == 1001


def test_files(tmp_path: Path) -> None:
    hostile = GraphNode('a "name" \\ <script>\x1b[31m & more', accused=True)
    graph = WaitGraph((*CHAIN.nodes, hostile), (*CHAIN.edges, GraphEdge(2, 3, "a <pipe>")))
    for name in ("waits.svg", "waits.dot"):
        save_graph(graph, str(tmp_path / name))
    texts = [text.text for text in ElementTree.parse(tmp_path / "waits.svg").iter() if text.text]
    assert 'a "name" \\ <script>\\x1b[31m & more' in texts
    assert "all_reduce #1204 of group 0" in texts
    written = (tmp_path / "waits.dot").read_text()
    assert written.startswith("digraph waits {\n")
    assert '  n3 [label="a \\"name\\" \\\\ <script>\\\\x1b[31m & more", color=red];\n' in written
    assert '  n1 -> n2 [label="the lock self._lock, held by"];\n' in written


def test_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot write"):
        save_graph(CHAIN, str(tmp_path / "none" / "waits.svg"))


GRAPHS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.text(max_size=90)))


@given(GRAPHS)
def test_any_graph(edges: list[tuple[int, int, str]]) -> None:
    """Every node is drawn once, in 80 columns; the SVG is valid, and its numbers are finite."""
    nodes = tuple(GraphNode(f"rank {number}.") for number in range(12))
    graph = WaitGraph(nodes, tuple(GraphEdge(*edge) for edge in edges))
    lines = drawn(graph).splitlines()
    assert all(len(line) <= 80 for line in lines)
    if edges and len(lines) < MOST_LINES:
        shown = re.findall(r"^[ │]*(rank \d+\.)$", "\n".join(lines), re.MULTILINE)
        assert sorted(shown) == sorted(node.title for node in nodes)
    ElementTree.fromstring(svg(graph))
    assert dot(graph).endswith("}\n")
