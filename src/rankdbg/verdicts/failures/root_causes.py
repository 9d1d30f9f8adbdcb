"""What failed first, what follows from it, what was overcome, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.failures.aged_events import with_times_of_events
from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.confidence import Confidence, how_sure
from rankdbg.verdicts.failures.described_pods import with_container_ends
from rankdbg.verdicts.failures.done_steps import LoggedStep
from rankdbg.verdicts.failures.events import Event, make_events, when
from rankdbg.verdicts.failures.explanation import NOTHING, Explanation, explain
from rankdbg.verdicts.failures.findings import Finding, HarmlessFinding
from rankdbg.verdicts.failures.identities import Identities
from rankdbg.verdicts.failures.kernel_clocks import in_the_zone_of_the_job
from rankdbg.verdicts.failures.log_findings import LogFindings
from rankdbg.verdicts.failures.log_lines import Origins
from rankdbg.verdicts.failures.outcomes import Outcomes
from rankdbg.verdicts.failures.slurm_records import with_times_of_records
from rankdbg.verdicts.failures.step_values import StepLine
from rankdbg.verdicts.failures.trends import Trend, find_trends
from rankdbg.verdicts.failures.values import BadValues, bad_values, where_it_began
from rankdbg.verdicts.failures.versions import can_come_of_versions, event_of_version, odd_versions
from rankdbg.verdicts.rules.log_rules import LogRules

Part = Literal["root", "consequence", "teardown", "other"]
PARTS: tuple[Part, ...] = ("root", "consequence", "teardown", "other")
_LINES = 20
_EXIT_CODE = re.compile(r"\bexitcode\s*: [1-9]|\bterminated with code [1-9]")  # as launchers say it
# What ranks say when another has gone.
LOST_A_PEER = (
    "nccl_remote_closed", "nccl_ib_completion_error", "nccl_system_error", "gloo_peer_closed",
    "torch_store_lost",
)  # fmt: skip
FEW_STEPS = 5  # of a job that has hardly begun
LOST_CHILD = "dataloader_worker_died"
# Ranks on which the same failure shows within so many seconds have failed together.
TOGETHER = 10.0


@dataclass(frozen=True)
class Failure:
    """One mode, wherever it showed. Of a cause, `ranks` and `host` are where it began."""

    mode: str
    role: Part
    ranks: tuple[int, ...]
    first: Finding
    findings: tuple[Finding, ...]
    time: float | None
    host: str = ""

    @property
    def lines(self) -> list[str]:
        """Evidence: the first line of each rank, then what stood beside these."""
        seen: dict[tuple[str, tuple[int, ...]], str] = {}
        for finding in self.findings:
            seen.setdefault((finding.path, finding.ranks), finding.evidence)
        beside = [line for finding in self.findings for line in finding.beside]
        return list(dict.fromkeys([*seen.values(), *beside]))[:_LINES]


@dataclass(frozen=True)
class HarmlessLine:
    mode: str
    count: int
    line: str
    cause: str


@dataclass(frozen=True)
class Diagnosis:
    failures: tuple[Failure, ...]  # the first cause first
    harmless: tuple[HarmlessLine, ...]
    events: tuple[Event, ...] = ()  # those that were not overcome first
    explanation: Explanation = NOTHING
    confidence: Confidence | None = None  # None: nothing has failed
    bad_values: BadValues | None = None  # None: the cause is another
    trends: tuple[Trend, ...] = ()  # of loss, gradients and speed; none of them is a failure
    clocks: Clocks | None = None
    finished: bool = False  # the job says so
    steps: Sequence[LoggedStep] = ()
    # Of each rank that logs name; `` where its host is not known.
    hosts: Mapping[int, str] = field(default_factory=dict)

    @property
    def overcome(self) -> list[Event]:
        return [event for event in self.events if event.outcome != "fatal"]


def diagnose(scans: Sequence[FileScan], rules: LogRules) -> Diagnosis:
    scans = with_times_of_events(with_times_of_records(with_container_ends(scans)))
    found = LogFindings(scans, rules, Origins(scans))
    outcomes = Outcomes(scans, rules, found.identities, found.clocks)
    findings = in_the_zone_of_the_job(
        where_it_began(found.failures, outcomes.last_good_step),
        outcomes.last_step,
        outcomes.begin,
        outcomes.is_over,
        lambda finding: found.identities.knows_as_rank(finding.host, finding.pid),
    )
    judged = outcomes.of(make_events(findings))
    fatal = _that_count([e for e in judged if e.outcome == "fatal"], outcomes)
    counted = {id(event) for event in fatal}
    others = [event for event in judged if id(event) not in counted]
    events = [*fatal, *others]
    explanation = explain(fatal)
    if version := _of_version(fatal, explanation, scans, rules, found.identities, outcomes):
        fatal = [*fatal, version]
        events = [*fatal, *others]
        explanation = explain(fatal)
    suspects = [event for event in others if event.rule.weak]
    attempts = [event for event in others if event.is_attempt]
    failures = [
        _suspected(failure, suspects) for failure in _failures(fatal, explanation, found.identities)
    ]
    return Diagnosis(
        tuple(failures),
        tuple(_harmless(found.harmless, [*suspects, *attempts])),
        tuple(events),
        explanation,
        how_sure(
            fatal,
            explanation,
            found.clocks,
            _is_by_silence(failures[0]),
            _all_waited(failures[0], found.identities),
        )
        if failures
        else None,
        bad_values(failures[0].first, scans) if failures else None,
        tuple(find_trends(step_lines(outcomes.progress))),
        found.clocks,
        outcomes.finished,
        outcomes.progress,
        {rank: found.identities.host_of_rank(rank) for rank in sorted(found.identities.ranks)},
    )


def _of_version(
    fatal: Sequence[Event],
    explanation: Explanation,
    scans: Sequence[FileScan],
    rules: LogRules,
    identities: Identities,
    outcomes: Outcomes,
) -> Event | None:
    """That one host has another version, if this can have caused what has failed first."""
    if not explanation.roots:
        return None
    has_begun = len({done.step for done in outcomes.progress}) > FEW_STEPS
    root = fatal[explanation.roots[0]]
    if not can_come_of_versions(root, has_begun):
        return None
    return event_of_version(root, odd_versions(scans, identities), rules)


def step_lines(steps: Iterable[LoggedStep]) -> Iterator[StepLine]:
    for done in steps:
        if done.step_number is not None:
            yield StepLine(
                done.path if done.rank is None else done.rank, done.step_number, done.text
            )


def _that_count(events: list[Event], outcomes: Outcomes) -> list[Event]:
    """Without what is never worth a line beside others, or in a job that has done its steps, or goes
    on beside it."""
    own = [event for event in events if not event.rule.never_alone]
    if not own or outcomes.are_being_repeated(own):
        return []
    if all(event.is_retried for event in own) and outcomes.made_steps_at(own):
        return []
    is_under_way = bool(outcomes.progress)
    loud = [event for event in events if not event.rule.quiet] or events
    return [event for event in loud if not event.rule.weak] or ([] if is_under_way else loud)


def _harmless(lines: Sequence[HarmlessFinding], weak: Sequence[Event]) -> list[HarmlessLine]:
    told: dict[str, HarmlessLine] = {}
    for calm in lines:
        known = told.get(calm.mode, HarmlessLine(calm.mode, 0, calm.text, calm.cause))
        told[calm.mode] = replace(known, count=known.count + 1)
    for event in weak:
        known = told.get(
            event.mode, HarmlessLine(event.mode, 0, event.first.text, event.rule.cause)
        )
        told[event.mode] = replace(known, count=known.count + len(event.findings))
    return list(told.values())


def _failures(
    events: Sequence[Event], explanation: Explanation, identities: Identities
) -> list[Failure]:
    """By mode, causes first, each group by the clock."""
    if not events:
        return []
    modes: dict[str, list[int]] = {}
    for number, event in enumerate(events):
        modes.setdefault(event.mode, []).append(number)
    made = []
    for numbers in modes.values():
        part = _part(numbers, events, explanation)
        failure = _failure(numbers, events, explanation, part)
        if part == "root":
            failure = _missing(_blaming(failure, identities), events, identities)
            failure = _with_child(_with_victim(failure, events), events)
            failure = _with_lost_host(_with_label(failure, identities), events)
            failure = _with_lost_ranks(failure, events, explanation, identities)
        made.append(failure)
    causes = [events[number].mode for number in explanation.roots]

    def order(failure: Failure) -> tuple[object, ...]:
        rank = causes.index(failure.mode) if failure.mode in causes else len(causes)
        return PARTS.index(failure.role), rank, *when(failure.first)

    return sorted(made, key=order)


def _part(numbers: Sequence[int], events: Sequence[Event], explanation: Explanation) -> Part:
    if any(number in explanation.roots for number in numbers):
        return "root"
    if events[numbers[0]].rule.role == "teardown":
        return "teardown"
    return "consequence" if {*numbers} & explanation.explained else "other"


def _failure(
    numbers: Sequence[int], events: Sequence[Event], explanation: Explanation, part: Part
) -> Failure:
    root = next((n for n in explanation.roots if n in numbers), None)
    begun = [events[n] for n in numbers]
    if root is not None:
        begun = [event for event in begun if _began_with(events[root], event)]
        begun.sort(key=lambda event: event is not events[root])
    findings = sorted((f for n in numbers for f in events[n].findings), key=when)
    first = begun[0].first if root is not None else findings[0]
    ordered = tuple(sorted(findings, key=lambda finding: finding is not first))
    host = next((event.host for event in begun if event.host), "")
    # Where lines blame the host, the ranks of other hosts are those that noticed.
    own = [e for e in begun if e.host == host] if any(host in e.peers for e in begun) else begun
    ranks = tuple(sorted({rank for event in own for rank in event.ranks}))
    time = begun[0].time if root is not None else first.time
    return Failure(events[numbers[0]].mode, part, ranks, first, ordered, time, host)


def _blaming(failure: Failure, identities: Identities) -> Failure:
    """What all ranks say of one host that is not theirs is that host's failure."""
    peers = {f.peer for f in failure.findings if _is_named(f.peer, identities)}
    writers = {f.writer.host for f in failure.findings if f.writer.host}
    if len(peers) != 1 or peers & writers:
        return failure
    return replace(failure, host=peers.pop(), ranks=())


