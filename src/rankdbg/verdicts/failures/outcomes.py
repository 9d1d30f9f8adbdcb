"""What became of each event: overcome, handled, another job's, or fatal.

Only what was not overcome can be a cause. A job that goes on with its steps after an event has
survived it, a retry that went through has undone it, and what a kernel logged days before the job
began belongs to another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from rankdbg.logs.kinds import normalised
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.clocks import Clocks, step_hits, step_of
from rankdbg.verdicts.failures.done_steps import (
    SOON,
    STEPS_AFTER,
    LoggedStep,
    StepOrder,
    furthest,
    orders_in_files,
)
from rankdbg.verdicts.failures.earlier_runs import earlier_runs, first_stamp
from rankdbg.verdicts.failures.events import Event, attempt_of
from rankdbg.verdicts.failures.findings import PYTHON_ERROR, Finding
from rankdbg.verdicts.failures.foreign_events import ForeignEvents
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file
from rankdbg.verdicts.failures.identities import Identities, Identity
from rankdbg.verdicts.failures.recoveries import Recoveries
from rankdbg.verdicts.failures.runs_in_logs import RunsInLogs
from rankdbg.verdicts.failures.subjects import node_in
from rankdbg.verdicts.failures.tracebacks import GOES_ON
from rankdbg.verdicts.failures.values import GRADIENTS, LOSS, is_bad
from rankdbg.verdicts.rules import clues
from rankdbg.verdicts.rules.log_rules import LogRules

_USUAL = ("phase:", clues.PROGRESS)  # patterns of lines that a process in good health writes
MOST_LATER = 1000  # lines among which one of the same process is looked for
LEAST_FINISHED = 2  # ranks that say so: one alone may speak for all
# A process that writes so long after an exception has caught it.
LIVES_ON = 60.0
BELOW = 60  # lines of one message


class Outcomes:
    def __init__(
        self, scans: Sequence[FileScan], rules: LogRules, identities: Identities, clocks: Clocks
    ) -> None:
        self._scans = {scan.path: scan for scan in scans}
        self._identities = identities
        self._clocks = clocks
        self._earlier_runs = earlier_runs(scans, clocks)
        own = [scan for scan in scans if scan.path not in self._earlier_runs]
        self.progress = [
            self._progress(scan, hit, step[1])
            for scan in own
            for hit in step_hits(scan, len(scans), rules)
            if (step := step_of(hit, rules))
        ]
        self._recoveries = Recoveries(own, rules, identities, clocks, self.progress)
        self._runs = RunsInLogs(own, rules, identities, clocks)
        self.begin, self.end = self._window(scans)
        self._steps = StepOrder((s.time, s.step) for s in self.progress if s.comparable)
        self._steps_of_file = orders_in_files(self.progress)
        self._without_clock = orders_in_files(done for done in self.progress if not done.exact)
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
        return self._recoveries.finished

    def is_over(self, finding: Finding) -> bool:
        """Whether the log that has the finding says later that it is over."""
        return self._recoveries.is_over(finding)

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
        judged = self._runs.without_earlier(judged)
        judged = self._without_unknown_nodes(judged)
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

    def _without_unknown_nodes(self, judged: list[Event]) -> list[Event]:
        """Kubernetes tells of all nodes of a cluster. What was killed on one of which nothing else is
        known was not this job's, if the job does steps and nothing of it has failed."""
        fatal = [event for event in judged if event.outcome == "fatal"]
        if not self.progress or not all(map(self._is_kill_on_unknown_node, fatal)):
            return judged
        why = "a node on which nothing of this job is known to run"
        return [
            replace(event, outcome="foreign", why=why) if event.outcome == "fatal" else event
            for event in judged
        ]

    def _is_kill_on_unknown_node(self, event: Event) -> bool:
        nodes = {node_in(finding.text) for finding in event.findings}
        is_known = "" in nodes or any(map(self._identities.is_at_work, nodes))
        return event.rule.kind == "host_memory" and not is_known

    # --- what the logs tell -----------------------------------------------------------------

    def _progress(self, scan: FileScan, hit: Hit, step: str) -> LoggedStep:
        rank = self._identities.rank_of_line(scan.path, hit)
        comparable = self._clocks.is_comparable(scan.path, hit)
        time = self._clocks.time(scan.path, hit)
        exact = self._clocks.is_exact(scan.path, hit)
        return LoggedStep(scan.path, hit.offset, rank, step, time, comparable, hit.text, exact)

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
        if told := self._recoveries.outcome_of(event):
            return replace(event, outcome=told[0], why=told[1])
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
        finished = self._recoveries.finished_ranks
        trained = any(done.rank == rank for done in self.progress)
        return len(finished) >= LEAST_FINISHED and rank not in finished and trained

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
        done = {number: furthest(steps) for number, steps in self._steps_of_attempt.items()}
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
