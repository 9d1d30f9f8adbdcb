"""A verdict -> the document of its page. Pure: who asked, and when, is given."""

from __future__ import annotations

from dataclasses import dataclass

from rankdbg._version import __version__
from rankdbg.frontends.html.document import SCHEMA, PageDocument
from rankdbg.frontends.html.lane_views import LaneViews
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.frontends.html.stack_views import StackViews
from rankdbg.frontends.html.verdict_views import verdict_view
from rankdbg.investigations.collective_waits import CollectiveWaits
from rankdbg.investigations.job_verdicts import JobVerdict


@dataclass(frozen=True)
class PageOrigin:
    """Where the data of a page comes from."""

    command: str  # rankdbg why
    target: str
    time: str  # as ISO 8601


def document_of(found: JobVerdict, origin: PageOrigin) -> PageDocument:
    table = RankTable(found)
    stacks = StackViews(found, table)
    lanes = LaneViews(CollectiveWaits(found.evidence.worlds, (), found.all_ranks), table)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "command": origin.command,
        "job": found.all_ranks[0].job if found.all_ranks else "",
        "target": origin.target,
        "time": origin.time,
        "ranks": table.columns,
        "verdict": verdict_view(found, table),
        "colourings": stacks.colourings,
        "frames": stacks.frames,
        "threads": stacks.threads,
        "samples": stacks.samples,
        "lanes": lanes.lanes,
        "more_lanes": lanes.left_out,
        "sentences": lanes.sentences,
    }