def _suspected(failure: Failure, weak: Sequence[Event]) -> Failure:
    """What is harmless by itself names the host where it can have brought the cause about, if only
    one host shows it."""
    if failure.role != "root":
        return failure
    places = [event for event in weak if failure.mode in event.rule.brings and event.host]
    if len({event.host for event in places}) != 1 or places[0].host == failure.host:
        return failure
    ranks = tuple(sorted({rank for event in places for rank in event.ranks}))
    return replace(failure, host=places[0].host, ranks=ranks)


def _is_named(peer: str, identities: Identities) -> bool:
    """An address says nothing by itself; a name does, though no file of that host is there."""
    return identities.is_known(peer) or bool(re.match(r"[A-Za-z]", peer))


def _with_victim(failure: Failure, events: Sequence[Event]) -> Failure:
    """Of a host that ran out of memory: the one rank of it that a later line names, that was killed, or
    that has lost a process of its own. Where the line names no host, theirs, if they are all of one."""
    if failure.ranks or failure.first.rule.kind != "host_memory":
        return failure
    killed = [event for event in events if event.mode == failure.mode and event.ranks]
    killed = killed or [event for event in events if event.mode == LOST_CHILD]
    killed = killed or [event for event in events if event.tier == 1]
    hosts = {event.host for event in killed} - {""}
    host = failure.host or (hosts.pop() if len(hosts) == 1 else "")
    ranks = {rank for event in killed if host and event.host == host for rank in event.ranks}
    return replace(failure, host=host, ranks=tuple(ranks) if len(ranks) == 1 else ())


