"""In which phase each rank is, since when, and whether its silence is normal for the phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rankdbg.logs.expressions import expression
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.log_lines import Origin, Origins, read_stamp, year_of
from rankdbg.verdicts.rules.log_rules import LogRules, PhaseRule

_PASS_ON = {"driver", "launcher"}
LAUNCHERS = {"torchrun", "ray", "hf"}


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

    @property
    def now(self) -> RankPhase:
        return self.stays[-1]

    @property
    def stalled(self) -> bool:
        """Whether it has written nothing for longer than its phase allows."""
        allowed = self.now.rule.quiet
        return bool(allowed and self.silent is not None and self.silent > allowed)


def courses(scans: Sequence[FileScan], rules: LogRules) -> list[Course]:
    origins, year = Origins(scans), year_of(scans)
    by_process: dict[tuple[object, ...], list[tuple[FileScan, Origin, Hit, PhaseRule]]] = {}
    stacks: dict[str, Counter[str]] = {scan.path: Counter() for scan in scans}
    latest = 0.0
    for scan in scans:
        for hit in scan.hits:
            latest = max(latest, _time(hit, year) or 0.0)
            if hit.pattern.startswith("phase:"):
                rule = rules.phases[int(hit.pattern.partition(":")[2])]
                stacks[scan.path][rule.stack] += 1
                who = origins.of(scan.path, hit)
                # Ray's actors are numbered class by class. What a driver or a launcher passes on
                # is the rank's own.
                role = "" if who.actor in _PASS_ON else who.actor
                key = (who.rank, role) if who.rank is not None else (scan.path, who.actor, who.pid)
                by_process.setdefault(key, []).append((scan, who, hit, rule))
    made = []
    paths = [{line[0].path for line in lines} for lines in by_process.values()]
    in_file = Counter(path for each in paths for path in each)
    for lines in by_process.values():
        lines.sort(key=lambda line: (_time(line[2], year) or 0.0, line[0].path, line[2].offset))
        scan, who, hit, _ = lines[-1]
        who = next((each for _, each, _, _ in reversed(lines) if each.address), who)
        stack = stacks[lines[0][0].path].most_common(1)[0][0]
        stays = _stays([(hit, rule) for _, _, hit, rule in lines], year, stack)
        ended = scan.file is not None and scan.file.ended
        last = _time(hit, year)
        silent = None if ended else _silence(last, scan.now or latest)
        # Others may write into the same file; a file of its own tells of every line.
        own = [line[0].idle for line in lines if in_file[line[0].path] == 1]
        idle = [seconds for seconds in own if seconds is not None]
        if scan.now is not None and not ended and idle:
            silent = min(idle) if silent is None else min(silent, *idle)
        writers = scan.file.ranks if scan.file is not None and who.rank is None else ()
        made.append(Course(who, scan.path, tuple(stays), silent, ended, writers))
    return sorted(
        made, key=lambda course: (course.who.rank is None, course.who.rank or 0, course.path)
    )


def _silence(last: float | None, now: float) -> float | None:
    return max(0.0, now - last) if last is not None and now else None


def _stays(lines: Sequence[tuple[Hit, PhaseRule]], year: int, stack: str) -> list[RankPhase]:
    """Consecutive lines of one phase are one stay; `stack` has most lines of the file."""
    made: list[RankPhase] = []
    for hit, rule in _one_rule_a_line(lines, stack):
        time = _time(hit, year)
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
        made.append(RankPhase(rule, begin, time, rule.ends, step, hit.text, detail))
    return made


def _one_rule_a_line(
    lines: Sequence[tuple[Hit, PhaseRule]], spoke: str
) -> Iterator[tuple[Hit, PhaseRule]]:
    """A line that a framework's rule knows is not a launcher's; of two frameworks that write the
    same (vLLM's and SGLang's bars), it is the one's that spoke before."""
    for _, group in groupby(lines, key=lambda line: (line[0].offset, line[0].text)):
        chosen = min(group, key=lambda line: (line[1].stack in LAUNCHERS, line[1].stack != spoke))
        spoke = chosen[1].stack
        yield chosen


def _told(hit: Hit, rule: PhaseRule) -> tuple[int | None, str]:
    """The step and the detail that a line names."""
    for _, regex in rule.match:
        named = "(?P<" in regex and expression(regex, f"rule {rule.stack}: {rule.phase}")
        if named and (match := named.search(hit.text)):
            groups = match.groupdict()
            return _step(groups.get("step")), groups.get("detail") or ""
    return None, ""


def _step(text: str | None) -> int | None:
    """A user's rule may take any words for a step."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def _time(hit: Hit, year: int) -> float | None:
    return read_stamp(hit.stamp, year) if hit.stamp else None
