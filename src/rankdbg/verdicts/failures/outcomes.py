"""What became of each event: overcome, handled, another job's, or fatal.

Only what was not overcome can be a cause. A job that goes on with its steps after an event has
survived it, a retry that went through has undone it, and what a kernel logged days before the job
began belongs to another one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from rankdbg.logs.expressions import expression
from rankdbg.logs.kinds import normalised
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.clocks import Clocks, step_hits, step_of
from rankdbg.verdicts.failures.earlier_runs import earlier_runs, first_stamp
from rankdbg.verdicts.failures.events import Event, attempt_of
from rankdbg.verdicts.failures.findings import PYTHON_ERROR, Finding
from rankdbg.verdicts.failures.foreign_events import ForeignEvents
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file
from rankdbg.verdicts.failures.identities import Identities, Identity
from rankdbg.verdicts.failures.subjects import pod_in
from rankdbg.verdicts.failures.tracebacks import GOES_ON
from rankdbg.verdicts.failures.values import GRADIENTS, LOSS, is_bad
from rankdbg.verdicts.rules import clues
from rankdbg.verdicts.rules.log_rules import LogRules, RecoveryRule

_USUAL = ("phase:", clues.PROGRESS)  # patterns of lines that a process in good health writes
_NUMBER = re.compile(r"\d{1,18}$")  # a user's own rule may name a step otherwise
MOST_LATER = 1000  # lines among which one of the same process is looked for
LEAST_FINISHED = 2  # ranks that say so: one alone may speak for all
STEPS_AFTER = 2  # different ones, before a job counts as running again
SOON = 20.0  # seconds: lines of others are written so much later, though nothing goes on
# A process that writes so long after an exception has caught it.
LIVES_ON = 60.0
BELOW = 60  # lines of one message


@dataclass(frozen=True)
class LoggedStep:
    """A line that says that a step is done."""

    path: str
    offset: int
    rank: int | None
    step: str
    time: float | None
    comparable: bool
    text: str = ""
    exact: bool = True  # whether the line has a clock of its own

    @property
    def step_number(self) -> int | None:
        """None: the step is not a number."""
        return int(self.step) if _NUMBER.match(self.step) else None


@dataclass(frozen=True)
class Recovery:
    rule: RecoveryRule
    path: str
    offset: int
    writer: Identity
    time: float | None
    text: str


class Outcomes:
    def __init__(
        self, scans: Sequence[FileScan], rules: LogRules, identities: Identities, clocks: Clocks
    ) -> None:
        self._scans = {scan.path: scan for scan in scans}
        self._identities = identities
        self._clocks = clocks
        self.progress: list[LoggedStep] = []
        self._recoveries: list[Recovery] = []
        self._earlier_runs = earlier_runs(scans, clocks)
        for scan in scans:
            if scan.path in self._earlier_runs:
                continue
            for hit in step_hits(scan, len(scans), rules):
                if step := step_of(hit, rules):
                    self.progress.append(self._progress(scan, hit, step[1]))
            for hit in scan.hits:
                if hit.pattern.startswith("recovery:"):
                    self._recoveries.append(self._recovery(scan, hit, rules))
        self._recoveries = self._with_ends(self._recoveries)
        self.begin, self.end = self._window(scans)
        self._steps = _Steps((s.time, s.step) for s in self.progress if s.comparable)
        self._steps_of_file = _steps_by_file(self.progress)
        self._without_clock = _steps_by_file(done for done in self.progress if not done.exact)
        self._steps_of_attempt: dict[int, set[str]] = {}
        for done in self.progress:
            if (attempt := attempt_of(done.path)) is not None:
                self._steps_of_attempt.setdefault(attempt, set()).add(done.step)

    @property
    def last_step(self) -> float | None:
        """When the job did it."""
        times = (s.time for s in self.progress if s.comparable and s.time is not None)
        return max(times, default=None)

    @property
    def finished(self) -> bool:
        """Whether the job says so."""
        return any("*" in recovery.rule.of for recovery in self._recoveries)

    @property
    def last_good_step(self) -> int | None:
        """The last one whose values are numbers on every rank."""
        steps: dict[int, bool] = {}
        for done in self.progress:
            if done.step_number is not None and (bad := is_bad(done.text)) is not None:
                steps[done.step_number] = steps.get(done.step_number, False) or bad
        return max((step for step, bad in steps.items() if not bad), default=None)

    def of(self, events: Iterable[Event]) -> list[Event]:
        events = [*events]
        foreign = ForeignEvents(
            events, self._identities, self._scans, self._earlier_runs, self.begin, self.end
        )
        judged = [self._refined(self._judged(event, foreign)) for event in events]
        judged = foreign.without_strangers(judged)
        judged = _since_the_first_attempt(judged)
        judged = self._in_vain_attempts(judged)
        judged = self._as_before(judged)
        if any(event.tier and event.outcome == "fatal" for event in judged):
            return judged
        return [self._repeated(event) for event in judged]

    def made_steps_at(self, events: Sequence[Event]) -> bool:
        """Whether the job's last step is about as new as the last of these."""
        times = [event.last_time for event in events]
        last = self.last_step
        known = [time for time in times if time is not None]
        return last is not None and len(known) == len(times) and last >= max(known) - SOON

    def are_being_repeated(self, events: Sequence[Event]) -> bool:
        """Whether these are attempts that processes will make again, while another process of the
        job, which waits for nothing, continues."""
        times = [event.time for event in events if event.is_attempt and event.time is not None]
        if len(times) < len(events):
            return False
        paths = {finding.path for event in events for finding in event.findings}
        ends = (
            self._clocks.time_of_stamp(scan.path, scan.last_stamp)
            for scan in self._scans.values()
            if scan.path not in paths and not is_kernel_file(scan.path)
        )
        return any(end is not None and end > min(times) + LIVES_ON for end in ends)

    # --- what the logs tell -----------------------------------------------------------------

    def _progress(self, scan: FileScan, hit: Hit, step: str) -> LoggedStep:
        rank = self._identities.rank_of_line(scan.path, hit)
        comparable = self._clocks.is_comparable(scan.path, hit)
        time = self._clocks.time(scan.path, hit)
        exact = self._clocks.is_exact(scan.path, hit)
        return LoggedStep(scan.path, hit.offset, rank, step, time, comparable, hit.text, exact)

    def _recovery(self, scan: FileScan, hit: Hit, rules: LogRules) -> Recovery:
        rule = rules.recoveries[int(hit.pattern.partition(":")[2])]
        writer = self._identities.speaker(scan.path, hit)
        time = self._clocks.time(scan.path, hit)
        return Recovery(rule, scan.path, hit.offset, writer, time, hit.text)

    def _with_ends(self, recoveries: Sequence[Recovery]) -> list[Recovery]:
        """What single processes say of their own end is the job's if most ranks, or nothing but
        launchers, say so, and do no step after it."""
        ends = [recovery for recovery in recoveries if _is_own_end(recovery)]
        others = [recovery for recovery in recoveries if not _is_own_end(recovery)]
        last: dict[str, int] = {}
        for done in self.progress:
            last[done.path] = max(done.offset, last.get(done.path, 0))
        ended = [r for r in ends if r.offset > last.get(r.path, -1)]
        ranks = {r.writer.rank for r in ended} - {None}
        trained = {done.rank for done in self.progress} - {None} or self._identities.ranks
        of_job = len(ranks & trained) * 2 > len(trained) if trained else len(ended) == len(ends)
        kept = [replace(r, rule=replace(r.rule, where="job")) for r in ended] if of_job else []
        return [*others, *kept]

    def _window(self, scans: Sequence[FileScan]) -> tuple[float | None, float | None]:
        """When the job's own logs begin and end."""
        own = [scan for scan in scans if not is_kernel_file(scan.path)]
        begins = (self._clocks.time_of_stamp(scan.path, first_stamp(scan)) for scan in own)
        ends = (self._clocks.time_of_stamp(scan.path, scan.last_stamp) for scan in own)
        return (
            min((time for time in begins if time is not None), default=None),
            max((time for time in ends if time is not None), default=None),
        )

    # --- what became of one -----------------------------------------------------------------

    def _judged(self, event: Event, foreign: ForeignEvents) -> Event:
        if why := foreign.why(event):
            return replace(event, outcome="foreign", why=why)
        if event.first.calm:
            return replace(event, outcome="handled", why=event.first.calm)
        if self._alone_did_not_finish(event):
            return event
        for recovery in self._recoveries:
            if self._is_recovery(recovery, event):
                return replace(event, outcome="recovered", why=recovery.text.strip())
            if event.tier and "*" in recovery.rule.of and self._is_before(recovery, event):
                return replace(event, outcome="handled", why="the job had finished before")
        if event.mode in (LOSS, GRADIENTS) and self._ended_badly(event):
            return event
        if steps := self._steps_after(event):
            unit = "epoch" if "." in steps else "step"
            why = f"the job continued: {unit} {steps} followed"
            return replace(event, outcome="recovered", why=why)
        if why := self._handled(event):
            return replace(event, outcome="handled", why=why)
        return event

    def _alone_did_not_finish(self, event: Event) -> bool:
        """Where several ranks say that they have finished, one that had trained like them, and has
        failed, has not: others did not need it to go on."""
        if len(event.ranks) != 1 or event.tier > 1:
            return False
        (rank,) = event.ranks
        finished = {r.writer.rank for r in self._recoveries if "*" in r.rule.of} - {None}
        trained = any(done.rank == rank for done in self.progress)
        return len(finished) >= LEAST_FINISHED and rank not in finished and trained

    def is_over(self, finding: Finding) -> bool:
        """Whether the log that has the finding says later that it is over."""
        return any(
            recovery.path == finding.path
            and recovery.offset > finding.offset
            and finding.mode in recovery.rule.of
            and _names_the_same(recovery, finding)
            for recovery in self._recoveries
        )

    def _is_recovery(self, recovery: Recovery, event: Event) -> bool:
        rule, last = recovery.rule, event.findings[-1]
        if event.mode not in rule.of and "*" not in rule.of:
            return False
        if not _names_the_same(recovery, last):
            return False
        if rule.where == "process" and not _is_same_process(recovery, event):
            return False
        if rule.where == "host" and recovery.writer.host != event.first.writer.host:
            return False
        pod, own = (
            pod_in(line.text) or self._identities.described_pod(line.path, line.offset)
            for line in (recovery, last)
        )
        if pod and own and pod != own:
            return False
        if recovery.path == last.path:
            return recovery.offset > last.offset
        if "*" in rule.of and last.time is None and event.rule.role == "teardown":
            return True  # whenever it was: the end of a job that says that it has finished
        if "*" in rule.of and is_kernel_file(last.path) and not last.zoned:
            return True  # whatever the kernel's clock: the job says that it has finished
        if recovery.time is None or last.time is None or not last.comparable:
            return False
        return recovery.time > last.time

    def _is_before(self, recovery: Recovery, event: Event) -> bool:
        first = event.first
        if recovery.path == first.path:
            return recovery.offset < first.offset
        known = recovery.time is not None and first.time is not None and first.comparable
        # Of a line without a clock, the one above it says not before when it was written.
        is_sure = first.exact or event.tier >= 2
        return known and is_sure and (recovery.time or 0.0) < (first.time or 0.0)

    def _steps_after(self, event: Event) -> str:
        """The last step that was done when it was over; `` if they are too few to tell."""
        for attempt, done in self._steps_of_attempt.items():
            if event.attempt is not None and attempt > event.attempt and len(done) >= STEPS_AFTER:
                return max(done, key=float)
        last = event.findings[-1]
        # Lines without clocks are in the order of their file, whatever the next clock says.
        beside = self._without_clock.get(last.path)
        if not last.exact and beside and (step := beside.after(last.offset)):
            return step
        ended = _end_of(event)
        if event.comparable and ended is not None:
            return self._steps.after(ended + SOON)
        own = self._steps_of_file.get(last.path)
        return own.after(last.offset) if own else ""

    def _refined(self, event: Event) -> Event:
        """A rank that did a step had not failed before that."""
        first = event.first
        if first.exact or first.time is None or len(event.ranks) != 1 or event.tier > 1:
            return event
        own = [
            step.time
            for step in self.progress
            if step.rank == event.ranks[0]
            and step.time is not None
            and step.comparable
            and step.time > first.time
            and (first.until is None or step.time < first.until)
        ]
        return replace(event, since=max(own)) if own else event

    def _as_before(self, judged: Sequence[Event]) -> list[Event]:
        """What a process has survived before, and after which it goes on as usual, it has survived:
        an error of one request to a server, a text that a job prints again and again. If something
        has ended, only where the lines name the process."""
        survived = {
            _same_text(event) for event in judged if event.outcome in ("recovered", "handled")
        }
        ended = any(event.tier and event.outcome == "fatal" for event in judged)
        return [
            replace(event, outcome="handled", why="its process went on, as after the same before")
            if event.outcome == "fatal"
            and _same_text(event) in survived
            and (not ended or (event.mode == PYTHON_ERROR and event.first.writer.pid is not None))
            and self._goes_on_after(event)
            else event
            for event in judged
        ]

    def _goes_on_after(self, event: Event) -> bool:
        """Whether its process has written a usual line after it, and nothing has been started again."""
        last = event.findings[-1]
        scan = self._scans.get(last.path)
        if scan is None or event.attempt is not None:
            return False
        later = (h for h in reversed(scan.hits) if h.offset > last.offset)
        usual = islice((hit for hit in later if hit.pattern.startswith(_USUAL)), MOST_LATER)
        pid = last.writer.pid
        return any(self._identities.speaker(scan.path, hit).pid == pid for hit in usual)

    def _in_vain_attempts(self, judged: Sequence[Event]) -> list[Event]:
        """What has ended two attempts of an elastic launcher in the same way was not overcome by an
        attempt that did not come as far, whatever has ended that."""
        attempts: dict[tuple[object, ...], set[int]] = {}
        for event in judged:
            if event.attempt is not None and event.tier == 0:
                attempts.setdefault(_same_in_attempts(event), set()).add(event.attempt)
        return [
            replace(event, outcome="fatal", why="")
            if event.outcome == "recovered"
            and len(ended := attempts.get(_same_in_attempts(event), set())) > 1
            and not self._came_further(max(ended))
            else event
            for event in judged
        ]

    def _came_further(self, attempt: int) -> bool:
        """Whether a later attempt has done a step that the attempts up to this one have not."""
        done = {
            number: max((int(step) for step in steps if _NUMBER.match(step)), default=0)
            for number, steps in self._steps_of_attempt.items()
        }
        before = max((step for number, step in done.items() if number <= attempt), default=0)
        return any(step > before for number, step in done.items() if number > attempt)

    def _ended_badly(self, event: Event) -> bool:
        """Whether the last steps, of its rank if these are known, have values that are no numbers."""
        told = [s for s in self.progress if s.time is not None and is_bad(s.text) is not None]
        own = [step for step in told if step.rank in event.ranks] or told
        return bool(own) and bool(is_bad(max(own, key=lambda step: step.time or 0.0).text))

    def _repeated(self, event: Event) -> Event:
        """A process that raises the same error again, minutes later, has caught it before (its lines
        name its pid, or the job does steps: it is not started again and again), and a job that has
        done steps since has survived it; if nothing has ended, so it was the last time, too."""
        times = [finding.time for finding in event.findings if finding.time is not None]
        if event.outcome == "fatal" and event.comparable and times:
            first = min(times)
            if max(times) > first + LIVES_ON and (step := self._steps.between(first, max(times))):
                return replace(
                    event, outcome="handled", why=f"the job did step {step} after the first"
                )
        texts = {finding.text for finding in event.findings}
        if event.mode != PYTHON_ERROR or event.outcome != "fatal" or len(texts) >= len(times):
            return event
        pids = {finding.writer.pid for finding in event.findings}
        is_one = len(pids) == 1 and None not in pids
        if not times or max(times) - min(times) <= LIVES_ON or not (self.progress or is_one):
            return event
        return replace(event, outcome="handled", why="its process went on, and raised it again")

    def _handled(self, event: Event) -> str:
        last = event.findings[-1]
        for line in last.after:
            if GOES_ON.search(line):
                return line.strip()
        scan = self._scans.get(last.path)
        if scan is None or last.time is None:
            return ""
        # What lacks a library or a right ends at once, too, if it has not caught the error.
        if event.mode != PYTHON_ERROR and event.rule.kind != "env":
            return ""
        if self._identities.writers(last.path) == 1:
            end = self._clocks.time_of_stamp(last.path, scan.last_stamp)
        else:
            # A launcher's or driver's log goes on when the process is dead.
            end = self._last_sign(scan, last.writer)
        # Threads may write for a while after an exception; where a module is missing, none runs yet.
        enough = LIVES_ON if event.mode == PYTHON_ERROR else SOON
        return "its process went on" if end is not None and end > last.time + enough else ""

    def _last_sign(self, scan: FileScan, writer: Identity) -> float | None:
        """When a process that its lines name has last written one of its usual lines."""
        if writer.pid is None:
            return None
        usual = (hit for hit in reversed(scan.hits) if hit.pattern.startswith(_USUAL))
        own = (h for h in usual if self._identities.speaker(scan.path, h).pid == writer.pid)
        last = next(own, None)
        return self._clocks.time(scan.path, last) if last else None