def _with_child(failure: Failure, events: Sequence[Event]) -> Failure:
    """Of a single error in a log that does not say whose it is: the one rank that ended with an exit
    code, as the launcher says in the same file. Ranks that others ended have died of a signal."""
    if failure.ranks or len(failure.findings) > 1 or not failure.first.rule.is_of_process:
        return failure
    children = {
        finding.ranks
        for event in events
        for finding in event.findings
        if finding.path == failure.first.path and finding.line > failure.first.line
        if finding.ranks and _EXIT_CODE.search(finding.text)
    }
    if len(children) != 1:
        return failure
    first = replace(failure.first, ranks=children.pop())
    return replace(failure, ranks=first.ranks, first=first, findings=(first,))


def _with_label(failure: Failure, identities: Identities) -> Failure:
    """Of a process of which neither its rank nor its host is known: what its file is called."""
    first = failure.first
    is_own = first.rule.role in ("root", "death") and not (first.named or first.rule.of_host)
    if failure.ranks or failure.host or not is_own:
        return failure
    return replace(failure, host=identities.place_of_path(failure.first.path))


def _with_lost_host(failure: Failure, events: Sequence[Event]) -> Failure:
    """Of a host that has failed, where its scheduler names all hosts of the job: the one that all
    ranks have lost."""
    if failure.host or not failure.first.rule.of_host:
        return failure
    lost = {peer for event in events for peer in event.peers if event.tier >= 2}
    return replace(failure, host=lost.pop()) if len(lost) == 1 else failure


