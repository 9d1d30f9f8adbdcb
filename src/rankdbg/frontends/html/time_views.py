"""What a job did when, by its logs: the phases of its ranks, the numbers of its steps, and events.

Times are those that the logs print, in seconds since 1970 as if their zone was UTC: the page shows
them unchanged, wherever it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from rankdbg.frontends.html.document import ChartView, MarkView, PhaseRow, StayView, TimeView
from rankdbg.frontends.html.log_ranks import LogRanks
from rankdbg.investigations.logs.log_diagnosis import (
    failed_where,
    shown_line,
    trend_in_words,
    whose,
)
from rankdbg.investigations.logs.rank_phases import (
    RankPhases,
    phase_name,
    silence_text,
    step_text,
    who_are,
)
from rankdbg.investigations.logs.step_charts import Chart, ChartLine, charts_of, step_times
from rankdbg.process.masking import mask_text
from rankdbg.text.cutting import cut, cut_path
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.job_phases import Course, RankPhase
from rankdbg.verdicts.failures.root_causes import Diagnosis, Failure

MOST_ROWS = 12
MOST_STAYS = 60  # of a row; the last ones
MOST_MARKS = 10
LONGEST_LINE = 200  # characters
# What was overcome is left out if it was this much of the job's time earlier or later.
_BESIDE = 0.1
_FAILURES = {"root": "cause", "consequence": "follows", "teardown": "follows", "other": "other"}


def time_view(
    courses: Sequence[Course],
    diagnosis: Diagnosis | None,
    ranks: LogRanks,
    overdue: Iterable[Course] = (),
) -> TimeView | None:
    """None, where the logs tell of no phase, no numbers and no event with a clock. `overdue`: whose
    silence stands out."""
    view = _Times(courses, diagnosis, ranks, {id(course) for course in overdue}).view
    return view if view["rows"] or view["charts"] or view["marks"] else None


class _Times:
    def __init__(
        self,
        courses: Sequence[Course],
        diagnosis: Diagnosis | None,
        ranks: LogRanks,
        overdue: Collection[int],
    ) -> None:
        self._ranks, self._overdue = ranks, overdue
        self._phases: dict[str, int] = {}
        groups = [group for group in RankPhases(courses).members() if _times_of(group[0])]
        groups.sort(key=_order)
        charts = charts_of(diagnosis) if diagnosis is not None else []
        self._times = [_printed(time) for group in groups for time in _times_of(group[0])]
        self._times += [_printed(time) for chart in charts for time in chart.times]
        marks = self._marks(diagnosis) if diagnosis is not None else []
        rows = [self._row(group) for group in groups[:MOST_ROWS]]
        self.view: TimeView = {
            "begin": min(self._times, default=0.0),
            "end": max(self._times, default=0.0),
            "phases": [*self._phases],
            "rows": rows,
            "more_rows": len(groups) - len(rows),
            "charts": [self._chart(chart) for chart in charts],
            "marks": marks,
        }

    # --- phases -----------------------------------------------------------------------------

    def _row(self, members: Sequence[Course]) -> PhaseRow:
        first = members[0]
        stays = [stay for stay in first.stays if stay.begin is not None]
        return {
            "ranks": self._ranks.set_of_courses(members),
            "name": who_are(members),
            "stack": first.now.rule.stack,
            "stays": [self._stay(stay) for stay in stays[-MOST_STAYS:]],
            "silent": round(_silence(first), 1),
            "says": silence_text(first),
            "stalled": id(first) in self._overdue,
        }

    def _stay(self, stay: RankPhase) -> StayView:
        begin = stay.begin or 0.0
        end = begin if stay.end is None else max(begin, stay.end)
        return {
            "phase": self._phases.setdefault(stay.rule.phase, len(self._phases)),
            "begin": _printed(begin),
            "end": _printed(end),
            "text": mask_text(phase_name(stay) + step_text(stay)),
        }

    # --- charts -----------------------------------------------------------------------------

    def _chart(self, chart: Chart) -> ChartView:
        return {
            "name": chart.measure,
            "unit": chart.unit,
            "steps": [*chart.steps],
            "times": [_printed(time) for time in chart.times],
            "low": _short(chart.low),
            "middle": _short(chart.middle),
            "high": _short(chart.high),
            "lines": [
                {
                    "name": self._line_name(line),
                    "ranks": self._ranks.set_of([line.who]) if isinstance(line.who, int) else "",
                    "values": _short(line.values),
                    "odd": line.is_apart,
                }
                for line in chart.lines
            ],
            "count": len(chart.whose),
            "of": "ranks" if all(isinstance(who, int) for who in chart.whose) else "logs",
        }

    def _line_name(self, line: ChartLine) -> str:
        return f"rank {line.who}" if isinstance(line.who, int) else cut_path(line.who, 18)

    # --- events -----------------------------------------------------------------------------

    def _marks(self, diagnosis: Diagnosis) -> list[MarkView]:
        """Causes, what follows from them, jumps of the numbers and what was overcome, in this order
        where there are too many."""
        marks = [mark for failure in diagnosis.failures if (mark := self._failure(failure))]
        when = step_times(diagnosis.steps)
        for trend in diagnosis.trends:
            if trend.step in when:
                what = _Marked("value", when[trend.step], trend_in_words(trend), "", trend.ranks)
                marks.append(self._mark(what))
        told = set()
        for event in diagnosis.overcome:
            is_loud = event.tier < 2 and not event.rule.weak
            if is_loud and event.time is not None and event.mode not in told:
                told.add(event.mode)
                marks.append(self._mark(_overcome(event, event.time)))
        self._times += [mark["time"] for mark in marks if mark["kind"] in _FAILURES.values()]
        near = [mark for mark in marks if self._is_near(mark["time"])]
        self._times += [mark["time"] for mark in near[:MOST_MARKS]]
        return sorted(near[:MOST_MARKS], key=lambda mark: mark["time"])

    def _failure(self, failure: Failure) -> MarkView | None:
        if failure.time is None or not failure.first.comparable:
            return None
        kind = _FAILURES.get(failure.role, "follows")
        text = f"{failure.mode}{failed_where(failure)}"
        line = failure.first.text
        return self._mark(_Marked(kind, failure.time, text, line, failure.ranks))

    def _mark(self, marked: _Marked) -> MarkView:
        return {
            "time": _printed(marked.time),
            "kind": marked.kind,
            "text": marked.text,
            "line": cut(shown_line(marked.line), LONGEST_LINE),
            "ranks": self._ranks.set_of(marked.ranks),
        }

    def _is_near(self, time: float) -> bool:
        if not self._times:
            return True
        begin, end = min(self._times), max(self._times)
        beside = _BESIDE * (end - begin)
        return begin - beside <= time <= end + beside


@dataclass(frozen=True)
class _Marked:
    kind: str
    time: float
    text: str
    line: str
    ranks: Iterable[int]


def _overcome(event: Event, time: float) -> _Marked:
    where = whose(event.ranks, event.first.origin) or (f" on {event.host}" if event.host else "")
    text = f"{event.mode}{where} ({event.outcome})"
    return _Marked("overcome", time, text, event.first.text, event.ranks)


def _order(members: Sequence[Course]) -> tuple[bool, bool, int]:
    """What holds the job up first, then the smallest groups of ranks, then launchers and servers."""
    are_ranks = any(course.who.rank is not None or course.writers for course in members)
    return not members[0].stalled, not are_ranks, len(members)


def _silence(course: Course) -> float:
    return 0.0 if course.ended or course.silent is None else course.silent


def _times_of(course: Course) -> list[float]:
    """When its phases began, and until when it may have been in the last one; nothing without clocks."""
    begins = [stay.begin for stay in course.stays if stay.begin is not None]
    last = course.now.end or 0.0
    return [begins[0], max(last, begins[-1]) + _silence(course)] if begins else []


def _printed(time: float) -> float:
    moment = datetime.fromtimestamp(time).replace(tzinfo=timezone.utc)
    return round(moment.timestamp(), 2)


def _short(values: Iterable[float | None]) -> list[float | None]:
    """Five digits are more than a chart can show."""
    return [None if value is None else float(f"{value:.5g}") for value in values]
