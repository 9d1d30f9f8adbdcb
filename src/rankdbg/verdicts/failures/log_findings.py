"""What the scans of log files found: one finding for each line that a rule knows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rankdbg.logs.expressions import expression
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.aged_events import latest
from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.findings import PYTHON_ERROR, Finding, HarmlessFinding
from rankdbg.verdicts.failures.identities import Identities, Identity
from rankdbg.verdicts.failures.log_lines import CLOCK, Origins, year_of
from rankdbg.verdicts.failures.output_pairs import OutputPairs
from rankdbg.verdicts.failures.same_events import (
    by_one_clock,
    by_victim,
    joined,
    sent_by_launcher,
    told_apart,
    with_places,
    with_victims,
)
from rankdbg.verdicts.failures.slurm_records import NODE_DOWN, NODE_FAILED, tells_of_lost_node
from rankdbg.verdicts.failures.subjects import is_aged, read_subject
from rankdbg.verdicts.failures.tracebacks import (
    Traceback,
    calm_line,
    is_ignored,
    label_of,
    own_lines_after,
    rank_told,
    read_raised,
    read_traceback,
    was_logged,
)
from rankdbg.verdicts.rules import clues
from rankdbg.verdicts.rules.log_rules import TRACEBACK, FailureRule, LogRules

AFTER_ERROR = 3  # lines after a traceback, which may say that it is of no importance
_CLOCK = re.compile(CLOCK)
# Errors that a process gets because another has ended.
_OF_OTHERS = re.compile(
    r"\b(Dist(Backend|Network|Store)Error|BrokenPipeError|ConnectionResetError|EOFError"
    r"|HorovodInternalError)\b"
)

# A process that ends itself, or a request of which its client has lost interest.
_IS_NO_FAILURE = re.compile(
    r"SystemExit|KeyboardInterrupt|GeneratorExit|(asyncio\.(exceptions\.)?|concurrent\.futures\.(_base\.)?)"
    r"?CancelledError\b"
)

_JUDGED = ("failure:", "harmless:")  # patterns of lines that are failures, or only look like it

# What an agent says of a stop has the text of the exception in it, and is not the failure.
_OWN_LINE = re.compile(r"\brankdbg: (rank \d+|this process) (has stopped|is stopped|goes on)\b")

# What Slurm writes behind a line of a rank that has no end yet.
_BEHIND = re.compile(r"(?<=\S)(?:slurmstepd\S{0,60}|srun): error: ")

_Tracebacks = Sequence[tuple[Hit, Traceback]]


class LogFindings:
    """All failures and harmless lines of some files, those that say the same joined."""

    def __init__(self, scans: Sequence[FileScan], rules: LogRules, origins: Origins) -> None:
        self._rules = rules
        self._origins = origins
        self._year = year_of(scans)
        self.identities = Identities(scans, origins)
        self.clocks = Clocks(scans, rules, origins, self._year, self.identities)
        self.harmless: list[HarmlessFinding] = []
        self.failures: list[Finding] = []
        pairs = OutputPairs(scans, self.clocks)
        for scan in scans:
            self.failures += pairs.timed(scan, joined(self._of_file(scan)))
        self.failures = told_apart(sent_by_launcher(self.failures, rules), rules)
        self.failures = [self._of_lost_node(finding) for finding in self.failures]

    def _of_lost_node(self, finding: Finding) -> Finding:
        """That a node is down may mean many things; that Slurm has lost one on which ranks ran, one."""
        lost = self._rules.failures.get(NODE_FAILED)
        is_lost = finding.mode == NODE_DOWN and tells_of_lost_node(finding.text)
        if not lost or not is_lost or finding.host not in self.identities.own_hosts:
            return finding
        return replace(finding, rule=lost)

    def _of_file(self, scan: FileScan) -> list[Finding]:
        found: list[Finding] = []
        calmed: set[tuple[str, int]] = set()
        lines: dict[int, list[Hit]] = {}
        for hit in scan.hits:
            if hit.pattern.startswith(_JUDGED) and not _OWN_LINE.search(hit.text):
                lines.setdefault(hit.offset, []).append(hit)
        for hits in lines.values():
            calm = [hit for hit in hits if hit.pattern.startswith("harmless:")]
            for hit in calm:
                rule = self._rules.harmless[hit.pattern.removeprefix("harmless:")]
                self.harmless.append(HarmlessFinding(rule.mode, hit.text, rule.cause))
                calmed |= {(mode, hit.line - back) for mode in rule.calms for back in range(3)}
            if not calm:
                found += [
                    self._finding(scan, hit, self._rules.failures[hit.pattern.partition(":")[2]])
                    for hit in hits
                    if hit.pattern.startswith("failure:")
                ]
        tracebacks = [
            (hit, traceback)
            for hit in scan.hits
            if hit.pattern == TRACEBACK and (traceback := read_traceback(hit))
        ]
        # What a program would say if it failed is no message.
        code = {line for _, traceback in tracebacks for line in traceback.code}
        found = [
            finding
            for finding in found
            if (finding.mode, finding.line) not in calmed and finding.line not in code
        ]
        found += self._errors(scan, found, tracebacks)
        found = self._with_next_lines(scan, found, tracebacks)
        found = self._of_tracebacks(scan, found, tracebacks)
        found = by_one_clock(sorted(found, key=lambda finding: finding.line))
        return self._with_ends(scan, with_places(by_victim(with_victims(found))))

    def _with_next_lines(
        self, scan: FileScan, findings: list[Finding], tracebacks: _Tracebacks
    ) -> list[Finding]:
        """What the same process wrote just after a traceback says what became of it, and when."""
        made = []
        for finding in findings:
            inside = [t for t in tracebacks if t[1].first <= finding.line <= t[1].last]
            if inside and not finding.exact:
                hit, traceback = inside[-1]
                after = own_lines_after(hit, traceback)
                stamp = next((found[0] for line in after if (found := _CLOCK.search(line))), "")
                until = self.clocks.time_of_stamp(scan.path, stamp)
                finding = replace(finding, after=after[:AFTER_ERROR], until=until)
            if inside:
                calm = calm_line(inside[-1][0])
                finding = replace(finding, calm=calm, uncaught=not calm)
            made.append(finding)
        return made

    def _of_tracebacks(
        self, scan: FileScan, findings: list[Finding], tracebacks: _Tracebacks
    ) -> list[Finding]:
        """Only the first line of a traceback may say whose it is."""
        findings = self._of_ranks_told(findings, tracebacks)
        if all(finding.writer.rank is not None for finding in findings):
            return findings
        spoken = []
        for hit, traceback in tracebacks:
            writer = self.identities.speaker(scan.path, hit)
            if writer.rank is not None:
                spoken.append((traceback.first, traceback.last, writer))
        made = []
        for finding in findings:
            inside = [w for first, last, w in spoken if first <= finding.line <= last]
            if inside and finding.writer.rank is None and not finding.ranks:
                finding = _written_by(inside[-1], finding)
            made.append(finding)
        return made

    def _of_ranks_told(self, findings: list[Finding], tracebacks: _Tracebacks) -> list[Finding]:
        """What a process prints of another rank's exception is about that rank."""
        told = [
            (traceback, rank)
            for hit, traceback in tracebacks
            if (rank := rank_told(hit)) is not None
        ]
        made = []
        for finding in findings:
            inside = [rank for t, rank in told if t.first <= finding.line <= t.last]
            if inside and not finding.rule.about:
                host = self.identities.host_of_rank(inside[-1])
                finding = replace(finding, ranks=(inside[-1],), host=host or finding.host)
            made.append(finding)
        return made

    def _with_ends(self, scan: FileScan, findings: list[Finding]) -> list[Finding]:
        """The next clock of the file, for lines that have none of their own."""
        if all(finding.exact for finding in findings):
            return findings
        stamped = [
            (hit.offset, time)
            for hit in scan.hits
            if hit.stamp and hit.stamp in f"{hit.head} {hit.text}"
            if (time := self.clocks.time(scan.path, hit)) is not None
        ]
        last = self.clocks.time_of_stamp(scan.path, scan.last_stamp)
        if last is not None:
            stamped = [
                *(s for s in stamped if s[0] < scan.last_stamp_at),
                (scan.last_stamp_at, last),
            ]
        offsets = [offset for offset, _ in stamped]
        made = []
        for finding in findings:
            after = bisect_right(offsets, finding.offset)
            if is_aged(finding.text) and finding.time is not None:
                finding = replace(finding, until=latest(finding.text, finding.time))
            # Descriptions and tables of Kubernetes are in no order of time.
            untimed = is_aged(finding.text) or self.identities.described_pod(
                scan.path, finding.offset
            )
            is_open = not finding.exact and finding.until is None and not untimed
            if is_open and after < len(stamped):
                until = stamped[after][1]
                # Of two hosts that write to one file, one clock may be behind the other.
                if finding.time is None or until >= finding.time:
                    finding = replace(finding, until=until)
            made.append(finding)
        return made

    def _finding(self, scan: FileScan, hit: Hit, rule: FailureRule) -> Finding:
        hit = _of_slurm_alone(hit)
        origin = self._origins.of(scan.path, hit)
        if rule.file_mode in self._rules.failures and re.search(rule.file, scan.path):
            rule = self._rules.failures[rule.file_mode]
        texts = [*hit.before, hit.text, *hit.after]
        task = clues.find(clues.SLURM_TASKS, hit.text)
        is_agent = task is not None and self.identities.tasks_are_agents
        named = _ranks_named(rule, texts) if rule.rank and not is_agent else ()
        writer = self.identities.speaker(scan.path, hit)
        about = read_subject(rule, hit.text, writer, self.identities)
        # Of a host that has failed, no rank that only tells of it.
        own = about.rank if about.told else None if rule.of_host else writer.rank
        ranks = named or (() if own is None else (own,))
        host = about.host
        if named and not about.told:
            host = self.identities.host_of_rank(named[0]) or host
        if task is not None:
            host = task["host"]
        if not ranks and host in self.identities.rank_of_pod:
            ranks = (self.identities.rank_of_pod[host],)
        time = self.clocks.time(scan.path, hit)
        lasted = _lasted(rule, hit.text)
        raised = read_raised(hit) if rule.raised else None
        return Finding(
            rule,
            scan.path,
            hit.line,
            raised.text if raised else hit.text,
            ranks,
            origin,
            time,
            scan.modified,
            announced=hit.text if raised else "",
            host=host,
            pid=about.pid,
            peer=about.peer,
            writer=writer,
            began=None if time is None else time - lasted,
            comparable=self.clocks.is_comparable(scan.path, hit),
            exact=self.clocks.is_exact(scan.path, hit),
            offset=hit.offset,
            zoned=self.clocks.is_zoned(scan.path, hit),
            named=about.told,
        )

    def _errors(
        self, scan: FileScan, known: Sequence[Finding], tracebacks: _Tracebacks
    ) -> Iterator[Finding]:
        """Tracebacks whose errors no rule knows."""
        last: dict[str, int] = {}  # of each rank that writes to the file
        for hit, traceback in tracebacks:
            label = label_of(hit.text)
            if hit.line <= last.get(label, 0) or is_ignored(hit):
                continue
            last[label] = traceback.last
            if _IS_NO_FAILURE.match(traceback.error):
                continue
            if _is_known(traceback, known):
                continue
            rule = self._rules.failures[PYTHON_ERROR]
            if _OF_OTHERS.search(traceback.error):
                rule = replace(rule, role="consequence")
            made = replace(self._finding(scan, hit, rule), text=traceback.text)
            yield replace(made, exact=made.exact or was_logged(hit, traceback))


