"""The verdict on a job as a value: who holds it up, why, and what shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rankdbg.investigations.collectives import collective_words as words
from rankdbg.investigations.hangs import headlines
from rankdbg.investigations.hangs.proofs import age_of_child, of_process
from rankdbg.investigations.rank_labels import Paths, frame_json, label, named, process_json
from rankdbg.investigations.results import Result, rank_record
from rankdbg.selection import format_ranks
from rankdbg.text.amounts import duration
from rankdbg.text.cutting import cut
from rankdbg.types import Rank
from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.evidence import Evidence, why_ended
from rankdbg.verdicts.hangs.hang_rules import Sign
from rankdbg.verdicts.hangs.judgement import Verdict
from rankdbg.verdicts.hangs.progress import STARVED
from rankdbg.verdicts.waits.wait_links import Link, Party, place_of

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart
    from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
    from rankdbg.investigations.nodes.node_states import NodeStates

MOST_EVIDENCE = 10
LONGEST_LINE = 120


@dataclass(frozen=True, repr=False)
class JobVerdict(Result):
    """`all_ranks`: all ranks of the job, among which ranks are named."""

    verdict: Verdict
    evidence: Evidence
    all_ranks: Sequence[Rank]
    notes: Sequence[str] = ()  # about stack dumps that were read
    parted: Sequence[str] = ()  # where ranks left the others, by their histories
    logged: Sequence[str] = ()  # what the culprits have logged last
    diagnosis: LogDiagnosis | None = None  # by the logs, if the job or the culprits have died
    nodes: NodeStates | None = None  # if they were asked, which a verdict does not need

    @cached_property
    def paths(self) -> Paths:
        return Paths(frame.file for seen in self.evidence.ranks for frame in seen.frames)

    @property
    def stuck(self) -> bool:
        return self.verdict.stuck

    @property
    def first(self) -> Accusation | None:
        return self.verdict.findings[0] if self.verdict.findings else None

    # --- for programs -------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        verdict, first = self.verdict, self.first
        return {
            "stuck": verdict.stuck,
            "state": verdict.state,
            "culprit": self._culprit(first) if first else "",
            "processes": [process_json(rank) for rank in first.ranks] if first else [],
            "cause": first.cause if first else "idle" * (verdict.state == "idle"),
            "confidence": verdict.confidence if verdict.stuck or first else "",
            "evidence": self.proofs(first) if first else [],
            "waiting": self.numbers(verdict.waiting) if verdict.stuck or first else "",
            "suspects": "" if verdict.stuck else self.numbers(verdict.suspects),
            "absent": format_ranks(self.absent, [*self.all_ranks, *self.absent]),
            "awaited": self._awaited_json(),
            "chain": [self._link_json(link) for link in self.chain],
            "next": first.next if first else "",
            "says": self.headline(),
            "waited": verdict.waited,
            "usual": verdict.usual,
            "started": verdict.started,
            "findings": [self._finding_json(finding) for finding in verdict.findings],
            "ranks": [
                {
                    "ranks": self.numbers(same),
                    "cause": same[0].rule.cause,
                    "role": same[0].rule.role,
                    "says": same[0].says,
                    "where": frame_json(same[0].seen.place),
                    "moving": same[0].seen.stirred,
                    "progress": list(same[0].seen.progress),
                    "child": _child_json(same[0].child),
                }
                for same in self.rows()
            ],
            **({"notes": [*self.notes]} if self.notes else {}),
            **({"failures": self.failures_json()} if self.diagnosis else {}),
        }

    def failures_json(self) -> list[dict[str, Any]]:
        """As `doctor` has them, the first cause first."""
        return self.diagnosis.failures_json() if self.diagnosis else []

    def _finding_json(self, finding: Accusation) -> dict[str, Any]:
        return {
            "culprit": self._culprit(finding),
            "processes": [process_json(rank) for rank in finding.ranks],
            "cause": finding.cause,
            "says": finding.says,
            "why": finding.why,
            "next": finding.next,
            "evidence": self.proofs(finding),
            "child": _child_json(finding.signs[0].child) if finding.signs else None,
        }

    def _culprit(self, finding: Accusation) -> str:
        party = finding.party
        if party is not None and (party.kind == "process" or not finding.ranks):
            return party.name
        return format_ranks(finding.ranks, self._among)

    def culprit_name(self, finding: Accusation) -> str:
        """rank 3; ranks 0-3; task Trainer.step"""
        if finding.party is not None:
            return self._culprit(finding)
        return named(finding.ranks, self._among)

    @cached_property
    def _among(self) -> Sequence[Rank]:
        """All ranks, and processes that the roster does not count among them."""
        return [*self.all_ranks, *(seen.rank for seen in self.evidence.helpers)]

    def _link_json(self, link: Link) -> dict[str, Any]:
        return {
            "who": self.party_name(link.who),
            "what": link.reason,
            "whom": self.party_name(link.whom),
            "evidence": list(link.evidence),
        }

    def _awaited_json(self) -> dict[str, Any] | None:
        """Of a job that is not stuck: what is waited for."""
        awaited = self.verdict.awaited
        if awaited is None or self.verdict.stuck:
            return None
        sign, others = awaited.sign, awaited.others
        return {
            "who": self.party_name(awaited.chain[-1].whom),
            "processes": [process_json(sign.seen.rank)] if sign else [],
            "task": awaited.task.name if awaited.task else "",
            "says": sign.says if sign else "",
            "slow": awaited.is_slow,
            "seconds": awaited.task.ran if awaited.task else None,
            "returned": others.finished if others else 0,
            "longest": others.longest if others else None,
        }

    def numbers(self, signs: Iterable[Sign]) -> str:
        return format_ranks([sign.seen.rank for sign in signs], self.all_ranks)

    # --- who waits for whom -------------------------------------------------------------

    @property
    def chain(self) -> tuple[Link, ...]:
        if self.verdict.stuck and self.first is not None:
            return self.first.chain + self.first.behind
        return self.verdict.awaited.chain if self.verdict.awaited else ()

    def party_name(self, party: Party) -> str:
        """driver 0, task Trainer.step, Rollout 17, rank 3"""
        if party.place is None:
            return party.name
        for rank in self._among:
            if (rank.host, rank.pid) == party.place:
                number = "" if rank.number is None else rank.number
                return f"{rank.role or 'rank'} {number}".strip()
        unnamed = party.name.startswith("process ")
        return f"process {party.place.pid} on {party.place.host}" if unnamed else party.name

    def chain_text(self) -> str:
        """driver 0 → task Trainer.train → Trainer 0; rank 3 → a pipe, of pid 7 (rsync)"""
        chain = self.chain
        if not chain:
            return ""
        steps = [f"{link.thing} {self.party_name(link.whom)}".strip() for link in chain]
        return " → ".join([self.party_name(chain[0].who), *steps])

    @cached_property
    def absent(self) -> list[Rank]:
        """Of a job in which no rank is accused: ranks that have ended, or have never started."""
        if self.first is not None or self.verdict.state not in ("moving", "idle"):
            return []
        ended = [rank for rank in self.evidence.gone if rank.number is not None]
        return [*ended, *self.evidence.missing]

    def absent_text(self) -> str:
        if not self.absent:
            return ""
        who = named(self.absent, [*self.all_ranks, *self.absent])
        have, them = ("have", "them") if len(self.absent) > 1 else ("has", "it")
        why = "" if self.evidence.missing else why_ended(self.absent)
        ended = f"ended{why}" if why else f"ended, or {have} not started yet"
        return (
            f"{who} {have} {ended}, and no rank waits for {them}. "
            "rankdbg doctor reads what the logs say."
        )

    def awaited_text(self) -> str:
        """Of a job that is not stuck: what is waited for, and how long others took for it."""
        awaited = self.verdict.awaited
        if awaited is None or self.verdict.stuck:
            return ""
        text = f"waits for: {self.chain_text()}"
        task, others = awaited.task, awaited.others
        if task is not None and task.ran is not None:
            text += f"; it has run for {duration(task.ran)}"
            if others is not None and others.longest is not None:
                text += (
                    f", {others.finished} others of {task.name} took up to "
                    f"{duration(others.longest)}"
                )
        elif task is not None:
            text += f"; {task.name} has waited for {duration(task.age)}"
        return text

    # --- the sentences ------------------------------------------------------------------

    def headline(self) -> str:
        verdict = self.verdict
        if self.evidence.dumped and self.first:
            return headlines.of_dumps(self.verdict, self.first, self.all_ranks)
        match verdict.state:
            case "stuck" if verdict.findings:
                if verdict.started is not None:
                    since = f"its ranks started {duration(verdict.started)} ago"
                    return f"The job is stuck at its start: {since} and have not all joined."
                if verdict.waited is not None:
                    return f"The job is stuck: ranks have waited for {duration(verdict.waited)}."
                return f"The job is stuck: no rank has made progress for {self.evidence.watched:.1f} s."
            case "stuck":
                return "The job is stuck, and no rank stands out."
            case "idle":
                return "The job is idle: it waits for work or for input."
            case "starting":
                return "The job is starting: ranks wait for others to join."
            case "ending":
                return "The job is ending: its ranks are exiting."
            case "ended":
                return self._headline_of_ended()
            case "unclear":
                return "The stack dumps show no rank that others wait for."
        if verdict.awaited is not None and verdict.awaited.is_slow:
            who, whom = self.chain[0].who, self.chain[-1].whom
            return (
                f"The job is not stuck: {self.party_name(who)} waits for {self.party_name(whom)}, "
                "which takes longer than the others."
            )
        if verdict.starved and not self._moves:
            names = self._starved_names()
            how = headlines.of_starved(verdict, names, self.all_ranks, self._among)
            return f"The job may be making progress: {how}."
        if verdict.waiting and not any(sign.seen.stirred for sign in verdict.signs):
            how = headlines.how_ranks_wait(verdict, self.all_ranks, self._among)
            return f"The job may be making progress: {how}."
        return "The job is moving."

    @property
    def _moves(self) -> bool:
        """Whether a rank makes progress, and not only would if it got a processor."""
        return any({*sign.seen.progress} - {STARVED} for sign in self.verdict.signs)

    def _starved_names(self) -> list[str]:
        """Ranks together, and then other processes."""
        places = {party.place: party for party in self.verdict.starved}
        ranks = [rank for rank in self._among if places.pop(place_of(rank), None)]
        others = [party.name for party in places.values()]
        return [*([named(ranks, self._among)] if ranks else []), *others]

    def _headline_of_ended(self) -> str:
        first = self.diagnosis.first_in_words() if self.diagnosis else ""
        return f"The job has ended: {first}." if first else "The job has ended."

    def proofs(self, finding: Accusation) -> list[str]:
        """What the accusation rests on, the strongest first. Where that is too much, what recorders
        and clocks tell is kept, and what threads of a long chain are in is left out."""
        proofs = []
        if finding.culprit is not None and finding.world is not None:
            names = words.WorldNames(finding.world, self.all_ranks)
            told = words.culprit_sentence(finding.culprit, finding.world.findings, names)
            proofs.append(told.rstrip("."))
        links = [link for link in (*finding.chain, *finding.behind) if link.evidence]
        proofs += [link.evidence[0] for link in links]
        for sign in finding.signs[:1]:
            who = named([sign.seen.rank], self._among)
            proofs += of_process(sign.seen, who, self.paths)
            if sign.child is not None:
                child = sign.child.seen
                proofs += of_process(child, f"process {child.rank.pid}", self.paths)
            if "{child}" in sign.rule.says or sign.rule.cause == "compile-hangs":
                proofs += age_of_child(sign)
        if finding is self.first:
            proofs += [*self.parted, *self.logged, *self._by_logs()]
        proofs += [proof for link in links for proof in link.evidence[1:]]
        reasons = self.verdict.reasons
        return [*[*dict.fromkeys(proofs)][: MOST_EVIDENCE - len(reasons)], *reasons]

    def _by_logs(self) -> list[str]:
        """Why ranks have died, as their logs tell."""
        if self.diagnosis is None or not self.diagnosis.failures:
            return []
        text = cut(self.diagnosis.first_line(), LONGEST_LINE)
        first = self.diagnosis.first_in_words()
        return [f"by the logs: {first}: {text} (rankdbg doctor shows more)"]

    def rows(self) -> list[list[Sign]]:
        """Ranks that do the same, the largest group first."""
        found: dict[tuple[str, str], list[Sign]] = {}
        for sign in self.verdict.signs:
            found.setdefault((sign.rule.cause, _place(sign)), []).append(sign)
        return sorted(found.values(), key=lambda same: -len(same))

    def waiting_text(self, finding: Accusation) -> str:
        """ranks 0-5,7 for rank 6, in all_reduce #1204 of group dp (train.py:88)"""
        waiting = self.verdict.waiting
        if not waiting:
            return ""
        ranks = named([sign.seen.rank for sign in waiting], self.all_ranks)
        text = f"{ranks} for {self.culprit_name(finding)}"
        if finding.culprit is not None and finding.world is not None:
            culprit = finding.culprit
            names = words.WorldNames(finding.world, self.all_ranks)
            operation = words.operation(culprit.operation, culprit.group, names)
            text += f", in {operation} of {words.group_name(culprit.group)}"
            frame = words.place(culprit.operation)
        else:
            frame = waiting[0].seen.place
            text += f", in {waiting[0].words['called']}" if frame else ""
        return text + (f" ({self.paths.line(frame)})" if frame else "")

    def culprit_text(self, finding: Accusation) -> str:
        text = self.culprit_name(finding)
        if len(finding.signs) != 1 or finding.party is not None:
            return text
        rank = finding.signs[0].seen.rank
        coordinates = " ".join(f"{name}={place}" for name, place in rank.coordinates.items())
        return f"{text} ({', '.join(filter(None, [coordinates, rank.host, f'pid {rank.pid}']))})"

    # --- for notebooks ------------------------------------------------------------------

    def summary(self) -> str:
        return self.headline()

    def records(self) -> list[dict[str, Any]]:
        accused = {rank.process for finding in self.verdict.findings for rank in finding.ranks}
        return [
            rank_record(
                sign.seen.rank,
                cause=sign.rule.cause,
                says=sign.says,
                moving=sign.seen.stirred,
                culprit=self.verdict.stuck and sign.seen.rank.process in accused,
            )
            for sign in self.verdict.signs
        ]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import FactTable, Table, TableRow

        verdict = self.verdict
        if verdict.stuck and verdict.findings:
            return [FactTable(self._facts(finding)) for finding in verdict.findings]
        rows = [
            TableRow(
                (
                    label([sign.seen.rank for sign in same], self.all_ranks),
                    row_text(same),
                )
            )
            for same in self.rows()
        ]
        return [Table(("ranks", "state"), rows)]

    def _facts(self, finding: Accusation) -> list[tuple[str, str]]:
        facts = [
            ("culprit", self.culprit_text(finding)),
            ("cause", f"{finding.says} [{finding.cause}]\n{finding.why}".strip()),
            ("waiting", self.waiting_text(finding) if finding is self.first else ""),
            ("chain", self.chain_text() if finding is self.first else ""),
            ("next", finding.next),
        ]
        if finding is self.first:
            proofs = "\n".join(f"- {proof}" for proof in self.proofs(finding))
            facts += [("confidence", self.verdict.confidence), ("evidence", proofs)]
        return facts


def row_text(same: Sequence[Sign]) -> str:
    """What ranks do, and what shows that they make progress: the first sign of the first rank."""
    proofs = [sign.seen.progress[0] for sign in same if sign.seen.progress]
    return same[0].says + (f" (moving: {proofs[0]})" if proofs else "")


def _child_json(sign: Sign | None) -> dict[str, Any] | None:
    """The process below a rank that the rank waits for."""
    if sign is None:
        return None
    return {
        "pid": sign.seen.rank.pid,
        "cause": sign.rule.cause,
        "says": sign.says,
        "where": frame_json(sign.seen.place),
        "state": sign.seen.after.state,
    }


def _place(sign: Sign) -> str:
    place = sign.seen.place
    if place is None:
        return ""
    return place.function if sign.seen.moving else f"{place.file}:{place.line}"
