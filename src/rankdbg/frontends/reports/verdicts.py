"""The verdict on a job: ten lines for people, the same as JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from rankdbg.frontends.reports import collective_words as words
from rankdbg.frontends.reports.ranks import Paths, frame_json, label
from rankdbg.frontends.terminal import Terminal, duration
from rankdbg.selection import format_numbers, format_ranks
from rankdbg.types import Rank
from rankdbg.verdicts.evidence import Evidence, Seen
from rankdbg.verdicts.hang_rules import Sign
from rankdbg.verdicts.hangs import Finding, Verdict

MOST_ROWS = 8
MOST_EVIDENCE = 6


class VerdictReport:
    def __init__(self, verdict: Verdict, evidence: Evidence, everybody: Sequence[Rank]) -> None:
        self.verdict = verdict
        self.evidence = evidence
        self.everybody = everybody
        self.paths = Paths(frame.file for seen in evidence.ranks for frame in seen.frames)

    @property
    def first(self) -> Finding | None:
        return self.verdict.findings[0] if self.verdict.findings else None

    # --- for programs -------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        verdict, first = self.verdict, self.first
        return {
            "stuck": verdict.stuck,
            "state": verdict.state,
            "guilty": format_numbers(first.guilty) if first else "",
            "cause": first.cause if first else "idle" * (verdict.state == "idle"),
            "confidence": verdict.confidence if verdict.stuck else "",
            "evidence": self.proofs(first) if first else [],
            "victims": self._numbers(verdict.victims) if verdict.stuck else "",
            "fix": first.fix if first else "",
            "says": self.headline(),
            "waited": verdict.waited,
            "usual": verdict.usual,
            "findings": [self._finding_json(finding) for finding in verdict.findings],
            "ranks": [
                {
                    "ranks": self._numbers(same),
                    "cause": same[0].rule.cause,
                    "role": same[0].rule.role,
                    "says": same[0].says,
                    "where": frame_json(same[0].seen.place),
                    "moving": same[0].seen.stirred,
                }
                for same in self.rows()
            ],
        }

    def _finding_json(self, finding: Finding) -> dict[str, Any]:
        return {
            "guilty": format_numbers(finding.guilty),
            "cause": finding.cause,
            "says": finding.says,
            "why": finding.why,
            "fix": finding.fix,
            "evidence": self.proofs(finding),
        }

    def _numbers(self, signs: Iterable[Sign]) -> str:
        return format_ranks([sign.seen.rank for sign in signs], self.everybody)

    # --- what is said -------------------------------------------------------------------

    def headline(self) -> str:
        verdict = self.verdict
        match verdict.state:
            case "stuck" if verdict.findings:
                if verdict.waited is not None:
                    return f"The job is stuck: ranks have waited for {duration(verdict.waited)}."
                return f"The job is stuck: no rank has come on for {self._watched():.1f} s."
            case "stuck":
                return "The job is stuck, and nobody stands out."
            case "idle":
                return "The job is idle: it waits for work, or for the world outside."
            case "starting":
                return "The job is starting: ranks wait for others to come."
            case "ended":
                return "The job has ended."
        if verdict.victims and not any(sign.seen.stirred for sign in verdict.signs):
            return "The job may be at work: ranks wait, but not for longer than usual."
        return "The job is moving."

    def _watched(self) -> float:
        return max((seen.seconds for seen in self.evidence.ranks), default=0.0)

    def proofs(self, finding: Finding) -> list[str]:
        """What the accusation rests on."""
        proofs = []
        if finding.culprit is not None and self.evidence.collectives is not None:
            told = words.culprit_sentence(finding.culprit, self.evidence.collectives)
            proofs.append(told.rstrip("."))
        for sign in finding.signs[:1]:
            proofs += self._of_rank(sign.seen)
        return [*dict.fromkeys(proofs), *self.verdict.reasons][:MOST_EVIDENCE]

    def _of_rank(self, seen: Seen) -> list[str]:
        found = []
        who = f"rank {seen.number}"
        if seen.place is not None:
            moved = "moves in" if seen.moving else "stands in"
            found.append(f"{who} {moved} {self.paths.text(seen.place)}")
        if seen.after.why and seen.state == seen.after.state:
            found.append(f"{who}: {seen.after.why}")
        elif seen.after.call:
            on = f" on {seen.after.on}" if seen.after.on else ""
            found.append(f"{who} waits in the system call {seen.after.call}{on}")
        elif seen.computes:
            found.append(f"{who} computed for {min(1.0, seen.busy):.0%} of the time")
        if seen.native_main:
            found.append(f"{who} is in {' < '.join(f.function for f in seen.native_main[:4])}")
        found += [f"{who}, its GPU: {sign.text}" for sign in seen.gpus if sign.name != "busy"]
        if seen.silence:
            found.append(f"{who}: {seen.silence}")
        return found

    def rows(self) -> list[list[Sign]]:
        """Ranks that do the same, the largest group first."""
        found: dict[tuple[str, str], list[Sign]] = {}
        for sign in self.verdict.signs:
            found.setdefault((sign.rule.cause, _place(sign)), []).append(sign)
        return sorted(found.values(), key=lambda same: -len(same))

    # --- for people ---------------------------------------------------------------------

    def print(self, terminal: Terminal) -> None:
        terminal.print(terminal.bold(self.headline()))
        if self.verdict.stuck and self.verdict.findings:
            for finding in self.verdict.findings:
                terminal.print()
                self._print_finding(terminal, finding)
        else:
            self._print_rows(terminal)

    def _print_finding(self, terminal: Terminal, finding: Finding) -> None:
        self._row(terminal, "guilty", self._who(finding), terminal.red)
        self._row(terminal, "cause", f"{finding.says} [{finding.cause}]")
        self._row(terminal, "", finding.why, terminal.dim)
        self._print_victims(terminal, finding)
        self._row(terminal, "do", finding.fix)
        if finding is self.first:
            self._row(
                terminal, "sure", f"{self.verdict.confidence}: {'; '.join(self.proofs(finding))}"
            )

    def _print_victims(self, terminal: Terminal, finding: Finding) -> None:
        victims = self.verdict.victims
        if not victims or finding is not self.first:
            return
        ranks = label([sign.seen.rank for sign in victims], self.everybody)
        where = ""
        if finding.culprit is not None:
            culprit = finding.culprit
            where = f" {words.operation(culprit.operation, culprit.group)} of "
            where += words.group_name(culprit.group)
            frame = words.place(culprit.operation)
            where = f" in{where}" + (f" ({self.paths.line(frame)})" if frame else "")
        elif victims[0].seen.place is not None:
            called = victims[0].words["called"]
            where = f" in {called} ({self.paths.line(victims[0].seen.place)})"
        many = len(victims) > 1
        text = f"{'ranks' if many else 'rank'} {ranks} {'wait' if many else 'waits'} for it{where}"
        self._row(terminal, "victims", text)

    def _who(self, finding: Finding) -> str:
        text = ("rank " if len(finding.guilty) == 1 else "ranks ") + words.numbers(finding.guilty)
        if len(finding.signs) != 1:
            return text
        rank = finding.signs[0].seen.rank
        coordinates = " ".join(f"{name}={place}" for name, place in rank.coordinates.items())
        return f"{text} ({', '.join(filter(None, [coordinates, rank.host, f'pid {rank.pid}']))})"

    def _row(self, terminal: Terminal, name: str, text: str, style: Any = str) -> None:
        if not text:
            return
        lines = textwrap.wrap(text, terminal.width - 11, break_on_hyphens=False)
        for number, line in enumerate(lines):
            terminal.print(f"  {name if number == 0 else '':8} {style(line)}")

    def _print_rows(self, terminal: Terminal) -> None:
        rows = self.rows()
        names = [self._numbers(same) for same in rows[:MOST_ROWS]]
        width = min(30, max((len(name) for name in names), default=0))
        for same in rows[:MOST_ROWS]:
            ranks = label([sign.seen.rank for sign in same], self.everybody)
            text = same[0].says + (" (moving)" if any(s.seen.stirred for s in same) else "")
            lines = textwrap.wrap(text, terminal.width - width - 4, break_on_hyphens=False)
            for number, line in enumerate(lines):
                name = ranks if number == 0 else ""
                terminal.print(f"  {terminal.bold(f'{name:{width}}')}  {line}")
        if len(rows) > MOST_ROWS:
            terminal.print(terminal.dim(f"  and {len(rows) - MOST_ROWS} more groups, see --json"))


def _place(sign: Sign) -> str:
    place = sign.seen.place
    if place is None:
        return ""
    return place.function if sign.seen.moving else f"{place.file}:{place.line}"
