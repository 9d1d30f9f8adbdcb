"""py-spy's folded stacks -> a document that names each frame once.

    {"unit": "samples", "rate": 100, "whole": 1000, "frames": [[function, file, line], ...],
     "stacks": [[thread, is it the main one, [indices of frames, outermost first], weight], ...]}

`whole` is what the rank's time weighs: the samples of its main thread. What is found out about
memory has the same form, with bytes, and no rate.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from rankdbg.process.user_code import is_agent, is_native, is_user_code

Frame = tuple[str, str, int]

# "thread (4711): MainThread" comes first, then "function (file:line)"; of C, "function (file)".
_THREAD = re.compile(r"thread \((0x[0-9A-Fa-f]+|\d+)\)(?:: (.*))?\Z", re.DOTALL)
_FRAME = re.compile(r"(.*) \((.*?)(?::(\d+))?\)\Z", re.DOTALL)
# Between two stacks, and not within the name of a function, which may hold any character.
_NEXT_STACK = re.compile(r"(?<=\d)\n(?=thread \()")
# Monarch keeps the main thread to itself, and gives each actor its own.
_ACTOR = "monarch-actor-"


class Folded:
    """Stacks with their weights; equal ones are one."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._frames: dict[Frame, int] = {}
        self._weights: dict[tuple[str, bool, tuple[int, ...]], int] = defaultdict(int)

    def add(self, thread: str, main: bool, frames: list[Frame], weight: int) -> None:
        """Frames come outermost first."""
        indices = tuple(self._frames.setdefault(frame, len(self._frames)) for frame in frames)
        self._weights[thread, main, indices] += weight

    def document(self, whole: int) -> dict[str, Any]:
        return {
            "unit": self._unit,
            "whole": whole,
            "frames": list(self._frames),
            "stacks": [[*key, weight] for key, weight in self._weights.items()],
        }


def fold(text: str, pid: int, rate: int) -> dict[str, Any]:
    """What `py-spy record --format raw --threads` has written about a process, of which it has
    taken so many samples in a second."""
    stacks = _NEXT_STACK.split(text.rstrip("\n"))
    seen = [sample for stack in stacks if (sample := _sample(stack, pid))]
    main = _main_thread(seen)
    folded = Folded("samples")
    threads: dict[str, int] = defaultdict(int)
    for thread, frames, weight in seen:
        folded.add(thread, thread == main, frames, weight)
        threads[thread] += weight
    whole = threads.get(main, max(threads.values(), default=0))
    return {**folded.document(whole), "rate": rate}


def _sample(line: str, pid: int) -> tuple[str, list[Frame], int] | None:
    stack, _, weight = line.rpartition(" ")
    first, *names = stack.split(";")
    thread = _THREAD.match(first)
    if not weight.isdigit() or thread is None or not names:
        return None
    frames = [_frame(name) for name in names]
    outermost = next((frame for frame in frames if not is_native(frame[1])), frames[0])
    if is_agent(outermost[1]):
        return None
    # Its name is not known where threading does not know the thread.
    own = "MainThread" if thread[1] == str(pid) else "thread"
    return thread[2] or own, frames, int(weight)


def _frame(text: str) -> Frame:
    parts = _FRAME.match(text)
    return (parts[1], parts[2], int(parts[3] or 0)) if parts else (text, "", 0)


def _main_thread(seen: list[tuple[str, list[Frame], int]]) -> str:
    users = {t for t, frames, _ in seen if any(is_user_code(f[1]) for f in frames)}
    actors = sorted(thread for thread in users if thread.startswith(_ACTOR))
    return actors[0] if actors and "MainThread" not in users else "MainThread"
