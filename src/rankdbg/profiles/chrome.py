"""The traces of many ranks as one, for https://ui.perfetto.dev: a process for each rank.

Clocks of nodes differ, so the times of a rank are shifted by the measured offset of its node's
clock. One rank is read at a time, event by event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

from rankdbg.profiles.documents import Profile, Weighted, amount
from rankdbg.profiles.trace_events import TraceEvents, find_base
from rankdbg.types import Frame, Rank

# Viewers know neither NaN nor Infinity: an event with one is left out.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_OPERATORS = ("cpu_op", "user_annotation")
_FLOWS = ("s", "t", "f")
# gloo runs collectives in its own threads; their time there includes waiting.
_COLLECTIVES = "gloo:"
# A process of the merged trace is a rank or one of its GPUs, with its own flow numbers.
_PROCESSES, _FLOW_IDS = 1000, 1 << 40


@dataclass(frozen=True)
class TracePart:
    rank: Rank
    name: str  # "rank 7 · node-1"
    open: Callable[[], TextIO]
    ahead_ns: int = 0  # its node's clock, relative to the local clock


@dataclass
class Merged:
    profile: Profile
    events: int
    idle: bool  # no operator and no kernel
    whole: bool  # or the trace was truncated


@dataclass
class _Track:
    """Consecutive events of a thread or stream; events inside another are its children."""

    name: str
    main: bool
    device: str = ""  # the GPU
    intervals: list[tuple[float, float, str]] = field(default_factory=list)


def merge(parts: Iterable[TracePart], out: TextIO) -> Iterator[Merged]:
    """One trace after the other."""
    out.write('{"displayTimeUnit":"ms","traceEvents":[')
    origin: int | None = None
    first = True
    for index, part in enumerate(parts):
        with part.open() as file:
            base = find_base(file) - part.ahead_ns
        origin = base if origin is None else origin
        rewriter = _Rewriter(index, part, (base - origin) / 1000)
        with part.open() as file:
            trace = TraceEvents(file)
            for written in rewriter.rewrite(trace):
                out.write(written if first else f",\n{written}")
                first = False
        yield Merged(rewriter.profile(), rewriter.events, rewriter.idle, trace.whole)
    out.write("]}\n")


class _Rewriter:
    """The events of one rank, for the trace of all."""

    def __init__(self, index: int, part: TracePart, shift: float) -> None:
        self._index, self._part, self._shift = index, part, shift
        self._processes: dict[Any, int] = {}
        self._metadata: dict[Any, list[dict[str, Any]]] = {}
        self._tracks: dict[tuple[Any, Any], _Track] = {}
        self._begin, self._end = float("inf"), 0.0
        self._window = 0.0  # for how long the profiler recorded, as it says
        self.events = 0

    @property
    def idle(self) -> bool:
        return not self._tracks

    def rewrite(self, trace: Iterable[dict[str, Any]]) -> Iterator[str]:
        for event in trace:
            try:
                yield from [*self._rewrite(event)]
            except (KeyError, TypeError, ValueError, OverflowError):
                continue  # not an event of the profiler
        if not self._processes:  # show a rank without events on the time line too
            yield from self._introduce(None, self._part.name)

    def _rewrite(self, event: dict[str, Any]) -> Iterator[str]:
        phase, pid = event.get("ph"), event.get("pid")
        if not isinstance(pid, int):  # metadata of the profiler
            if event.get("cat") == "Trace":
                self._window = amount(event.get("dur", 0.0))
            return
        if phase == "M":
            # Processes without events, such as unused GPUs, are omitted.
            if event.get("name") == "thread_name":
                self._metadata.setdefault(pid, []).append(event)
            return
        if pid not in self._processes:
            gpu = f" · GPU {pid}" if _is_gpu(event) else ""
            yield from self._introduce(pid, self._part.name + gpu)
        self._note(event)
        event["pid"] = self._processes[pid]
        if (begun := event.get("ts")) is not None:
            event["ts"] = round(amount(begun) + self._shift, 3)
        if phase in _FLOWS and isinstance(event.get("id"), int):
            event["id"] += self._index * _FLOW_IDS
        self.events += 1
        yield _encode(event)

    def _introduce(self, pid: Any, name: str) -> Iterator[str]:
        number = (self._index + 1) * _PROCESSES + len(self._processes)
        self._processes[pid] = number
        for key, value in (("name", name), ("sort_index", number)):
            meta = {"ph": "M", "name": f"process_{key}", "pid": number, "tid": 0}
            yield _encode({**meta, "args": {key: value}})
        for entry in self._metadata.pop(pid, ()):
            entry["pid"] = number
            if "ts" in entry:
                del entry["ts"]
            yield _encode(entry)

    def _note(self, event: dict[str, Any]) -> None:
        kind = event.get("cat")
        if event.get("ph") != "X" or kind not in (*_GPU, *_OPERATORS):
            return
        begin, duration = amount(event["ts"]), amount(event.get("dur", 0.0))
        pid, tid = event.get("pid"), event.get("tid")
        track = self._tracks.get((pid, tid))
        if track is None:
            track = self._tracks[pid, tid] = _track(event)
        track.intervals.append((begin, duration, str(event.get("name"))))
        self._begin, self._end = min(self._begin, begin), max(self._end, begin + duration)

    def profile(self) -> Profile:
        """By operator and kernel: the self time of each."""
        tracks = list(self._tracks.values())
        if tracks and not any(track.main for track in tracks):
            max(tracks, key=lambda track: len(track.intervals)).main = True
        whole = max(self._window, self._end - self._begin) if tracks else self._window
        weights: dict[tuple[str, bool, tuple[Frame, ...]], float] = {}
        for track in tracks:
            for names, own in _nested(track.intervals):
                key = track.name, track.main, tuple(Frame(n, track.device, 0) for n in names)
                weights[key] = weights.get(key, 0.0) + own
        for name, device, nothing in _idle(tracks):
            weights[name, True, (Frame(nothing, device, 0),)] = whole - _covered(tracks, name)
        stacks = tuple(Weighted(*key, weight) for key, weight in weights.items() if weight > 0)
        return Profile(self._part.rank, "microseconds", whole, stacks)


def _track(event: dict[str, Any]) -> _Track:
    pid, tid = event.get("pid"), event.get("tid")
    if event.get("cat") in _GPU:
        return _Track(f"GPU {pid}", True, f"GPU {pid}")
    if tid == pid:
        return _Track("MainThread", True)
    if str(event.get("name")).startswith(_COLLECTIVES):
        return _Track("collectives", True)
    return _Track(f"thread {tid}", False)


def _idle(tracks: list[_Track]) -> Iterator[tuple[str, str, str]]:
    """The tracks with idle time, and the name of that time."""
    named = {(track.name, track.device) for track in tracks} or {("MainThread", "")}
    for name, device in sorted(named):
        if device:
            yield name, device, "idle"
        elif name == "MainThread":
            yield name, "", "outside of operators (Python, waiting)"


def _covered(tracks: list[_Track], name: str) -> float:
    """For how long at least one of these tracks was busy."""
    spans = sorted((b, b + d) for t in tracks if t.name == name for b, d, _ in t.intervals)
    covered, reached = 0.0, float("-inf")
    for begin, end in spans:
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def _is_gpu(event: dict[str, Any]) -> bool:
    return event.get("cat") in (*_GPU, "gpu_user_annotation")


def _nested(intervals: list[tuple[float, float, str]]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Each event with the names of its parents, outermost first, and its self time."""
    intervals.sort(key=lambda interval: (interval[0], -interval[1]))
    around: list[tuple[float, tuple[str, ...], float]] = []  # end, names, own so far
    for begin, duration, name in intervals:
        while around and begin >= around[-1][0]:
            _, names, own = around.pop()
            yield names, own
        if around:
            end, names, own = around[-1]
            around[-1] = end, names, own - min(duration, end - begin)
        above = around[-1][1] if around else ()
        around.append((begin + duration, (*above, name), duration))
    while around:
        _, names, own = around.pop()
        yield names, own
