"""A profile of running ranks: begun everywhere, ended everywhere, brought home.

Between the beginning and the end nothing is asked of any node, so that the user may end it
early (^C) and keeps what there is by then.
"""

from __future__ import annotations

import gzip
import time
import zlib
from binascii import a2b_base64
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankdbg.answers import understanding
from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Question, Rank, Silence

# To load a profiler; and to write down, fold and hand over what it has recorded.
BEGIN_SECONDS = {"cpu": 15.0, "torch": 60.0, "memory": 60.0, "nsys": 60.0}
END_SECONDS = {"cpu": 30.0, "torch": 180.0, "memory": 120.0, "nsys": 330.0}
EACH_SECONDS = 0.3
PIECE_SECONDS = 60.0
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
    """How far a node's clock is ahead of ours, and how wrong that may be, in seconds."""

    ahead: float
    error: float


@dataclass
class Recorded:
    """What came home of each rank: files, by what they hold; and what there is to say."""

    seconds: float
    files: dict[ProcessKey, dict[str, Path]] = field(default_factory=dict)
    notes: dict[ProcessKey, list[str]] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    stopped: dict[ProcessKey, float] = field(default_factory=dict)  # share of the time, by --native
    silent: list[Silence] = field(default_factory=list)
    idle: set[ProcessKey] = field(default_factory=set)  # of these a trace has nothing
    clocks: dict[str, Clock] = field(default_factory=dict)
    cut_short: bool = False  # by the user


def record(
    session: Session,
    ranks: Sequence[Rank],
    settings: dict[str, Any],
    folder: Path,
    wait: Callable[[float], bool],
) -> Recorded:
    """`settings`: kind, seconds, rate, native, most_stopped, stack. `wait` returns whether it has
    waited to the end. What comes home is written to the folder. Raises OSError if that is not
    possible."""
    kind = str(settings["kind"])
    patience = BEGIN_SECONDS[kind] + EACH_SECONDS * _most_on_a_node(ranks)
    begun = session.ask(Question("profile", {"do": "begin", **settings}), ranks, patience)
    silent = [answer for answer in begun if isinstance(answer, Silence)]
    recorded = Recorded(0.0, silent=silent)
    recording = [answer.rank for answer in begun if isinstance(answer, Answer)]
    if not recording:
        return recorded
    since = time.monotonic()
    recorded.cut_short = not wait(float(settings["seconds"]))
    recorded.seconds = time.monotonic() - since
    end = Question("profile", {"do": "end", "kind": kind})
    ended = session.ask(end, recording, END_SECONDS[kind])
    recorded.silent += [answer for answer in ended if isinstance(answer, Silence)]
    came = [answer for answer in ended if isinstance(answer, Answer)]
    _bring_home(session, came, folder, recorded)
    return recorded


def _most_on_a_node(ranks: Sequence[Rank]) -> int:
    return max(Counter(rank.host for rank in ranks).values(), default=0)


def _bring_home(session: Session, came: Sequence[Answer], folder: Path, recorded: Recorded) -> None:
    """Nodes at once, the ranks of each one after the other."""
    nodes: dict[str, list[Answer]] = {}
    for answer in came:
        nodes.setdefault(answer.rank.host, []).append(answer)

    def bring(node: str) -> Clock:
        clock = look_at_clock(session, node)
        for answer in nodes[node]:
            try:
                files = dict(_fetch_all(session, answer, folder))
                recorded.files[answer.rank.process] = files
                recorded.notes[answer.rank.process] = list(answer.value.get("notes", ()))
                if answer.value.get("stopped") is not None:
                    recorded.stopped[answer.rank.process] = round(answer.value["stopped"], 4)
            except RankdbgError as error:
                recorded.silent.append(Silence(answer.rank, error.what))
        return clock

    def bring_or_say(node: str) -> Clock | None:
        try:
            return bring(node)
        except RankdbgError as error:
            missing = [a.rank for a in nodes[node] if a.rank.process not in recorded.files]
            recorded.silent += [Silence(rank, error.what) for rank in missing]
            return None

    with ThreadPoolExecutor(NODES_AT_ONCE) as pool:
        for node, clock in zip(nodes, pool.map(bring_or_say, nodes), strict=True):
            if clock is not None:
                recorded.clocks[node] = clock
    recorded.ranks = [a.rank for a in came if a.rank.process in recorded.files]


def _fetch_all(session: Session, answer: Answer, folder: Path) -> Iterator[tuple[str, Path]]:
    rank = answer.rank
    number = f"rank-{rank.number}" if rank.number is not None else "process"
    # In pods, ranks of two roles may have one number and one pid.
    host = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in rank.host)
    for content, size in answer.value["contents"].items():
        if content not in ENDINGS:
            continue
        path = folder / f"{number}-{host}-{rank.pid}.{ENDINGS[content]}"
        with gzip.open(path, "wb", 1) if path.suffix == ".gz" else open(path, "wb") as file:
            for piece in _pieces(session, rank, content, int(size)):
                file.write(piece)
        yield content, path


def _pieces(session: Session, rank: Rank, content: str, size: int) -> Iterator[bytes]:
    process = [rank.pid, rank.process.start]
    question = {"ask": "profile", "do": "piece", "content": content, "process": process}
    came = 0
    while came < size:
        answer = session.ask_node(rank.host, {**question, "offset": came}, PIECE_SECONDS)
        try:
            data = zlib.decompress(a2b_base64(answer["data"]))
        except (KeyError, TypeError, ValueError, zlib.error):
            data = b""
        if not data:
            raise NodeFailed(f"the profile of process {rank.pid} on {rank.host} came in part only")
        came += len(data)
        yield data


def look_at_clock(session: Session, node: str) -> Clock:
    """The answer was given between our question and its arrival; of several looks the one that
    was quickest tells most."""
    best: Clock | None = None
    for _ in range(CLOCK_LOOKS):
        asked = time.time_ns()
        answer = session.ask_node(node, {"ask": "profile", "do": "clock"}, session.timeout)
        back = time.time_ns()
        with understanding(node, "clock"):
            there = int(answer["now_ns"])
        clock = Clock((there - (asked + back) / 2) / 1e9, (back - asked) / 2e9)
        best = clock if best is None or clock.error < best.error else best
    assert best is not None
    return best
