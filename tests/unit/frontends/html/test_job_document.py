"""job_document.py: a verdict -> what the page is given."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

from rankdbg.frontends.html.document import PageDocument
from rankdbg.frontends.html.job_document import document_of, document_of_stacks
from rankdbg.frontends.html.page_files import page_text
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.verdict_views import folded
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.hangs.wait_graphs import GraphEdge, GraphNode, WaitGraph
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.types import Frame, ProcessKey, Rank, Sampled, Silence, Stack
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from simulated_jobs import REDUCES, RULES, TRUNK, job_of, moving_job, stuck_job

ORIGIN = PageOrigin("rankdbg why", "slurm:88213", "2026-11-18T03:11:26+00:00")
SIZES = {"pp": 3, "dp": 4, "tp": 4}
CULPRIT = 23  # pp=1 dp=1 tp=3


@cache
def stuck() -> PageDocument:
    return document_of(stuck_job(SIZES, CULPRIT), ORIGIN)


def test_the_sentence() -> None:
    """Who holds up how many, and why; and the rows of the terminal in its order."""
    verdict = stuck()["verdict"]
    assert verdict["title"] == "Rank 23 holds up the other 47 ranks."
    assert verdict["subtitle"].startswith("Waiting for its data loader")
    assert [fact["name"] for fact in verdict["facts"]] == ["culprit", "cause", "waiting", "next"]
    assert verdict["facts"][1]["tag"] == "data-loader-worker"
    assert verdict["confidence"] == "high" and len(verdict["evidence"]) > 3
    assert verdict["culprits"] == "23"
    assert verdict["waiting"] == "0-22,24-47"


def test_the_chain_ends_at_the_culprit() -> None:
    """Forty groups of a mesh are four boxes, one behind the other, and the last one is hot."""
    verdict = stuck()["verdict"]
    nodes = verdict["nodes"]
    names = {node["title"]: node for node in nodes}
    assert {*names} == {"36 ranks", "8 ranks", "3 ranks", "rank 23"}
    told = {
        (nodes[edge["source"]]["title"], edge["label"], nodes[edge["target"]]["title"])
        for edge in verdict["edges"]
    }
    assert told == {
        ("36 ranks", "all_reduce #8 of dp", "8 ranks"),
        ("8 ranks", "recv of pp", "3 ranks"),
        ("3 ranks", "all_gather #8 of tp", "rank 23"),
    }
    assert [node["title"] for node in nodes if node["hot"]] == ["rank 23"]
    assert names["3 ranks"]["ranks"] == "20-22"


def test_groups_of_equal_stacks() -> None:
    """The largest first, and every rank is in one of them."""
    stacks, states = stuck()["colourings"]
    assert [(each["text"], each["ranks"]) for each in stacks["classes"]][-2:] == [
        ("gather_from_tp", "20-22"),
        ("next_batch", "23"),
    ]
    assert [each["text"] for each in states["classes"]] == ["waits", "holds up others"]


def test_stacks_of_each_kind_of_thread() -> None:
    """Outermost frame first; threads that differ in their number are one kind."""
    made = stuck()
    assert [thread["name"] for thread in made["threads"]] == ["main", "heartbeat-N"]
    (odd,) = [group for group in made["threads"][0]["groups"] if group["ranks"] == "23"]
    frames = [made["frames"][number] for number in odd["frames"]]
    assert [frame["function"] for frame in frames][:2] == ["<module>", "main"]
    assert frames[-1]["function"] == "poll" and not frames[-1]["own"]
    assert not odd["moving"] and made["samples"] == 3


def test_lanes() -> None:
    """Groups in the same situation are one lane; that of the culprit is by itself, and first."""
    lanes = stuck()["lanes"]
    assert [(each["group"], each["groups"], each["operation"]) for each in lanes[:2]] == [
        ("dp-1-3 (dp)", 1, "all_reduce #8"),
        ("dp", 11, "all_reduce #8"),
    ]
    assert lanes[0]["missing"] == "23" and lanes[0]["entered"] == "19,27,31"
    assert lanes[0]["seconds"] == 206.0
    assert [each["groups"] for each in lanes if not each["waits"]] == [11, 12]
    assert sum(each["groups"] for each in lanes) == 12 + 12 + 16


def test_a_job_that_makes_progress() -> None:
    """The same document without a culprit: nothing in it is hot."""
    made = document_of(moving_job(SIZES), ORIGIN)
    verdict = made["verdict"]
    assert verdict["title"] == "The job is moving."
    assert verdict["says"] == "48 ranks, 3 samples in 1.1 s."
    assert (verdict["culprits"], verdict["waiting"], verdict["facts"]) == ("", "", [])
    assert not any(node["hot"] for node in verdict["nodes"])
    assert [each["text"] for each in made["colourings"][1]["classes"]] == ["makes progress"]


def test_dumps_that_cannot_tell() -> None:
    """The title claims no more than `why` does; a host that no dump names is left out."""
    ranks = [Rank(ProcessKey("", 4000 + number, 1), "", number=number) for number in range(2)]
    computes = Frame("parse", "/job/data.py", 12)
    stacks = [(*REDUCES, *TRUNK), (computes, *TRUNK)]
    seen = [
        Seen(rank, [(Stack("MainThread", True, frames),)], active=False)
        for rank, frames in zip(ranks, stacks, strict=True)
    ]
    evidence = Evidence(seen, dumped=True)
    made = document_of(JobVerdict(judge(evidence, RULES), evidence, ranks), ORIGIN)
    verdict = made["verdict"]
    assert not verdict["stuck"]
    assert verdict["title"] == (
        "Rank 0 waits for rank 1; dumps cannot tell whether it makes progress."
    )
    assert verdict["says"] == "Stack dumps of 2 ranks."
    assert verdict["culprits"] == "1" and verdict["confidence"] == "low"
    assert [node["lines"][-1] for node in verdict["nodes"]] == ["pid 4001", "pid 4000"]


def test_ranks_that_are_not_there_have_a_cell() -> None:
    """One that no process has taken, one that was not examined, and one that has ended."""
    ranks = [replace(rank, world=4) for rank in job_of({"dp": 3, "tp": 1})]
    ended = replace(ranks[2], state="gone")
    evidence = Evidence((), gone=(ended,), others=ranks[:2])
    made = document_of(JobVerdict(Verdict("moving"), evidence, [*ranks[:2], ended]), ORIGIN)
    stacks, _ = made["colourings"]
    assert {each["text"]: each["ranks"] for each in stacks["classes"]} == {
        "not examined": "0-1",
        "ended": "2",
        "no process": "3",
    }
    assert made["ranks"]["pids"][3] == 0


def test_ranks_of_several_roles() -> None:
    """Two roles that both have a rank 0 are two places."""
    ranks = [
        Rank(ProcessKey("a", 10 + place, 1), "job", number=number, role=role)
        for place, (role, number) in enumerate([("Rollout", 0), ("Trainer", 0), ("driver", None)])
    ]
    made = document_of(JobVerdict(Verdict("idle"), Evidence((), others=ranks), ranks), ORIGIN)
    columns = made["ranks"]
    assert columns["roles"] == ["Rollout", "Trainer", "driver"]
    assert columns["role"] == [0, 1, 2] and columns["numbers"] == [0, 0, None]


def test_a_job_of_which_nothing_is_left() -> None:
    """No ranks at all: a page with a sentence."""
    made = document_of(JobVerdict(Verdict("ended"), Evidence(()), ()), ORIGIN)
    assert made["verdict"]["title"] == "The job has ended."
    assert made["ranks"]["numbers"] == [] and made["frames"] == []


def test_waits_in_a_circle_are_kept() -> None:
    """Folding takes away shortcuts, never an edge of a circle."""
    nodes = [GraphNode(f"thread {number}") for number in range(8)]
    circle = [GraphEdge(number, (number + 1) % 8, "a lock") for number in range(8)]
    assert {*folded(WaitGraph(tuple(nodes), tuple(circle))).edges} == {*circle}


def test_stacks_without_a_verdict() -> None:
    """The odd one is marked; a rank without a response has a cell and a reason, and no state is
    claimed that samples cannot show."""
    ranks = job_of({"dp": 2, "tp": 4})
    frames = {seen.rank.number: seen.samples for seen in stuck_job(SIZES, CULPRIT).evidence.ranks}
    seen = [
        Sampled(rank, tuple(map(tuple, frames[23 if rank.number == 5 else 0])), "agent")
        for rank in ranks[:-1]
    ]
    merged = MergedStacks(seen, [Silence(ranks[-1], "it holds the GIL")], ranks)
    made = document_of_stacks(merged, ORIGIN)
    verdict = made["verdict"]
    assert verdict["title"] == "7 ranks, 3 samples, nothing moved."
    assert (verdict["culprits"], verdict["mark"]) == ("5", "odd ones out")
    assert (verdict["facts"], verdict["says"], verdict["nodes"]) == ([], "", [])
    (stacks,) = made["colourings"]
    assert {each["text"]: each["ranks"] for each in stacks["classes"]} == {
        "reduce_gradients": "0-4,6",
        "next_batch": "5",
        "no stack": "7",
    }
    assert made["ranks"]["notes"] == ["it holds the GIL"] and made["ranks"]["note"][7] == 0


def ten_thousand() -> JobVerdict:
    """As a judge would say it, without judging ten thousand stacks."""
    small = stuck_job(SIZES, CULPRIT)
    like = {sign.seen.rank.number == CULPRIT: sign for sign in small.verdict.signs}
    ranks = job_of({"pp": 8, "dp": 160, "tp": 8})
    signs = [
        replace(like[rank.number == 317], seen=replace(like[rank.number == 317].seen, rank=rank))
        for rank in ranks
    ]
    first = replace(small.verdict.findings[0], ranks=(ranks[317],), culprit=None, world=None)
    waiting = tuple(sign for sign in signs if sign.seen.rank.number != 317)
    verdict = replace(small.verdict, findings=(first,), waiting=waiting, signs=tuple(signs))
    return JobVerdict(verdict, Evidence([sign.seen for sign in signs]), ranks)


def test_ten_thousand_ranks_fit_into_a_mail() -> None:
    """Under 5 MB, of which the page itself is a small part."""
    text = page_text(document_of(ten_thousand(), ORIGIN))
    assert len(text.encode()) < 1_000_000
    made: Any = json.loads(text.partition('id="document">')[2].partition("</script>")[0])
    assert len(made["ranks"]["pids"]) == 10_240
    assert made["verdict"]["title"] == "Rank 317 holds up the other 10,239 ranks."
