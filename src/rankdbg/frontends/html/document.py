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
    role: str  # waiting, culprit, cause; `` where the job is not stuck
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
    name: str  # what ranks of one class have in common
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


class StayView(TypedDict):
    """A rank's time in one phase."""

    phase: int  # in `phases`
    begin: float
    end: float  # of the last line that told of it
    text: str


class PhaseRow(TypedDict):
    """Ranks, or another process, that have gone the same way."""

    ranks: RankSet
    name: str
    stack: str
    stays: list[StayView]
    silent: float  # seconds without output after the last stay
    says: str  # of that silence
    stalled: bool


class ChartLineView(TypedDict):
    name: str
    ranks: RankSet
    values: list[float | None]  # of each point
    odd: bool


class ChartView(TypedDict):
    """A number of the steps: one entry for each point in `times` (or none) to `high`."""

    name: str
    unit: str
    steps: list[int]
    times: list[float]
    low: list[float | None]
    middle: list[float | None]
    high: list[float | None]
    lines: list[ChartLineView]
    count: int  # of those that have it
    of: str  # ranks; logs, where it is not known whose they are


class MarkView(TypedDict):
    time: float
    kind: str  # cause, follows, other (failures), value, overcome
    text: str
    line: str  # that shows it
    ranks: RankSet


class TimeView(TypedDict):
    begin: float
    end: float
    phases: list[str]
    rows: list[PhaseRow]
    more_rows: int
    charts: list[ChartView]
    marks: list[MarkView]


class NodeHealth(TypedDict):
    """Of a node, or of several."""

    kind: str  # complaint, unknown, apart from the others; `` where nothing is unusual
    text: str
    more: int  # further complaints
    next: str


class GpuColumns(TypedDict):
    """The GPUs of all nodes, one after the other."""

    node: list[int]  # of each, in `hosts`
    index: list[int]  # on its node
    use: list[float | None]  # percent
    memory: list[float | None]  # percent
    temperature: list[float | None]  # °C
    troubled: str  # those with a complaint, by their place here
    names: list[str]


class NodesView(TypedDict):
    """A column for each figure of the nodes, in percent; None for what is not known."""

    time: str  # when they were read
    hosts: list[str]
    ranks: list[RankSet]
    health: list[NodeHealth]  # the distinct ones; the first is that of a node that does well
    of: list[int]  # of each node, in `health`
    load: list[float | None]
    processors: list[int]
    memory: list[float | None]
    memory_size: list[int]  # bytes
    disk: list[float | None]  # the fullest one
    disks: list[str]  # their places
    fullest: list[int]  # of each node, in `disks`; -1: none
    gpus: GpuColumns


class SideView(TypedDict):
    """One of two groups of ranks whose profiles are compared."""

    name: str
    ranks: RankSet


class ProfileView(TypedDict):
    """A call tree of all profiled ranks. Parents are before their children."""

    unit: str  # time, memory
    least: float  # frames of less than this share are left out, in percent
    ranks: list[int]  # the place of the rank of each profile
    sides: list[SideView]  # two, or none
    frames: list[FrameView]
    frame: list[int]  # of each node, in `frames`
    parents: list[int]  # of each node; -1 for the first
    shares: list[list[int] | None]  # of each profile, in 1/1000; None: as the parent


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
    times: TimeView | None  # by the logs
    nodes: NodesView | None
    profile: ProfileView | None
    findings: str  # all that the command found, as text
