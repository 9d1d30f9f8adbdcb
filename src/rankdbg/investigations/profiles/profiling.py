"""Profiles of running ranks: started on all nodes, stopped, and collected.

Between start and stop no node is queried, so that the user may stop early (Ctrl-C) and keep
what was recorded.
"""

from __future__ import annotations

import gzip
import time
import zlib
from binascii import a2b_base64
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.files import private_files
from rankdbg.files.safe_names import component
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank, Silence
from rankdbg.wire.answers import ProfileContents
from rankdbg.wire.node_questions import BeginProfile, EndProfile, ReadClock, ReadProfile

# Time to load a profiler; and to write, fold and send what it has recorded.
BEGIN_SECONDS = {"cpu": 15.0, "torch": 60.0, "memory": 60.0, "nsys": 60.0}
END_SECONDS = {"cpu": 30.0, "torch": 180.0, "memory": 120.0, "nsys": 330.0}
EACH_SECONDS = 0.3
PIECE_SECONDS = 60.0
MOST_A_PIECE = 64 << 20
CLOCK_LOOKS = 5
NODES_AT_ONCE = 16

ENDINGS = {
    "folded": "folded.json.gz",
    "gpu": "gpu.folded.json.gz",
    "trace": "trace.json.gz",
    "memray": "memray.bin",
    "snapshot": "snapshot.pickle",
    "nsys": "nsys-rep",
    "qdstrm": "qdstrm",
}


@dataclass(frozen=True)
class Clock:
    """How far a node's clock is ahead of the local one, and the error of that, in seconds."""

    ahead: float
    error: float


@dataclass
class RecordedFiles:
    """The collected files of each rank, by content, and notes."""

    seconds: float
    files: dict[ProcessKey, dict[str, Path]] = field(default_factory=dict)
    notes: dict[ProcessKey, list[str]] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    stopped: dict[ProcessKey, float] = field(default_factory=dict)  # share of the time, by --native
    no_response: list[Silence] = field(default_factory=list)
    idle: set[ProcessKey] = field(default_factory=set)  # of these a trace has nothing
    clocks: dict[str, Clock] = field(default_factory=dict)
    cut_short: bool = False  # by the user


def record(
    session: Session,
    ranks: Sequence[Rank],
    settings: BeginProfile,
    folder: Path,
    wait: Callable[[float], bool],
) -> RecordedFiles:
    """`wait` returns whether it has
    waited to the end. The collected files are written to the folder. Raises OSError if that
    fails."""
    kind = settings.kind
    patience = BEGIN_SECONDS[kind] + EACH_SECONDS * _most_on_a_node(ranks)
    begun = session.ask(settings, ranks, patience)
    silent = [answer for answer in begun if isinstance(answer, Silence)]
    recorded = RecordedFiles(0.0, no_response=silent)
    recording = [answer.rank for answer in begun if isinstance(answer, Answer)]
    if not recording:
        return recorded
    since = time.monotonic()
    recorded.cut_short = not wait(settings.seconds)
    recorded.seconds = time.monotonic() - since
    ended = session.ask(EndProfile(kind=kind), recording, END_SECONDS[kind])
    recorded.no_response += [answer for answer in ended if isinstance(answer, Silence)]
    came = [answer for answer in ended if isinstance(answer, Answer)]
    _bring_home(session, came, folder, recorded)
    return recorded


def _most_on_a_node(ranks: Sequence[Rank]) -> int:
    return max(Counter(rank.host for rank in ranks).values(), default=0)


def _bring_home(
    session: Session, came: Sequence[Answer[ProfileContents]], folder: Path, recorded: RecordedFiles
) -> None:
    """All nodes in parallel, the ranks of a node one after the other."""
    nodes: dict[str, list[Answer[ProfileContents]]] = {}
    for answer in came:
        nodes.setdefault(answer.rank.host, []).append(answer)

    def bring(node: str) -> Clock:
        clock = look_at_clock(session, node)
        for answer in nodes[node]:
            try:
                files = dict(_fetch_all(session, answer, folder))
                recorded.files[answer.rank.process] = files
                recorded.notes[answer.rank.process] = list(answer.value.notes)
                if answer.value.stopped is not None:
                    recorded.stopped[answer.rank.process] = round(answer.value.stopped, 4)
            except RankdbgError as error:
                recorded.no_response.append(Silence(answer.rank, error.what))
        return clock

    def bring_or_say(node: str) -> Clock | None:
        try:
            return bring(node)
        except RankdbgError as error:
            missing = [a.rank for a in nodes[node] if a.rank.process not in recorded.files]
            recorded.no_response += [Silence(rank, error.what) for rank in missing]
            return None

    with ThreadPoolExecutor(NODES_AT_ONCE) as pool:
        for node, clock in zip(nodes, pool.map(bring_or_say, nodes), strict=True):
            if clock is not None:
                recorded.clocks[node] = clock
    recorded.ranks = [a.rank for a in came if a.rank.process in recorded.files]


def _fetch_all(
    session: Session, answer: Answer[ProfileContents], folder: Path
) -> Iterator[tuple[str, Path]]:
    rank = answer.rank
    number = f"rank-{rank.number}" if rank.number is not None else "process"
    # In pods, ranks of two roles may have one number and one pid.
    host = component(rank.host, 100)
    for content, size in answer.value.contents.items():
        if content not in ENDINGS:
            continue
        path = folder / f"{number}-{host}-{rank.pid}.{ENDINGS[content]}"
        with ExitStack() as opened:
            file = opened.enter_context(private_files.open_file(path, "wb"))
            if path.suffix == ".gz":
                file = opened.enter_context(gzip.open(file, "wb", 1))
            for piece in _pieces(session, rank, content, size):
                file.write(piece)
        yield content, path


def _pieces(session: Session, rank: Rank, content: str, size: int) -> Iterator[bytes]:
    process = rank.pid, rank.process.start
    came = 0
    while came < size:
        question = ReadProfile(process=process, content=content, offset=came)
        answer = session.ask_node(rank.host, question, PIECE_SECONDS)
        try:
            data = zlib.decompressobj().decompress(a2b_base64(answer.data), MOST_A_PIECE)
        except (ValueError, zlib.error):
            data = b""
        if not data:
            raise NodeFailed(f"the profile of process {rank.pid} on {rank.host} is incomplete")
        came += len(data)
        yield data


def look_at_clock(session: Session, node: str) -> Clock:
    """The node's clock was read between sending and receiving; of several attempts the fastest is
    the most accurate."""
    best: Clock | None = None
    for _ in range(CLOCK_LOOKS):
        asked = time.time_ns()
        there = session.ask_node(node, ReadClock(), session.timeout).now_ns
        back = time.time_ns()
        clock = Clock((there - (asked + back) / 2) / 1e9, (back - asked) / 2e9)
        best = clock if best is None or clock.error < best.error else best
    assert best is not None
    return best
