"""What the page is given: one JSON document. page/src/document.ts has the same types.

Ranks are named by their place in `ranks`, never by their number: two roles may both have a rank 3.
`RankSet` is a text of such places: `0-6,8`.
"""

from __future__ import annotations

from typing import TypedDict

SCHEMA = "rankdbg.page/1"
RankSet = str


class RankColumns(TypedDict):
    """A column for each label: ten thousand ranks are ten thousand short entries in each."""

    numbers: list[int | None]
    roles: list[str]  # the distinct ones
    role: list[int]  # of each rank, in `roles`
    hosts: list[str]
    host: list[int]
    states: list[str]  # as selections name them
    state: list[int]
    pids: list[int]  # 0: no process
    locals: list[int | None]
    dimensions: list[str]
    coordinates: list[list[int | None]]  # for each dimension, of each rank
    outside: RankSet  # no agent, or it gave no response: read from outside
    notes: list[str]
    note: list[int]  # of each rank, in `notes`; -1: none


class Fact(TypedDict):
    """A row of the verdict: culprit, cause, waiting, next."""

    name: str
    text: str
    tag: str  # the name of the cause
    more: str  # said more quietly


class ChainNode(TypedDict):
    kind: str  # ranks, rank, process
    role: str  # waiting, culprit, `` where the job is not stuck
    title: str
    lines: list[str]
    ranks: RankSet
    hot: bool  # the culprit, or what it waits for


class ChainEdge(TypedDict):
    source: int
    target: int
    label: str


class VerdictView(TypedDict):
    stuck: bool
    state: str
    says: str  # in a line above the title
    title: str
    subtitle: str
    facts: list[Fact]
    further: list[list[Fact]]  # of other culprits
    confidence: str
    evidence: list[str]
    culprits: RankSet
    mark: str  # what they are called: culprits, odd ones out
    waiting: RankSet
    nodes: list[ChainNode]
    edges: list[ChainEdge]
    left_out: int  # nodes of the chain
    notes: list[str]
    logs: str  # what the logs say of a job that has ended


class ColourClass(TypedDict):
    """Ranks of one colour and shape."""

    text: str
    at: str
    says: str
    code: bool  # whether the text is a name in a program
    odd: bool  # an answer that stands out
    ranks: RankSet


class Colouring(TypedDict):
    name: str
    columns: list[str]  # headings of `text` and `says`
    classes: list[ColourClass]  # the largest first


class EqualStacks(TypedDict):
    frames: list[int]  # outermost first
    moving: bool
    ranks: RankSet


class ThreadView(TypedDict):
    name: str
    groups: list[EqualStacks]


class FrameView(TypedDict):
    function: str
    at: str
    file: str
    line: int
    own: bool  # the user's code


class LaneRow(TypedDict):
    ranks: RankSet
    text: str
    mark: str


class Lane(TypedDict):
    """One process group, or several in the same situation."""

    group: str
    groups: int
    operation: str
    members: RankSet
    entered: RankSet
    missing: RankSet
    seconds: float | None  # since the first has entered what is not finished
    waits: bool
    rows: list[LaneRow]


class PageDocument(TypedDict):
    schema: str
    version: str
    command: str
    job: str
    target: str
    time: str  # of the data, as ISO 8601
    ranks: RankColumns
    verdict: VerdictView
    colourings: list[Colouring]
    frames: list[FrameView]
    threads: list[ThreadView]
    samples: int
    lanes: list[Lane]
    more_lanes: int
    sentences: list[str]  # about collectives
