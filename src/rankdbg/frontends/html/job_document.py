"""A verdict, or stacks alone -> the document of their page. Pure: who asked, and when, is given."""

from __future__ import annotations

from rankdbg.frontends.html.document import PageDocument, TimeView
from rankdbg.frontends.html.lane_views import LaneViews
from rankdbg.frontends.html.log_document import document_of_logs
from rankdbg.frontends.html.log_ranks import LogRanks
from rankdbg.frontends.html.node_views import GPU_USE, by_gpu_use, node_view
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.plain_pages import plain_page
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.frontends.html.stack_views import StackViews
from rankdbg.frontends.html.time_views import time_view
from rankdbg.frontends.html.verdict_views import verdict_view
from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
from rankdbg.investigations.collectives.collective_words import capital
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.judgement import Verdict


def document_of(found: JobVerdict, origin: PageOrigin) -> PageDocument:
    """Of a job that has ended without a trace but its logs, what they tell."""
    if found.diagnosis is not None and not found.all_ranks:
        return document_of_logs(found.diagnosis, origin)
    table = RankTable.of_verdict(found)
    stacks = StackViews(found, table)
    lanes = LaneViews(CollectiveWaits(found.evidence.worlds, (), found.all_ranks), table)
    colourings = [*stacks.colourings, *by_gpu_use(found.nodes, table)]
    page = plain_page(table, verdict_view(found, table), colourings, origin)
    return {
        **page,
        "frames": stacks.frames,
        "threads": stacks.threads,
        "samples": stacks.samples,
        "lanes": lanes.lanes,
        "more_lanes": lanes.left_out,
        "sentences": lanes.sentences,
        "times": _times(found, table),
        "nodes": node_view(found.nodes, table, origin.time),
    }


def _times(found: JobVerdict, table: RankTable) -> TimeView | None:
    """Of a job that has ended, whose logs were read."""
    if found.diagnosis is None:
        return None
    logs = found.diagnosis
    return time_view(logs.courses, logs.diagnosis, LogRanks(table))


def document_later(before: PageDocument, found: JobVerdict, time: str) -> PageDocument:
    """Of a job in which nothing has changed but its nodes, and the time for which its ranks have
    waited."""
    says = found.headline() if found.stuck and found.first else before["verdict"]["says"]
    table = RankTable.of_verdict(found)
    others = [each for each in before["colourings"] if each["name"] != GPU_USE]
    return {
        **before,
        "time": time,
        "verdict": {**before["verdict"], "says": says},
        "colourings": [*others, *by_gpu_use(found.nodes, table)],
        "nodes": node_view(found.nodes, table, time),
    }


def document_of_stacks(merged: MergedStacks, origin: PageOrigin) -> PageDocument:
    """Without a verdict: what is drawn apart is the smallest of the groups that `stacks` calls odd."""
    seen = [Seen(s.rank, samples=s.samples, silence=s.why) for s in merged.seen]
    seen += [Seen(s.rank, silence=s.reason) for s in merged.no_response]
    looked_at = {each.rank.process for each in seen}
    others = [rank for rank in merged.all_ranks if rank.process not in looked_at]
    found = JobVerdict(
        Verdict("unclear"), Evidence(seen, others=others), merged.all_ranks, merged.notes
    )
    document = document_of(found, origin)
    odd = merged.odd[0].members if merged.odd else ()
    document["verdict"] = {
        **document["verdict"],
        "title": f"{capital(merged.summary())}.",
        "says": "",
        "evidence": [],
        "culprits": RankTable.of_verdict(found).set_of(odd),
        "mark": "odd ones out",
    }
    # Samples alone do not tell waiting from working.
    document["colourings"] = document["colourings"][:1]
    return document
