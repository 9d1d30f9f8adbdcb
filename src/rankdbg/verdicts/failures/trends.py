"""What the numbers of a job's steps tell: a loss that jumps, a throughput that falls, a slow rank.

Each is compared with its own history or with the same steps of other ranks, by medians: a single
slow step (a checkpoint, an evaluation), noise and a warm-up are not worth a line. None of it is a
failure: a job with such a trend goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rankdbg.verdicts.failures.step_values import Measure, Series, StepLine, series_of

HISTORY = 20  # steps before one that is judged
SETTLED = 5  # last steps, which show whether a value has come back
# A jump is far outside the noise of the steps before, and large in itself.
NOISE = 8.0  # times the usual distance from the median
JUMPS: dict[Measure, float] = {"loss": 1.3, "gradient norm": 10.0}
LAST = 10  # steps that must all be slower before the job is called slow
SLOWER = 1.3  # times the time of other ranks, or of the steps before
FEWEST_RANKS = 3
MOST = 2  # jumps of one measure that are reported, the first ones


@dataclass(frozen=True)
class Trend:
    measure: Measure
    ranks: tuple[int, ...]  # empty: all, or the lines do not say whose they are
    step: int  # at which it began
    value: float
    usual: float  # before, or of the other ranks
    against: str = "before"  # or "other ranks"
    lasts: bool = True  # whether it is so at the end of the log

    @property
    def sentence(self) -> str:
        since = "since" if self.lasts else "at"
        compared = "before" if self.against == "before" else "on the other ranks"
        ends = "" if self.lasts else "; it recovered later"
        value, usual = f"{self.value:.4g}", f"{self.usual:.4g}"
        return f"{self.measure} {value} {since} step {self.step}, {usual} {compared}{ends}"


def find_trends(lines: Iterable[StepLine]) -> list[Trend]:
    measured = series_of(lines)
    found = [*_jumps("loss", measured["loss"])]
    found += _jumps("gradient norm", measured["gradient norm"])
    slow = [*_slow_ranks("step time", measured["step time"])]
    slow = slow or [*_slow_ranks("throughput", measured["throughput"])]
    whole = [] if slow else _slower("step time", measured["step time"])
    if not slow and not whole:
        whole = _slower("throughput", measured["throughput"])
    return [*found, *slow, *whole]


# --- loss and gradients -------------------------------------------------------------------------


def _jumps(name: Measure, by_rank: Mapping[int | str, Series]) -> list[Trend]:
    """The first jump of each rank; those at one step are one."""
    at: dict[int, list[tuple[int | str, Trend]]] = {}
    for who, series in by_rank.items():
        if (jump := _first_jump(name, series)) is not None:
            at.setdefault(jump.step, []).append((who, jump))
    found = []
    for _, told in sorted(at.items()):
        those = [each for each, _ in told]
        trend = max((jump for _, jump in told), key=lambda jump: jump.value)
        found.append(trend if len(those) == len(by_rank) else _of_ranks(those, trend))
    return found[:MOST]


def _first_jump(name: Measure, series: Series) -> Trend | None:
    values = [value for _, value in series]
    for number in range(HISTORY, len(values)):
        usual, limit = _limit(name, values[number - HISTORY : number])
        if usual > 0 and values[number] > limit:
            lasts = median(values[-SETTLED:]) > limit and len(values) - number >= SETTLED
            peak = max(values[number : number + SETTLED])
            return Trend(name, (), series[number][0], peak, usual, lasts=lasts)
    return None


def _limit(name: Measure, before: Sequence[float]) -> tuple[float, float]:
    """What is usual, and from where on a value is not noise."""
    usual = median(before)
    noise = median(abs(value - usual) for value in before)
    return usual, max(usual * JUMPS[name], usual + NOISE * noise, max(before) + NOISE * noise / 2)


def _of_ranks(who: Sequence[int | str], trend: Trend) -> Trend:
    return replace(trend, ranks=tuple(sorted(each for each in who if isinstance(each, int))))


# --- time ---------------------------------------------------------------------------------------


def _slow_ranks(name: Measure, by_rank: Mapping[int | str, Series]) -> list[Trend]:
    """Ranks that are slower than the others in the same steps, at the end of the log."""
    if len(by_rank) < FEWEST_RANKS:
        return []
    usual = _medians(by_rank.values())
    slow = []
    for who, series in by_rank.items():
        ratios = [(step, _times(name, value, usual[step])) for step, value in series]
        last = [ratio for _, ratio in ratios[-LAST:]]
        if len(last) == LAST and isinstance(who, int) and median(last) >= SLOWER:
            since = _since(ratios)
            values = [value for step, value in series if step >= since]
            others = [usual[step] for step, _ in series if step >= since]
            slow.append(Trend(name, (who,), since, median(values), median(others), "other ranks"))
    # Where many are slower than the median of all, ranks differ by their work.
    return slow if 4 * len(slow) <= len(by_rank) else []


def _medians(all_series: Iterable[Series]) -> dict[int, float]:
    values: dict[int, list[float]] = {}
    for series in all_series:
        for step, value in series:
            values.setdefault(step, []).append(value)
    return {step: median(told) for step, told in values.items()}


def _times(name: Measure, value: float, usual: float) -> float:
    """How many times slower it is."""
    slow, fast = (value, usual) if name == "step time" else (usual, value)
    return slow / fast if fast > 0 else 1.0


def _since(ratios: Sequence[tuple[int, float]]) -> int:
    """The first step of the last run of slow ones, single fast ones included."""
    since = ratios[-1][0]
    fast = 0
    for step, ratio in reversed(ratios):
        fast = 0 if ratio >= SLOWER else fast + 1
        if fast >= 3:
            break
        if ratio >= SLOWER:
            since = step
    return since


def _slower(name: Measure, by_rank: Mapping[int | str, Series]) -> list[Trend]:
    """The whole job: all of the last steps are slower than those before."""
    usual = sorted(_medians(by_rank.values()).items())
    if len(usual) < HISTORY + LAST:
        return []
    before = median(value for _, value in usual[HISTORY // 2 : -LAST])
    ratios = [(step, _times(name, value, before)) for step, value in usual]
    if min(ratio for _, ratio in ratios[-LAST:]) < SLOWER:
        return []
    since = _since(ratios)
    now = median(value for step, value in usual if step >= since)
    earlier = [value for step, value in usual[HISTORY // 2 :] if step < since]
    if len(earlier) < HISTORY // 2:
        return []
    return [Trend(name, (), since, now, median(earlier))]
