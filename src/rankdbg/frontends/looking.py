"""Looking at a job that may hang: questions to its ranks -> the evidence for a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.frontends.live_traces import traces_of
from rankdbg.session import Sampled, Session
from rankdbg.types import Answer, ProcessKey, Rank, Silence, Stack
from rankdbg.verdicts import collectives, gpu_signs
from rankdbg.verdicts.evidence import Child, Evidence, Seen, Vitals
from rankdbg.verdicts.hang_rules import HangRule
from rankdbg.verdicts.hangs import Verdict, judge
from rankdbg.verdicts.traces import Trace

# How a job is looked at, if nobody says otherwise: so long, so often, and for how long at most
# where that settles it.
SECONDS, SAMPLES, LONGEST = 1.0, 3, 6.0
# Native frames stop a process for a moment: only those that a verdict hangs on.
MOST_NATIVE = 16


class Looking:
    """All that was seen of some ranks, over one or several looks."""

    def __init__(
        self,
        session: Session,
        ranks: Sequence[Rank],
        everybody: Sequence[Rank],
        outside: bool = False,
    ) -> None:
        self._session = session
        chosen = {rank.process for rank in ranks}
        self._others = [rank for rank in everybody if rank.process not in chosen]
        self._alive = [rank for rank in ranks if rank.state not in ("gone", "zombie")]
        self._gone = [rank for rank in ranks if rank.state in ("gone", "zombie")]
        self._outside = outside
        self._samples: dict[ProcessKey, list[tuple[Stack, ...]]] = {}
        self._gil: dict[ProcessKey, str] = {}
        self._why: dict[ProcessKey, str] = {}
        self._native: dict[ProcessKey, tuple[Stack, ...]] = {}
        self._gpus: dict[str, list[Any]] = {}
        self._before = self._vitals()
        self._after = self._before
        self._first_traces = self._traces()
        self._traces_now = self._first_traces

    def watch(self, seconds: float, samples: int) -> None:
        """Take so many samples, the last one after so many seconds."""
        seen, silent = self._session.stacks(
            self._alive,
            threads="all",
            samples=samples,
            interval=seconds / max(1, samples - 1),
            engine="py-spy" if self._outside else "agent",
        )
        for sampled in seen:
            self._keep(sampled)
        for silence in silent:
            self._why[silence.rank.process] = silence.reason
        self._traces_now = self._traces()
        self._after = self._vitals()
        for node, told in self._session.gpus().items():
            if not isinstance(told, RankdbgError):
                self._gpus[node] = told["gpus"]

    def _keep(self, sampled: Sampled) -> None:
        key = sampled.rank.process
        self._samples.setdefault(key, []).extend(sampled.samples)
        self._why[key] = sampled.why
        self._gil[key] = sampled.gil

    def look_natively(self, ranks: Sequence[Rank]) -> None:
        seen, _ = self._session.stacks(ranks, threads="all", samples=1, engine="native")
        for sampled in seen:
            if sampled.source in ("pystack", "gdb") and sampled.samples:
                self._native[sampled.rank.process] = sampled.samples[-1]

    @property
    def has_gpus(self) -> bool:
        return any(self._gpus.values())

    def evidence(self) -> Evidence:
        counted_on = _counted_on(self._first_traces, self._traces_now)
        gone = [rank for rank in self._alive if rank.process not in self._after]
        seen = [
            Seen(
                rank,
                samples=self._samples.get(rank.process, ()),
                before=self._before.get(rank.process, self._after[rank.process]),
                after=self._after[rank.process],
                native=self._native.get(rank.process, ()),
                gil=self._gil.get(rank.process, ""),
                silence=self._why.get(rank.process, ""),
                counted_on=rank.number in counted_on,
                gpus=self._gpu_signs(rank),
            )
            for rank in self._alive
            if rank.process in self._after
        ]
        traces = list(self._traces_now.values())
        return Evidence(
            seen,
            collectives.judge(traces) if any(trace.operations for trace in traces) else None,
            tuple(self._session.silent_nodes),
            [*self._gone, *gone],
            [rank for rank in self._others if rank.kind == "rank"],
        )

    def _gpu_signs(self, rank: Rank) -> list[gpu_signs.Sign]:
        used = gpu_signs.used_by(rank.pid, self._gpus.get(rank.host, ()))
        return [sign for gpu in used for sign in gpu_signs.signs(gpu)]

    def _vitals(self) -> dict[ProcessKey, Vitals]:
        return {
            answer.rank.process: _vitals(answer.value)
            for answer in self._session.vitals(self._alive)
            if isinstance(answer, Answer)
        }

    def _traces(self) -> dict[int, Trace]:
        """By rank, of those with an agent; the dead have no recorder any more."""
        if self._outside or not any(rank.agent for rank in self._alive):
            return {}
        gone = [Silence(rank, "it has ended") for rank in self._gone]
        # All are asked, whoever is to be looked at: those who wait tell about the others.
        everybody = [*self._alive, *(rank for rank in self._others if rank.kind == "rank")]
        traces = traces_of([*self._session.collectives(everybody), *gone])
        return {trace.rank: trace for trace in traces}


def find_verdict(
    looking: Looking,
    rules: Sequence[HangRule],
    seconds: float = SECONDS,
    samples: int = SAMPLES,
    longest: float = LONGEST,
) -> tuple[Verdict, Evidence]:
    """Watch, and where that does not settle it watch for longer, or look at native frames."""
    looking.watch(seconds, samples)
    verdict = judge(looking.evidence(), rules)
    while 0 < verdict.watch_longer <= longest:
        looking.watch(verdict.watch_longer + 0.1, 3 * samples)
        longest -= verdict.watch_longer + 0.1
        verdict = judge(looking.evidence(), rules)
    unsure = [sign.seen.rank for sign in verdict.unsure]
    if unsure and verdict.state in ("stuck", "idle"):
        looking.look_natively(_those_that_matter(verdict, unsure))
    evidence = looking.evidence()
    return judge(evidence, rules), evidence


def _those_that_matter(verdict: Verdict, unsure: list[Rank]) -> list[Rank]:
    accused = {number for finding in verdict.findings for number in finding.guilty}
    return sorted(unsure, key=lambda rank: rank.number not in accused)[:MOST_NATIVE]


def _vitals(value: Any) -> Vitals:
    known = {key: value[key] for key in Vitals.__dataclass_fields__ if key in value}
    children = tuple(
        Child(**{key: child[key] for key in Child.__dataclass_fields__ if key in child})
        for child in value.get("children", ())
    )
    return replace(Vitals(**{**known, "children": ()}), children=children)


def _counted_on(before: dict[int, Trace], after: dict[int, Trace]) -> set[int]:
    """Ranks that have entered or finished a collective between two looks."""
    return {
        rank
        for rank, trace in after.items()
        if rank in before and _count(before[rank]) != _count(trace)
    }


def _count(trace: Trace) -> tuple[Any, ...]:
    last: dict[str, int] = {}
    for op in trace.operations:
        last[op.group] = max(last.get(op.group, 0), op.number)
    finished = max(((op.created, op.record) for op in trace.operations if op.finished), default=())
    return tuple(sorted(last.items())), finished, tuple(sorted(trace.entered.items()))
