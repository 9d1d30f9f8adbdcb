"""The numbers of steps as charts: what most ranks have, and the lines of those that are apart."""

from __future__ import annotations

import pytest

from rankdbg.investigations.logs.step_charts import MOST_POINTS, Chart, charts_of, step_times
from rankdbg.verdicts.failures.done_steps import LoggedStep
from rankdbg.verdicts.failures.root_causes import Diagnosis
from rankdbg.verdicts.failures.trends import Trend

BEGIN = 1_790_000_000.0


def step(
    rank: int | None, number: int, text: str, *, time: float | None = None, path: str = "", **more: bool
) -> LoggedStep:  # fmt: skip
    time = BEGIN + 10 * number if time is None else time
    exact = {"comparable": True, "exact": True, **more}
    return LoggedStep(
        path or f"rank{rank}.log", number, rank, str(number), time, text=text, **exact
    )


def charts(steps: list[LoggedStep], *trends: Trend) -> dict[str, Chart]:
    return {
        chart.measure: chart for chart in charts_of(Diagnosis((), (), steps=steps, trends=trends))
    }


def test_few_ranks_have_a_line_each() -> None:
    """And where their values lie, with the clocks of the steps."""
    steps = [step(r, n, f"step {n} loss: {n + r}") for r in range(3) for n in range(1, 6)]
    loss = charts(steps)["loss"]
    assert loss.steps == (1, 2, 3, 4, 5) and loss.whose == (0, 1, 2)
    assert (loss.low, loss.middle, loss.high) == (
        (1, 2, 3, 4, 5),
        (2, 3, 4, 5, 6),
        (3, 4, 5, 6, 7),
    )
    assert [line.values[0] for line in loss.lines] == [1, 2, 3]
    assert loss.times == tuple(BEGIN + 10 * n for n in range(1, 6))


def test_of_many_ranks_only_those_that_are_apart() -> None:
    """A trend of a rank names it."""
    steps = [
        step(r, n, f"step {n} step_time: {9 if r == 41 else 1}")
        for r in range(64)
        for n in range(20)
    ]
    slow = Trend("step time", (41,), 0, 9, 1, "other ranks")
    (line,) = charts(steps, slow)["step time"].lines
    assert (line.who, line.is_apart, line.values[3]) == (41, True, 9)
    assert charts(steps)["step time"].lines == ()


def test_a_spike_is_kept_where_steps_are_put_together() -> None:
    """Of thousands of steps, each point has the value that is farthest from the usual one."""
    steps = [step(0, n, f"step {n} loss: {77 if n == 4321 else 2}") for n in range(6000)]
    loss = charts(steps)["loss"]
    assert len(loss.steps) <= MOST_POINTS and loss.steps[-1] == 5999
    assert max(loss.high) == 77 and max(loss.middle) == 2
    assert max(value for value in loss.lines[0].values if value is not None) == 77


def test_step_times_by_the_clocks_of_the_lines() -> None:
    """Where no line says how long a step took."""
    steps = [step(0, n, "step", time=BEGIN + n * n) for n in range(1, 6)]
    found = charts(steps)["step time"]
    assert (found.unit, found.middle) == ("s", (3, 5, 7, 9))


def test_a_clock_of_whole_seconds() -> None:
    """Five steps a second are 0.2 s each, and not all at one place."""
    steps = [step(0, n, f"step {n} loss: {n}", time=BEGIN + (n + 3) // 5) for n in range(40)]
    found = charts(steps)
    assert found["step time"].middle == (0.2,) * 7
    times = found["loss"].times
    assert len({*times[:37]}) == 37 and times[7] - times[2] == pytest.approx(1.0)


@pytest.mark.parametrize("more", [{"exact": False}, {"comparable": False}])
def test_without_clocks_there_are_only_steps(more: dict[str, bool]) -> None:
    """A line without a clock of its own has that of another line."""
    steps = [step(0, n, f"step {n} loss: {n}", **more) for n in range(1, 9)]
    assert charts(steps)["loss"].times == ()
    assert step_times(steps) == {}


def test_a_restart() -> None:
    """What was done again has its last value and time, and no step takes negative time."""
    steps = [step(0, n, f"step {n} loss: {n}") for n in range(1, 9)]
    steps += [step(0, n, f"step {n} loss: {n + 1}", time=BEGIN + 500 + n) for n in range(5, 12)]
    found = charts(steps)
    assert found["loss"].middle == (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12)
    assert list(found["loss"].times) == sorted(found["loss"].times)
    assert min(found["step time"].low) > 0


def test_a_copy_is_not_another_rank() -> None:
    """A driver's log has again what its worker has written."""
    texts = [f"step {n} loss: {n / 3:.3f}" for n in range(1, 9)]
    steps = [step(None, n, text, path="worker.out") for n, text in enumerate(texts, 1)]
    steps += [step(None, n, text, path="driver.log") for n, text in enumerate(texts[2:], 3)]
    assert charts(steps)["loss"].whose == ("worker.out",)
    other = [step(None, n, f"step {n} loss: {n / 4:.3f}", path="other.out") for n in range(1, 9)]
    assert charts([*steps, *other])["loss"].whose == ("worker.out", "other.out")