def _since_the_first_attempt(judged: Sequence[Event]) -> list[Event]:
    """An elastic launcher starts the ranks again. What has ended the last attempt too was not
    overcome by that: it has failed since the first attempt that it ended."""
    last = {
        (e.mode, e.ranks): e.attempt or 0 for e in judged if e.outcome == "fatal" and e.tier < 2
    }
    return [
        replace(event, outcome="fatal", why="")
        if event.outcome == "recovered"
        and event.attempt is not None
        and event.attempt < last.get((event.mode, event.ranks), 0)
        else event
        for event in judged
    ]


def _same_in_attempts(event: Event) -> tuple[object, ...]:
    """Equal for the same failure of one rank, which may run on another host in each attempt."""
    return event.mode, event.ranks, normalised(event.first.text)


def _same_text(event: Event) -> tuple[str, str]:
    return event.mode, normalised(event.first.text)


def _end_of(event: Event) -> float | None:
    """Not after this. What stands just below a line with a clock, at the end of a file, was written
    with it: a launcher's message, and its traceback."""
    last = event.findings[-1]
    if last.exact or last.until is not None:
        return last.time if last.exact else last.until
    above = [
        finding.time
        for finding in event.findings
        if finding.exact and finding.path == last.path and 0 <= last.line - finding.line <= BELOW
    ]
    return max((time for time in above if time is not None), default=None)