def _of_slurm_alone(hit: Hit) -> Hit:
    """Without the rank's line that stands before it: what follows is not the rank's."""
    found = _BEHIND.search(hit.text)
    if found is None:
        return hit
    text = hit.text[found.start() :]
    return hit._replace(text=text, head=text[: len(hit.head)])


def _written_by(writer: Identity, finding: Finding) -> Finding:
    if finding.rule.about or finding.rule.of_host or writer.rank is None:
        return replace(finding, writer=writer)
    return replace(finding, writer=writer, ranks=(writer.rank,), host=finding.host or writer.host)


def _lasted(rule: FailureRule, text: str) -> float:
    """Seconds for which something had been waited for."""
    match = (
        expression(rule.lasted, f"rule {rule.mode}: lasted").search(text) if rule.lasted else None
    )
    if match is None:
        return 0.0
    groups = match.groupdict()
    return float(groups["ms"]) / 1000 if groups.get("ms") else float(groups.get("s") or 0)


def _is_known(traceback: Traceback, known: Iterable[Finding]) -> bool:
    inside = [f for f in known if traceback.first <= f.line <= traceback.last + 1]
    if any(_says(finding, traceback.error) for finding in inside):
        return True
    strong = [f for f in inside if f.rule.role in ("root", "death")]
    return any(_says(finding, error) for finding in strong for error in traceback.errors)


def _says(finding: Finding, error: str) -> bool:
    return error[:60] in finding.text or error[:60] in finding.announced


def _ranks_named(rule: FailureRule, lines: Iterable[str]) -> tuple[int, ...]:
    for line in lines:
        if match := expression(rule.rank, f"rule {rule.mode}: rank").search(line):
            text = next((value for value in match.groupdict().values() if value), "")
            return tuple(_numbers(text))
    return ()


def _numbers(text: str) -> Iterator[int]:
    """0,2-5 as Slurm writes it."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and len(first) < 7:
            end = int(last) if last.isdigit() else int(first)
            yield from range(int(first), min(end, int(first) + 100_000) + 1)
