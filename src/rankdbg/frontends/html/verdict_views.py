"""The verdict as the page shows it: a sentence, the chain of waits, and what they rest on."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rankdbg.frontends.html.document import ChainEdge, ChainNode, Fact, VerdictView
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.frontends.reports.doctor import print_diagnosis
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.hangs.wait_graphs import GraphEdge, GraphNode, WaitGraph, graph_of
from rankdbg.text.cutting import cut
from rankdbg.types import Rank
from rankdbg.verdicts.hangs.accusations import Accusation

MOST_NODES = 24  # that a chain is drawn with
MOST_READABLE = 6  # more are folded
LONGEST_LINE = 44  # characters in a box
_GROUP = re.compile(r"of group \S+ \((.+?)\)")  # as collective_words.group_name() writes it
_PEER = re.compile(r"^(send|recv) (?:to|from) \S+ ")


def verdict_view(found: JobVerdict, table: RankTable) -> VerdictView:
    first = found.first
    graph = folded(graph_of(found))
    shown = _shown(graph)
    return {
        "stuck": found.stuck,
        "state": found.verdict.state,
        "says": found.headline() if first and found.stuck else _watched(found),
        "title": _title(found, table),
        "subtitle": f"{capital(first.says)}." if first else "",
        "facts": _facts(found, first) if first else [],
        "further": [_facts(found, each) for each in found.verdict.findings[1:]],
        "confidence": found.verdict.confidence if first else "",
        "evidence": found.proofs(first) if first else _remarks(found),
        "culprits": table.set_of(first.ranks) if first else "",
        "mark": "culprits",
        "waiting": table.set_of(sign.seen.rank for sign in found.verdict.waiting) if first else "",
        "nodes": _nodes(found, graph, shown, table),
        "edges": _edges(graph, shown),
        "left_out": len(graph.nodes) - len(shown),
        "notes": [*found.notes],
        "logs": _logs(found),
    }


def _title(found: JobVerdict, table: RankTable) -> str:
    """Rank 317 holds up the other 511 ranks. Of a job that is perhaps not stuck, what `why` says."""
    first = found.first
    if first is None or not found.stuck:
        return found.headline()
    who = found.culprit_name(first)
    who = capital(who) if who.startswith("rank") else who
    is_one = len(first.ranks) < 2 or first.party is not None
    waiting = len(found.verdict.waiting)
    if not waiting:
        return f"{who} {'makes' if is_one else 'make'} no progress."
    every = len(table.ranks)
    whom = f"{waiting:,} of {every:,} ranks"
    if waiting + len(first.ranks) >= every:
        whom = "the other rank" if waiting == 1 else f"the other {waiting:,} ranks"
    return f"{who} {'holds' if is_one else 'hold'} up {whom}."


def _watched(found: JobVerdict) -> str:
    """What the sentence rests on."""
    seen = found.evidence.ranks
    if not seen:
        return ""
    samples = max(len(each.samples) for each in seen)
    seconds = max(each.seconds for each in seen)
    ranks = f"{len(seen):,} {'rank' if len(seen) == 1 else 'ranks'}"
    if found.evidence.dumped:
        return f"Stack dumps of {ranks}."
    return f"{ranks}, {samples} {'sample' if samples == 1 else 'samples'} in {seconds:.1f} s."


def _remarks(found: JobVerdict) -> list[str]:
    return [text for text in (found.absent_text(), found.awaited_text()) if text]


def _facts(found: JobVerdict, finding: Accusation) -> list[Fact]:
    facts = [_fact("culprit", found.culprit_text(finding))]
    facts.append(_fact("cause", finding.says, finding.cause, finding.why))
    if finding is found.first:
        facts.append(_fact("waiting", found.waiting_text(finding)))
    facts.append(_fact("next", finding.next))
    return [fact for fact in facts if fact["text"]]


def _fact(name: str, text: str, tag: str = "", more: str = "") -> Fact:
    return {"name": name, "text": text, "tag": tag, "more": more}


def _logs(found: JobVerdict) -> str:
    if found.diagnosis is None:
        return ""
    text = io.StringIO()
    print_diagnosis(Terminal(text), found.diagnosis)
    return text.getvalue()


# --- the chain ----------------------------------------------------------------------------


def folded(graph: WaitGraph) -> WaitGraph:
    """Ranks that wait in the same way as one node: in a mesh they wait in a hundred groups of one
    dimension, and through each other. As little as makes the chain readable."""
    if len(graph.nodes) > MOST_READABLE:
        accused = [number for number, node in enumerate(graph.nodes) if node.accused]
        graph = _fold(graph, _distances(accused, _sources(graph)))
    if len(graph.nodes) > MOST_READABLE:
        graph = _fold(graph, dict.fromkeys(range(len(graph.nodes)), 0))
    return graph


def _fold(graph: WaitGraph, distances: Mapping[int, int]) -> WaitGraph:
    """Ranks that wait in operations of the same kinds, at the same distance from the culprit."""
    places: dict[object, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        labels = frozenset(_of_kind(edge.label) for edge in graph.outgoing.get(number, ()))
        can_join = node.ranks and labels and number in distances and not node.accused
        places.setdefault((distances[number], labels) if can_join else number, []).append(number)
    groups = [*places.values()]
    new = {number: place for place, numbers in enumerate(groups) for number in numbers}
    edges = {
        GraphEdge(new[edge.source], new[edge.target], _of_kind(edge.label)): None
        for edge in graph.edges
        if new[edge.source] != new[edge.target] or edge.source == edge.target
    }
    nodes = (_joined([graph.nodes[number] for number in numbers]) for numbers in groups)
    return _without_shortcuts(WaitGraph(tuple(nodes), tuple(edges)))


def _without_shortcuts(graph: WaitGraph) -> WaitGraph:
    """Of a node that waits for one both directly and through another, the longer way: it has both."""
    targets = _targets(graph)
    beyond = {
        number: {*_reached(targets.get(number, ()), targets)} for number in range(len(graph.nodes))
    }
    kept = [
        edge
        for edge in graph.edges
        if edge.source in beyond[edge.target]  # in a circle every edge counts
        or not any(
            edge.target in beyond[other] and edge.source not in beyond[other]
            for other in targets[edge.source]
            if other != edge.target
        )
    ]
    return WaitGraph(graph.nodes, tuple(kept))


def _joined(nodes: Sequence[GraphNode]) -> GraphNode:
    return replace(nodes[0], ranks=tuple(rank for node in nodes for rank in node.ranks))


def _of_kind(label: str) -> str:
    """all_reduce #8 of group 3 (dp) -> all_reduce #8 of dp; recv from 7 of group 4 (pp) -> recv of pp"""
    return _PEER.sub(r"\1 ", _GROUP.sub(r"of \1", label))


