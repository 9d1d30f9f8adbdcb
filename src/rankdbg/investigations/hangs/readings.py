"""What samples and flight recorders of a rank show, as values to compare or to name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from rankdbg.types import Frame, ProcessKey, RunningKernel, Sampled
from rankdbg.verdicts.collectives.traces import Trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives
from rankdbg.verdicts.hangs import progress
from rankdbg.verdicts.hangs.gpu_kernels import Kernel
from rankdbg.wire.answers import Vitals
from rankdbg.wire.node_answers import ThreadThings

_CLOCK = re.compile(r"[12]\d{9}\.\d+$")  # what time.time() returns
_COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
# The frames of a thread with their variables.
Variables = tuple[tuple[Frame, Mapping[str, str]], ...]


def master(sampled: Sampled) -> str:
    """HOST:PORT, from the variables of the frame that creates the store; empty without one."""
    for stack in sampled.main():
        for frame, values in zip(stack.frames, stack.locals, strict=False):
            if frame.function == "_create_c10d_store" and "port" in values:
                host = values.get("hostname", "").strip("'\"")
                return f"{host}:{values['port']}"
    return ""


def names_group(sampled: Sampled) -> bool:
    """Whether its collective was called with a group."""
    values = [each for stack in sampled.main() for each in stack.locals]
    return any(each.get("group") == "given" for each in values)


def variables(sampled: Sampled) -> Variables:
    """Of the frames of the main thread, outermost first."""
    for stack in sampled.main():
        pairs = zip(stack.frames, stack.locals, strict=False)
        return tuple((frame, dict(values)) for frame, values in pairs)[::-1]
    return ()


def differ(looks: Sequence[Variables]) -> bool:
    return any(_differs(looks[0], look) for look in looks[1:])


def only_counts(looks: Sequence[Variables]) -> bool:
    """Whether nothing has changed but one number, which grows. In a comprehension that is the
    number of an element, and the elements are computed."""
    changes = [change for look in looks[1:] for change in _changes(looks[0], look)]
    places = {(depth, name) for depth, name, _, _ in changes}
    grows = all(
        before.isdigit() and after.isdigit() and int(before) < int(after)
        for _, _, before, after in changes
    )
    return len(places) == 1 and grows and looks[0][changes[0][0]][0].function not in _COMPREHENSIONS


def _differs(one: Variables, other: Variables) -> bool:
    return bool(_changes(one, other))


def _changes(one: Variables, other: Variables) -> list[tuple[int, str, str, str]]:
    """Depth, name and values of what is different in a function that it was in both times, at
    whichever line; but for the time of day, at which a loop that polls looks."""
    found: list[tuple[int, str, str, str]] = []
    for depth, ((mine, before), (its, after)) in enumerate(zip(one, other, strict=False)):
        if (mine.function, mine.file) != (its.function, its.file):
            break
        values = [(name, before.get(name, ""), after.get(name, "")) for name in {*before, *after}]
        found += [
            (depth, *each) for each in values if each[1] != each[2] and not _is_clock(each[1])
        ]
    return found


def _is_clock(text: str) -> bool:
    return _CLOCK.match(text) is not None


def without_ours(first: Vitals, before: Vitals, after: Vitals) -> Vitals:
    """A first look, to which a process is compared later as if nothing had happened between two
    others."""
    return replace(
        first,
        woken=first.woken + after.woken - before.woken,
        switches=first.switches + after.switches - before.switches,
        read=first.read + after.read - before.read,
        written=first.written + after.written - before.written,
    )


def is_served(before: ThreadThings, after: ThreadThings) -> bool:
    """Whether something else than its timer has ended waits of a thread."""
    looks = (
        Vitals(at=look.at, call=look.call, timer=look.timer, woken=look.woken)
        for look in (before, after)
    )
    return progress.is_supplied(*looks)


def kernels(
    first: Sequence[RunningKernel], later: Sequence[Sequence[RunningKernel]]
) -> list[Kernel]:
    """Those of the first look, and whether they still ran in all later ones."""
    return [Kernel(each.name, _text_of(each), _has_ended(each, later)) for each in first]


def _has_ended(kernel: RunningKernel, later: Sequence[Sequence[RunningKernel]]) -> bool | None:
    if not later:
        return None
    return not all(kernel.launch in (each.launch for each in look) for look in later)


def _text_of(kernel: RunningKernel) -> str:
    """spin_kernel (grid 1x1x1, block 1x1x1) at kernels.py:6"""
    sizes = f" ({', '.join(kernel.sizes)})" if kernel.sizes else ""
    at = f" at {PurePath(kernel.file).name}:{kernel.line}" if kernel.file else ""
    return f"{kernel.name}{sizes}{at}"


def counted_on(
    before: Mapping[ProcessKey, RecordedCollectives],
    after: Mapping[ProcessKey, RecordedCollectives],
) -> set[ProcessKey]:
    """Ranks that entered or finished a collective between two looks."""
    return {
        process
        for process, each in after.items()
        if process in before and _count(before[process].trace) != _count(each.trace)
    }


def entered_more(
    before: Mapping[ProcessKey, RecordedCollectives],
    after: Mapping[ProcessKey, RecordedCollectives],
) -> set[ProcessKey]:
    """Ranks that entered a collective between two looks. That one has finished may become known
    late, where a thread holds the GIL."""
    return {
        process
        for process, each in after.items()
        if process in before and _entered(before[process].trace) != _entered(each.trace)
    }


def _count(trace: Trace) -> tuple[Any, ...]:
    finished = max(((op.created, op.record) for op in trace.operations if op.finished), default=())
    return *_entered(trace), finished


def _entered(trace: Trace) -> tuple[Any, ...]:
    last: dict[str, int] = {}
    for op in trace.operations:
        last[op.group] = max(last.get(op.group, 0), op.number)
    return tuple(sorted(last.items())), tuple(sorted(trace.entered.items()))