def _with_lost_ranks(
    failure: Failure, events: Sequence[Event], explanation: Explanation, identities: Identities
) -> Failure:
    """Of a host that has failed, but of which no line says whom that has stopped: the ranks that all
    others have waited for, if these are of that host; and the one that a coordinator has lost, if no
    line says that it runs elsewhere."""
    if failure.ranks or not (failure.host and failure.first.rule.of_host):
        return failure
    explained = [events[number] for number in explanation.explained]
    waited = {rank for e in explained if e.rule.lasted for rank in e.ranks}
    missing = identities.ranks - waited
    missing = missing if len(missing) < len(waited) else set()
    lost = {rank for e in explained if e.rule.role == "death" and e.first.named for rank in e.ranks}
    for ranks in (missing, lost if len(lost) == 1 else set()):
        hosts = {identities.host_of_rank(rank) for rank in ranks}
        if ranks and hosts <= {failure.host, ""}:
            return replace(failure, ranks=tuple(sorted(ranks)))
    return failure


def _missing(failure: Failure, events: Sequence[Event], identities: Identities) -> Failure:
    """Ranks that waited until a timeout have waited for those that did not, or that waited for
    something else than most. Ranks that lost a peer have lost one that says nothing at all."""
    odd = {rank for finding in failure.findings if finding.odd for rank in finding.ranks}
    if odd:
        return _on_ranks(failure, odd, identities)
    waited = {rank for finding in failure.findings for rank in finding.ranks}
    if failure.mode in LOST_A_PEER:
        missing = _silent(failure, waited, events, identities)
    else:
        missing = identities.ranks - waited if failure.first.rule.lasted else set()
        if _all_waited(failure, identities):
            return replace(failure, host="")
    return _on_ranks(failure, missing, identities) if 0 < len(missing) < len(waited) else failure


def _all_waited(failure: Failure, identities: Identities) -> bool:
    """Whether the ranks of all of several hosts have waited, so that none of them is the cause: they
    did not reach each other."""
    waited = {rank for finding in failure.findings for rank in finding.ranks}
    if any(finding.odd for finding in failure.findings):
        return False
    hosts = {identities.host_of_rank(rank) for rank in waited} - {""}
    lasted = bool(failure.first.rule.lasted) and failure.role == "root"
    return lasted and len(hosts) > 1 and len(waited) > 1 and waited >= identities.ranks


def _silent(
    failure: Failure, waited: set[int], events: Sequence[Event], identities: Identities
) -> set[int]:
    """The one rank, or all ranks of hosts, of which no line tells that anything is wrong."""
    hosts = {rank: identities.host_of_rank(rank) for rank in identities.ranks}
    if failure.host and failure.host not in {hosts.get(rank) for rank in waited}:
        return set()  # the lines name the peer
    heard = waited | {rank for event in events for rank in event.ranks}
    silent = identities.ranks - heard
    places = {hosts[rank] for rank in silent}
    whole = "" not in places and not any(hosts.get(rank) in places for rank in heard)
    return silent if whole or len(silent) == 1 else set()


def _is_by_silence(failure: Failure) -> bool:
    """Whether no line about the cause is of the ranks that are accused, or names their host."""
    accused = {*failure.ranks}
    return bool(accused) and not any(
        accused & {*f.ranks}
        or (failure.host and failure.host in (f.peer, f.rule.of_host and f.host))
        for f in failure.findings
    )


def _on_ranks(failure: Failure, ranks: set[int], identities: Identities) -> Failure:
    hosts = {identities.host_of_rank(rank) for rank in ranks}
    host = hosts.pop() if len(hosts) == 1 else ""
    return replace(failure, host=host, ranks=tuple(sorted(ranks)))


def _began_with(root: Event, event: Event) -> bool:
    """Whether the same failure of another rank was there at the same time."""
    if event is root or root.time is None or event.time is None:
        return True
    if not (root.comparable and event.comparable):
        return True
    return event.time - root.time <= TOGETHER