def _steps_by_file(progress: Iterable[LoggedStep]) -> dict[str, _Steps]:
    places: dict[str, list[tuple[float | None, str]]] = {}
    for done in progress:
        places.setdefault(done.path, []).append((done.offset, done.step))
    return {path: _Steps(steps) for path, steps in places.items()}


class _Steps:
    """Steps by time, or by their places in a file."""

    def __init__(self, steps: Iterable[tuple[float | None, str]]) -> None:
        known = sorted((place, step) for place, step in steps if place is not None)
        self._first = sorted({step: place for place, step in reversed(known)}.values())
        last = {step: place for place, step in known}
        self._last = sorted((place, step) for step, place in last.items())

    def between(self, start: float, end: float) -> str:
        """The last of the new steps in this time; `` if there are too few."""
        first, last = bisect_right(self._first, start + SOON), bisect_right(self._first, end)
        done = bisect_right(self._last, (end, "\uffff"))
        return self._last[done - 1][1] if last - first >= STEPS_AFTER and done else ""

    def after(self, place: float) -> str:
        """The last of the steps after this; `` if there are too few to say that a job went on."""
        new = len(self._first) - bisect_right(self._first, place)
        done = len(self._last) - bisect_right(self._last, (place, "\uffff"))
        return self._last[-1][1] if new >= STEPS_AFTER or done > 2 * STEPS_AFTER else ""


def _names_the_same(recovery: Recovery, finding: Finding) -> bool:
    """Unless the lines name different things: one file server is back, another is not."""
    if not recovery.rule.same:
        return True
    same = expression(recovery.rule.same, "recovery: same")
    found = [same.search(text) for text in (recovery.text, finding.text)]
    named = {each["what"] for each in found if each}
    return len(named) < 2


def _is_own_end(recovery: Recovery) -> bool:
    return "*" in recovery.rule.of and recovery.rule.where == "process"


def _is_same_process(recovery: Recovery, event: Event) -> bool:
    writer = event.first.writer
    if recovery.writer.rank is not None and writer.rank is not None:
        return recovery.writer.rank == writer.rank
    pids = {recovery.writer.pid, writer.pid}
    # Ray's driver copies the lines of all actors; a container's log is of one server.
    copied = recovery.text.startswith("(") and event.first.text.startswith("(")
    if copied and None not in pids and len(pids) > 1:
        return False
    return recovery.path == event.first.path
