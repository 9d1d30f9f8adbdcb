"""The numbers of a job's steps as lines over time: what most ranks have, and those that are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rankdbg.verdicts.failures.done_steps import LoggedStep
from rankdbg.verdicts.failures.root_causes import Diagnosis, step_lines
from rankdbg.verdicts.failures.step_values import Measure, Series, series_of

MOST_POINTS = 300  # steps are put together where there are more
MOST_LINES = 8  # of so many ranks each has a line; of more, those that are apart
MOST_APART = 3
FEWEST_STEPS = 3
WITH_CLOCKS = 0.8  # of the steps, for a chart over time

Who = int | str  # a rank, or a file whose rank is not known
_SHOWN: tuple[Measure, ...] = ("step time", "throughput", "loss", "gradient norm")


@dataclass(frozen=True)
class ChartLine:
    """Of one rank. None: it has no value there."""

    who: Who
    values: tuple[float | None, ...]
    is_apart: bool


@dataclass(frozen=True)
class Chart:
    """`times`: of the points; empty where the lines have no clocks. `unit`: as far as it is known."""

    measure: Measure
    unit: str
    steps: tuple[int, ...]
    times: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]
    lines: tuple[ChartLine, ...]
    whose: tuple[Who, ...]


def charts_of(diagnosis: Diagnosis) -> list[Chart]:
    measured = series_of(step_lines(diagnosis.steps))
    unit = ""
    if not measured["step time"] and not measured["throughput"]:
        measured["step time"], unit = _between_lines(diagnosis.steps), "s"
    times = step_times(diagnosis.steps)
    failed = {rank for failure in diagnosis.failures[:1] for rank in failure.ranks}
    charts = []
    for measure in _SHOWN:
        apart = failed | {r for t in diagnosis.trends if t.measure == measure for r in t.ranks}
        series = _without_copies({w: found for w, found in measured[measure].items() if found})
        if len({step for found in series.values() for step, _ in found}) >= FEWEST_STEPS:
            is_time = measure == "step time"
            charts.append(_chart(measure, unit if is_time else "", series, times, apart))
    return charts


def step_times(steps: Sequence[LoggedStep]) -> dict[int, float]:
    """When most ranks were done with each step, by lines with a clock of their own."""
    found: dict[int, list[float]] = {}
    for (_, step), time in _times_of_ranks(steps).items():
        found.setdefault(step, []).append(time)
    return {step: median(times) for step, times in found.items()}


def _without_copies(series: Mapping[Who, Series]) -> dict[Who, Series]:
    """A driver's log has again what its workers have written into theirs."""
    kept: set[Who] = set()
    known: dict[tuple[int, float], list[set[tuple[int, float]]]] = {}  # by each value
    for who in sorted(series, key=lambda each: (isinstance(each, str), -len(series[each]))):
        values = {*series[who]}
        others = known.get(series[who][0], []) if isinstance(who, str) else []
        if not any(values <= other for other in others):
            kept.add(who)
            for value in values:
                known.setdefault(value, []).append(values)
    return {who: found for who, found in series.items() if who in kept}


def _times_of_ranks(steps: Iterable[LoggedStep]) -> dict[tuple[Who, int], float]:
    """A step that was done again after a restart has its last time."""
    return {
        (done.path if done.rank is None else done.rank, done.step_number): done.time
        for done in steps
        if done.step_number is not None and done.time is not None
        if done.comparable and done.exact
    }


def _between_lines(steps: Iterable[LoggedStep]) -> dict[Who, Series]:
    """Seconds a step, by the clocks of the lines."""
    done: dict[Who, Series] = {}
    for (who, step), time in _times_of_ranks(steps).items():
        done.setdefault(who, []).append((step, time))
    return {who: _differences(_aligned(sorted(found))) for who, found in done.items()}


def _aligned(done: Series) -> Series:
    """By a clock of whole seconds: the steps with which it changed."""
    new = _at_new_times(done)
    return new if len(new) == len(done) else new[1:]


def _at_new_times(done: Series) -> Series:
    """The first step at each time: a clock of whole seconds shows several at once."""
    return [done[0], *(new for old, new in pairwise(done) if new[1] != old[1])]


def _differences(done: Series) -> Series:
    return [
        (step, (time - before) / (step - last))
        for (last, before), (step, time) in pairwise(done)
        if time > before  # else it was started again between them
    ]


def _chart(
    measure: Measure,
    unit: str,
    series: Mapping[Who, Series],
    times: Mapping[int, float],
    apart: set[int],
) -> Chart:
    steps = sorted({step for found in series.values() for step, _ in found})
    size = -(-len(steps) // MOST_POINTS)
    points = [steps[begin : begin + size] for begin in range(0, len(steps), size)]
    point_of = {step: number for number, point in enumerate(points) for step in point}
    values: list[list[float]] = [[] for _ in points]
    for found in series.values():
        for step, value in found:
            values[point_of[step]].append(value)
    middle = tuple(median(each) for each in values)
    odd = [who for who in series if who in apart]
    shown = [*series] if len(series) <= MOST_LINES else odd[:MOST_APART]
    return Chart(
        measure,
        unit,
        tuple(point[-1] for point in points),
        _times_of_points(points, times),
        tuple(map(min, values)),
        middle,
        tuple(map(max, values)),
        tuple(ChartLine(w, _line(series[w], point_of, middle), w in apart) for w in shown),
        tuple(series),
    )


def _line(
    series: Series, point_of: Mapping[int, int], middle: Sequence[float]
) -> tuple[float | None, ...]:
    """Of several steps at one point, the value that is farthest from the usual one."""
    made: list[float | None] = [None] * len(middle)
    for step, value in series:
        number = point_of[step]
        known = made[number]
        if known is None or abs(value - middle[number]) > abs(known - middle[number]):
            made[number] = value
    return tuple(made)


def _times_of_points(
    points: Sequence[Sequence[int]], times: Mapping[int, float]
) -> tuple[float, ...]:
    """Those without a clock are between their neighbours; none, where too few have one. What was done
    again after a restart is later than what was done before."""
    known = [(n, times[point[-1]]) for n, point in enumerate(points) if point[-1] in times]
    if len(known) < max(2, WITH_CLOCKS * len(points)):
        return ()
    known = _at_new_times(known)
    made: list[float] = []
    for number in range(len(points)):
        before = max((each for each in known if each[0] <= number), default=known[0])
        after = min((each for each in known if each[0] >= number), default=known[-1])
        share = (number - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
        time = before[1] + share * (after[1] - before[1])
        made.append(max(time, *made[-1:], time))
    return tuple(made)
