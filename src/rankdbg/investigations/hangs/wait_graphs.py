"""Who waits for whom in a whole job: a verdict -> a graph in which ranks with equal waits are one node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rankdbg.investigations.collectives import collective_words as words
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.rank_labels import named
from rankdbg.types import Rank
from rankdbg.verdicts.collectives.worlds import World
from rankdbg.verdicts.waits import wait_chains
from rankdbg.verdicts.waits.wait_links import Link, Party


@dataclass(frozen=True)
class GraphNode:
    title: str  # ranks 0-5,7; thread Prefetch (fetch data.py:41)
    detail: str = ""  # what it does, if it waits for nothing that is known
    accused: bool = False
    ranks: tuple[Rank, ...] = ()  # none: a thread, a task or a process that is no rank


@dataclass(frozen=True)
class GraphEdge:
    source: int  # of the nodes
    target: int
    label: str  # in what the source waits


@dataclass(frozen=True)
class WaitGraph:
    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()

    @cached_property
    def outgoing(self) -> Mapping[int, Sequence[GraphEdge]]:
        """The edges of each node that waits."""
        found: dict[int, list[GraphEdge]] = defaultdict(list)
        for edge in self.edges:
            found[edge.source].append(edge)
        return found

    @property
    def roots(self) -> list[int]:
        """Nodes for which no other waits."""
        targets = {edge.target for edge in self.edges if edge.target != edge.source}
        return [number for number in range(len(self.nodes)) if number not in targets]


def graph_of(found: JobVerdict) -> WaitGraph:
    """Empty if no wait is known."""
    return _Waits(found).graph()


class _Waits:
    """Waits by what they are for: (label, those that are waited for) -> those that wait."""

    def __init__(self, found: JobVerdict) -> None:
        self._found = found
        self._names: dict[str, str] = {}  # of what is no rank
        self._threads: dict[str, str] = {}
        self._ranks: dict[str, Rank] = {}
        self._waits: dict[tuple[str, tuple[str, ...]], dict[str, None]] = defaultdict(dict)
        self._waiting: set[str] = set()
        for seen in found.evidence.ranks:
            self._of_rank(seen.rank)
        self._add_chains()
        for world in found.evidence.worlds:
            self._add_world(world)
        self._add_waiting()

    # --- collecting ---------------------------------------------------------------------

    def _add(self, source: str, label: str, targets: Iterable[str]) -> None:
        self._waits[label, tuple(targets)][source] = None
        self._waiting.add(source)

    def _add_chains(self) -> None:
        evidence = self._found.evidence
        chains = wait_chains.of_ranks((seen.rank for seen in evidence.ranks), evidence.owners)
        for links in (*chains.values(), self._found.chain):
            for link in links:
                self._add(self._of_party(link.who), _label(link), [self._of_party(link.whom)])

    def _add_world(self, world: World) -> None:
        """By flight recorders. Where all are in one operation, no rank waits for another."""
        names = words.WorldNames(world, self._found.all_ranks)
        targets: dict[tuple[int, ...], list[str]] = {}
        for number, wait in world.findings.waits.items():
            if wait.why == "together" or not wait.others:
                continue
            if wait.others not in targets:
                targets[wait.others] = [self._of_rank(rank) for rank in world.of(wait.others)]
            operation = words.operation(wait.operation, wait.group, names)
            label = f"{operation} of {words.group_name(wait.group)}"
            self._add(self._of_rank(world.rank(number)), label, targets[wait.others])

    def _add_waiting(self) -> None:
        """Those of whom only the verdict says for whom they wait."""
        first = self._found.first
        if first is None or not first.ranks:
            return
        accused = [self._of_rank(rank) for rank in first.ranks]
        for sign in self._found.verdict.waiting:
            source = self._of_rank(sign.seen.rank)
            if source not in self._waiting:
                frame = sign.seen.place
                where = f" ({self._found.paths.line(frame)})" if frame else ""
                self._add(source, f"{sign.words['called'] or 'a wait'}{where}", accused)

    def _of_rank(self, rank: Rank) -> str:
        key = f"{rank.host}/{rank.pid}" if rank.pid else f"no process, {rank.role} {rank.number}"
        self._ranks.setdefault(key, rank)
        return key

    def _of_party(self, party: Party) -> str:
        """Threads of the same name and place are one node, whichever ranks they are of."""
        if party.id in self._ranks:
            return party.id
        key = party.id
        if party.kind == "thread" or not party.id:
            # Where it holds something comes before where it is, in another link.
            by_name = f"{party.kind} {party.name}"
            key = self._threads.setdefault(party.id, by_name) if party.id else by_name
        self._names.setdefault(key, self._found.party_name(party))
        return key

    # --- grouping -----------------------------------------------------------------------

    def graph(self) -> WaitGraph:
        groups = [*self._groups()]
        numbers = {key: number for number, keys in enumerate(groups) for key in keys}
        edges = {
            GraphEdge(numbers[source], numbers[target], label): None
            for (label, targets), sources in self._waits.items()
            for source in {numbers[key]: key for key in sources}.values()
            for target in {numbers[key]: key for key in targets}.values()
        }
        return WaitGraph(tuple(map(self._node, groups)), tuple(edges))

    def _groups(self) -> Iterator[list[str]]:
        """Ranks that wait for the same, and are waited for in the same, together."""
        roles: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, ((_, targets), sources) in enumerate(self._waits.items()):
            for key in sources:
                roles[key].append((number, True))
            for key in targets:
                roles[key].append((number, False))
        groups: dict[object, list[str]] = defaultdict(list)
        for key, in_waits in roles.items():
            is_rank = key in self._ranks
            groups[tuple(in_waits), self._detail(key) if is_rank else key].append(key)
        yield from groups.values()

    def _node(self, keys: list[str]) -> GraphNode:
        if keys[0] not in self._ranks:
            return GraphNode(self._names[keys[0]])
        ranks = [self._ranks[key] for key in keys]
        title = named(ranks, self._found.all_ranks)
        accused = keys[0] in self._accused
        return GraphNode(title, self._detail(keys[0]), accused, tuple(ranks))

    def _detail(self, key: str) -> str:
        return "" if key in self._waiting else self._says.get(key, "")

    @cached_property
    def _accused(self) -> set[str]:
        findings = self._found.verdict.findings
        return {self._of_rank(rank) for finding in findings[:1] for rank in finding.ranks}

    @cached_property
    def _says(self) -> dict[str, str]:
        return {self._of_rank(sign.seen.rank): sign.says for sign in self._found.verdict.signs}


def _label(link: Link) -> str:
    return link.thing or link.reason
