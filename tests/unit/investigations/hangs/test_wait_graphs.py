"""wait_graphs.py: a verdict -> a graph in which ranks with equal waits are one node."""

from __future__ import annotations

from collections.abc import Iterable

from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.hangs.wait_graphs import WaitGraph, graph_of
from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives, judge_worlds
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import judge
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence
from rankdbg.wire.answers import ThreadOwner, ThreadWaits, Vitals, WaitingThread
from rankdbg.wire.node_answers import AwaitedThing as Thing
from rankdbg.wire.node_answers import ThreadThings, WaitingProcess, WaitOwners

RULES = load_hang_rules()
TORCH = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
IN_BARRIER = (Frame("barrier", TORCH, 9), Frame("step", "/job/train.py", 88))
IN_LOCK = (Frame("next_batch", "/job/data.py", 31), Frame("step", "/job/train.py", 80))
HOLDS = Frame("fetch", "/job/data.py", 41)


def rank(number: int, world: int) -> Rank:
    return Rank(ProcessKey("a", 1000 + number, 1), "job", number=number, world=world)


def seen(rank: Rank, frames: tuple[Frame, ...], woken: int = 0) -> Seen:
    before = Vitals(at=0.0, state="S", call="futex", age=100.0, switches=5)
    after = Vitals(at=9.0, state="S", call="futex", age=100.0, switches=5 + woken)
    return Seen(rank, [(Stack("MainThread", True, frames),)] * 9, before=before, after=after)


def verdict(evidence: Evidence) -> JobVerdict:
    return JobVerdict(judge(evidence, RULES), evidence, [each.rank for each in evidence.ranks])


def edges(graph: WaitGraph) -> list[tuple[str, str, str]]:
    titles = [node.title for node in graph.nodes]
    return [(titles[edge.source], edge.label, titles[edge.target]) for edge in graph.edges]


def waits_for_threads(ranks: Iterable[Rank]) -> OwnerEvidence:
    """Each for a thread of its own, which waits for one process that is no rank."""
    main = WaitingThread(
        1,
        "MainThread",
        0,
        True,
        HOLDS,
        "lock",
        "self._lock",
        (ThreadOwner(2, "with", HOLDS),),
        True,
    )
    waits = ThreadWaits((main, WaitingThread(2, "Prefetch", 77)))
    behind = WaitOwners(
        (WaitingProcess(9, 1, "rsync"),), (ThreadThings(77, (Thing("pipe", "a pipe", (9,)),)),)
    )
    some = [rank.process for rank in ranks]
    return OwnerEvidence(threads=dict.fromkeys(some, waits), of_threads=dict.fromkeys(some, behind))


def job_with_threads(world: int, waiting: int, woken: int = 0) -> JobVerdict:
    """All but the last `waiting` ranks are in a barrier, those wait for a lock."""
    ranks = [rank(number, world) for number in range(world)]
    late = ranks[world - waiting :]
    everyone = [seen(each, IN_LOCK if each in late else IN_BARRIER, woken) for each in ranks]
    return verdict(Evidence(everyone, owners=waits_for_threads(late)))


def test_through_a_thread_to_a_process() -> None:
    """Threads of the same name and place are one node, as their ranks are."""
    graph = graph_of(job_with_threads(8, 2))
    thread = "thread Prefetch (fetch data.py:41)"
    assert sorted(edges(graph)) == sorted(
        [
            ("ranks 6-7", "the lock self._lock, held by", thread),
            (thread, "a pipe, of", "pid 9 (rsync)"),
            ("ranks 0-5", "barrier (train.py:88)", "ranks 6-7"),
        ]
    )
    assert [node.title for node in graph.nodes if node.accused] == ["ranks 6-7"]
    assert [graph.nodes[number].title for number in graph.roots] == ["ranks 0-5"]


def test_job_that_moves_has_no_waits() -> None:
    """The twin: the same stacks, and ranks that were woken. Their threads were not looked at."""
    ranks = [rank(number, 8) for number in range(8)]
    everyone = [seen(each, IN_LOCK if each is ranks[-1] else IN_BARRIER, 50) for each in ranks]
    assert graph_of(verdict(Evidence(everyone))) == WaitGraph()


def recorded(number: int, world: int, *names: tuple[str, str, bool]) -> RecordedCollectives:
    """Operations by group and name, and whether it has left them."""
    counts: dict[str, int] = {}
    operations = []
    for record, (group, name, done) in enumerate(names):
        counts[group] = counts.get(group, 0) + 1
        operations.append(
            Operation(group, name, counts[group], finished=done, created=record + 1, record=record)
        )
    members = {"0": tuple(range(world)), "1": tuple(range(world // 2, world))}
    return RecordedCollectives(
        rank(number, world), Trace(number, tuple(operations), members=members), "", world
    )


def test_512_ranks() -> None:
    """By recorders: those with equal waits are one node, whatever their number."""
    world = 512
    traces = [
        recorded(number, world, ("0", "all_reduce", True), ("0", "all_reduce", False))
        for number in range(world - 1)
    ]
    traces.append(recorded(world - 1, world, ("0", "all_reduce", True)))
    everyone = [seen(each.rank, IN_BARRIER) for each in traces]
    found = verdict(Evidence(everyone, judge_worlds(traces)))
    ((source, label, target),) = edges(graph_of(found))
    assert (source, target) == ("ranks 0-510", "rank 511")
    assert label == "all_reduce #2 of group 0"


def test_two_sides_of_a_circle() -> None:
    """One rank is in a barrier of all, the others of its group in an all_reduce of the group."""
    traces = [
        recorded(0, 4, ("0", "barrier", False)),
        recorded(1, 4, ("0", "barrier", False)),
        recorded(2, 4, ("0", "barrier", False)),
        recorded(3, 4, ("1", "all_reduce", False)),
    ]
    everyone = [seen(each.rank, IN_BARRIER) for each in traces]
    drawn = edges(graph_of(verdict(Evidence(everyone, judge_worlds(traces)))))
    assert ("rank 3", "all_reduce #1 of group 1", "rank 2") in drawn, drawn
    assert ("rank 2", "barrier #1 of group 0", "rank 3") in drawn, drawn
    assert ("ranks 0-1", "barrier #1 of group 0", "rank 3") in drawn, drawn