def _distances(starts: Iterable[int], neighbours: dict[int, list[int]]) -> dict[int, int]:
    found = dict.fromkeys(starts, 0)
    queue = list(found)
    for number in queue:  # grows as it goes
        for each in neighbours.get(number, ()):
            if each not in found:
                found[each] = found[number] + 1
                queue.append(each)
    return found


def _shown(graph: WaitGraph) -> list[int]:
    """The nodes that are drawn: the culprit, what it waits for, and those that wait for it, the
    nearest first; without a culprit, from those for which no other waits."""
    accused = [number for number, node in enumerate(graph.nodes) if node.accused]
    if not accused:
        return _reached(graph.roots or range(len(graph.nodes)), _targets(graph))[:MOST_NODES]
    behind = _reached(accused, _targets(graph))[: MOST_NODES // 2]
    waiting = _reached(accused, _sources(graph))
    return [*dict.fromkeys([*behind, *waiting])][:MOST_NODES]


def _targets(graph: WaitGraph) -> dict[int, list[int]]:
    return {number: [e.target for e in edges] for number, edges in graph.outgoing.items()}


def _sources(graph: WaitGraph) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for edge in graph.edges:
        found.setdefault(edge.target, []).append(edge.source)
    return found


def _reached(starts: Iterable[int], neighbours: dict[int, list[int]]) -> list[int]:
    """The nearest first."""
    return [*_distances(starts, neighbours)]


def _nodes(
    found: JobVerdict, graph: WaitGraph, shown: Sequence[int], table: RankTable
) -> list[ChainNode]:
    accused = [number for number in shown if graph.nodes[number].accused]
    hot = {*_reached(accused, _targets(graph))}
    return [_node(found, graph.nodes[number], number in hot, table) for number in shown]


def _node(found: JobVerdict, node: GraphNode, hot: bool, table: RankTable) -> ChainNode:
    role = "culprit" if node.accused else "awaited by the culprit" if hot else "waiting"
    ranks = node.ranks
    detail = "" if node.accused else node.detail  # of the culprit it is in the subtitle
    if len(ranks) > 1:
        title = f"{len(ranks):,} ranks"
        lines = [_hosts(ranks), detail]
    else:
        title, lines = node.title, [*(_of_rank(ranks[0]) if ranks else ()), detail]
    return {
        "kind": "ranks" if len(ranks) > 1 else "rank" if ranks else "process",
        "role": role if found.first else "",
        "title": cut(title, LONGEST_LINE),
        "lines": [cut(line, LONGEST_LINE) for line in lines if line][:3],
        "ranks": table.set_of(ranks),
        "hot": hot,
    }


def _of_rank(rank: Rank) -> list[str]:
    coordinates = " ".join(f"{name}={place}" for name, place in rank.coordinates.items())
    process = ", ".join(filter(None, [rank.host, f"pid {rank.pid}"]))
    return [coordinates, process if rank.pid else "no process"]


def _hosts(ranks: Sequence[Rank]) -> str:
    hosts = {rank.host for rank in ranks if rank.host}
    if not hosts:
        return ""
    return f"on {next(iter(hosts))}" if len(hosts) == 1 else f"on {len(hosts):,} nodes"


def _edges(graph: WaitGraph, shown: Sequence[int]) -> list[ChainEdge]:
    places = {number: place for place, number in enumerate(shown)}
    return [
        {"source": places[edge.source], "target": places[edge.target], "label": edge.label}
        for edge in graph.edges
        if edge.source in places and edge.target in places
    ]
