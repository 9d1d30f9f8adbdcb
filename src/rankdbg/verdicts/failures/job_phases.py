"""In which phase each rank is, since when, and whether its silence is normal for the phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rankdbg.logs.expressions import expression
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.places import ray_worker
from rankdbg.process.masking import mask_text
from rankdbg.verdicts.failures.clocks import Clocks, has_zone
from rankdbg.verdicts.failures.hosts_of_files import is_kernel_file
from rankdbg.verdicts.failures.log_lines import Origin, Origins, year_of
from rankdbg.verdicts.failures.output_pairs import other_stream
from rankdbg.verdicts.rules.log_rules import LogRules, PhaseRule

_PASS_ON = {"driver", "launcher"}
LAUNCHERS = {"torchrun", "ray", "hf", "bars"}
_NOBODY = Origin()
HOUR = 3600.0
WITH_THE_JOB = 90.0  # seconds within which what watches a job begins with it


@dataclass(frozen=True)
class RankPhase:
    """One phase of one rank."""

    rule: PhaseRule
    begin: float | None
    end: float | None  # the last line that told of it
    over: bool
    step: int | None
    line: str
    detail: str = ""  # what it does there, where the line says it
    every: int = 1  # steps from one line to the next


@dataclass(frozen=True)
class Course:
    """The phases of one process, in the order of its log."""

    who: Origin
    path: str
    stays: tuple[RankPhase, ...]
    # Seconds since it has written anything, while its job runs; else, from its last line to the
    # last line of all.
    silent: float | None
    ended: bool = False  # its process is no longer there
    writers: tuple[int, ...] = ()  # the ranks that share its log, where a line does not say whose
    host: str = ""
    waits: bool = False  # its silence is explained by others, which are further behind

    @property
    def now(self) -> RankPhase:
        return self.stays[-1]

    @property
    def overdue(self) -> bool:
        """Whether it has written nothing for longer than its phase allows."""
        allowed = self.now.rule.quiet
        return bool(allowed and self.silent is not None and self.silent > allowed)

    @property
    def stalled(self) -> bool:
        return self.overdue and not self.waits


@dataclass(frozen=True)
class _Line:
    scan: FileScan
    who: Origin
    hit: Hit
    rule: PhaseRule
    time: float | None


def courses(
    scans: Sequence[FileScan], rules: LogRules, clocks: Clocks | None = None
) -> list[Course]:
    """`clocks`: of the same scans, where they are known already."""
    origins = Origins(scans)
    clocks = clocks or Clocks(scans, rules, origins, year_of(scans))
    by_process: dict[tuple[object, ...], list[_Line]] = {}
    stacks: dict[str, Counter[str]] = {scan.path: Counter() for scan in scans}
    actors = _Actors(scans, origins)
    for scan in scans:
        for hit in scan.hits:
            if hit.pattern.startswith("phase:"):
                rule = rules.phases[int(hit.pattern.partition(":")[2])]
                stacks[scan.path][rule.stack] += 1
                who = actors.of(scan.path) or origins.of(scan.path, hit)
                if who == _NOBODY and actors.are_copied_into(scan.path):
                    who = Origin(actor="driver")
                # Ray's actors are numbered class by class. What a driver or a launcher passes on
                # is the rank's own.
                role = "" if who.actor in _PASS_ON else who.actor
                key = _key(scan.path, who, role)
                # A job that runs is compared with the clocks of its nodes.
                own = (
                    clocks.as_printed(hit.stamp)
                    if scan.now is not None
                    else clocks.time(scan.path, hit)
                )
                by_process.setdefault(key, []).append(_Line(scan, who, hit, rule, own))
    paths = [{line.scan.path for line in lines} for lines in by_process.values()]
    in_file = Counter(path for each in paths for path in each)
    alone = {path for path, processes in in_file.items() if processes == 1}
    latest = _latest(scans, clocks)
    ends = _ends(scans, clocks)
    made = [
        _course(lines, alone, stacks[lines[0].scan.path].most_common(1)[0][0], latest, clocks, ends)
        for lines in by_process.values()
    ]
    return sorted(
        made, key=lambda course: (course.who.rank is None, course.who.rank or 0, course.path)
    )


def _key(path: str, who: Origin, role: str) -> tuple[object, ...]:
    """Of a process."""
    if who.rank is not None:
        return who.rank, role
    if who.pid is not None and who.actor:
        return who.actor, who.pid, who.address
    return path, who.actor, who.pid


class _Actors:
    """Files of Ray's workers whose actor is named by the driver's copies of its lines. Their own
    lines may have the numbers of an engine's ranks, which are not the job's."""

    def __init__(self, scans: Sequence[FileScan], origins: Origins) -> None:
        named: dict[int, set[Origin]] = {}
        workers: dict[str, int] = {}
        alike: dict[int, set[str]] = {}  # processes of several nodes may have one number
        self._drivers: set[str] = set()
        for scan in scans:
            if worker := ray_worker(scan.path.rpartition("/")[2]):
                alike.setdefault(worker[2], set()).add(worker[0])
                if scan.file is None:  # else its actor is known
                    workers[scan.path] = worker[2]
                continue
            for hit in scan.hits:
                if "pid=" in hit.head and hit.pattern.startswith("phase:"):
                    who = origins.of(scan.path, hit)
                    if who.pid is not None and who.actor:
                        named.setdefault(who.pid, set()).add(who)
                        self._drivers.add(scan.path)
        owners = {
            path: named.get(pid, set()) for path, pid in workers.items() if len(alike[pid]) == 1
        }
        self._of_path = {path: next(iter(one)) for path, one in owners.items() if len(one) == 1}

    def of(self, path: str) -> Origin | None:
        return self._of_path.get(path)

    def are_copied_into(self, path: str) -> bool:
        return path in self._drivers


def _latest(scans: Sequence[FileScan], clocks: Clocks) -> float | None:
    """When the last line of all was written, by a clock that can be compared."""
    own = [scan for scan in scans if not is_kernel_file(scan.path)]
    own = [scan for scan in own if clocks.is_tied(scan.path)] or own
    times = [clocks.time_of_stamp(scan.path, scan.last_stamp) for scan in own]
    times += [clocks.time(scan.path, scan.hits[-1]) for scan in own if scan.hits]
    times += _ends_of_monitors(own, clocks)
    return max((time for time in times if time is not None), default=None)


def _ends_of_monitors(scans: Sequence[FileScan], clocks: Clocks) -> list[float]:
    """Of logs that name their zone beside a job that does not: if they begin with the job, whole hours
    away, this is the zone of the job."""
    began = {scan.path: clocks.as_printed(scan.first_stamp) for scan in scans}
    zoned = [scan for scan in scans if has_zone(scan.first_stamp)]
    others = [began[scan.path] for scan in scans if not has_zone(scan.first_stamp)]
    begin = min((time for time in others if time is not None), default=None)
    ends = []
    for scan in zoned:
        first, last = began[scan.path], clocks.as_printed(scan.last_stamp)
        if begin is None or first is None or last is None:
            continue
        zone = round((begin - first) / HOUR) * HOUR
        if abs(begin - first - zone) <= WITH_THE_JOB:
            ends.append(last + zone)
    return ends


def _ends(scans: Sequence[FileScan], clocks: Clocks) -> dict[str, float | None]:
    """When the process of each file has last written, into it or into its other file."""
    own = {scan.path: clocks.time_of_stamp(scan.path, scan.last_stamp) for scan in scans}
    ends = {}
    for path, end in own.items():
        other = own.get(other_stream(path, own))
        ends[path] = max((each for each in (end, other) if each is not None), default=None)
    return ends


def _course(
    lines: list[_Line],
    alone: set[str],
    stack: str,
    latest: float | None,
    clocks: Clocks,
    ends: Mapping[str, float | None],
) -> Course:
    lines.sort(key=lambda line: (line.time or 0.0, line.scan.path, line.hit.offset))
    scan, who = lines[-1].scan, lines[-1].who
    who = next((line.who for line in reversed(lines) if line.who.address), who)
    ended = scan.file is not None and scan.file.ended
    silent = None
    if not ended:
        # Others may write into the same file; a file of its own tells of every line.
        own = [line.scan for line in lines if line.scan.path in alone]
        silent = _silence(lines[-1].time, scan.now or latest)
        if scan.now is not None:
            silent = _least(silent, *(each.idle for each in own))
        elif _has_no_clock(lines[-1], clocks):
            silent = None
        else:
            paths = {each.path for each in own}
            silent = _least(silent, *(_silence(ends[path], latest) for path in paths))
    writers = scan.file.ranks if scan.file is not None and who.rank is None else ()
    stays = tuple(_stays(lines, stack))
    host = clocks.host_of(who, scan.path)
    return Course(who, scan.path, stays, silent, ended, writers, host)


def _has_no_clock(line: _Line, clocks: Clocks) -> bool:
    """Whether it tells of a step, and not when that was: since the last clock there may have been
    thousands."""
    return line.rule.repeats and not clocks.is_exact(line.scan.path, line.hit)


def _silence(last: float | None, now: float | None) -> float | None:
    return max(0.0, now - last) if last is not None and now else None


def _least(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)


def _stays(lines: Sequence[_Line], stack: str) -> list[RankPhase]:
    """Consecutive lines of one phase are one stay; `stack` has most lines of the file."""
    made: list[RankPhase] = []
    for line in _one_rule_a_line(lines, stack):
        hit, rule, time = line.hit, line.rule, line.time
        last = made[-1] if made else None
        if (
            last
            and (last.rule.stack, last.rule.phase) == (rule.stack, rule.phase)
            and not last.over
        ):
            begin = last.begin
            made.pop()
        else:
            begin = time if last is None or last.over or not rule.ends else last.begin
        step, detail = _told(hit, rule)
        every = _every(last, step) if rule.repeats else 1
        made.append(RankPhase(rule, begin, time, rule.ends, step, hit.text, detail, every))
    return made


def _every(last: RankPhase | None, step: int | None) -> int:
    if last is None or last.step is None or step is None or step <= last.step:
        return last.every if last is not None else 1
    return step - last.step


def _one_rule_a_line(lines: Iterable[_Line], spoke: str) -> Iterator[_Line]:
    """A line that a framework's rule knows is not a launcher's; of two frameworks that write the
    same (vLLM's and SGLang's bars), it is the one's that spoke before."""
    for _, group in groupby(lines, key=lambda line: (line.hit.offset, line.hit.text)):
        chosen = min(
            group, key=lambda line: (line.rule.stack in LAUNCHERS, line.rule.stack != spoke)
        )
        spoke = chosen.rule.stack
        yield chosen


def _told(hit: Hit, rule: PhaseRule) -> tuple[int | None, str]:
    """The step and the detail that a line names."""
    for _, regex in rule.match:
        named = "(?P<" in regex and expression(regex, f"rule {rule.stack}: {rule.phase}")
        if named and (match := named.search(hit.text)):
            groups = match.groupdict()
            return _step(groups.get("step")), mask_text(groups.get("detail") or "")
    return None, ""


def _step(text: str | None) -> int | None:
    """A user's rule may take any words for a step."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
