"""Who is missing from a collective: traces of all ranks -> the culprits, and where each rank is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rankdbg.verdicts.collectives.mismatches import Mismatch, find_mismatches
from rankdbg.verdicts.collectives.orders import CountDifference, find_departure
from rankdbg.verdicts.collectives.process_groups import ProcessGroup, TracedJob
from rankdbg.verdicts.collectives.schedules import MissedMessage, find_missed_message
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.waits import Wait, final_sets, find_waits

Reason = Literal["missing", "absent", "mismatch", "behind", "not started", "lagging", "circle"]

# Under way for less than this, a collective of a running job is not waited in: it is at work.
SETTLED_SECONDS = 1.0


@dataclass(frozen=True)
class Culprit:
    """Ranks that hold others up, all for the same reason and in the same operation."""

    ranks: tuple[int, ...]
    reason: Reason
    group: ProcessGroup
    operation: Operation
    waiting: tuple[int, ...]  # those in that operation
    found: Operation | None = None  # of a mismatch: what these ranks have in its place
    inside: Wait | None = None  # what they have not come out of themselves
    departure: CountDifference | None = None  # of a circle: how these left the order of the others
    missed: MissedMessage | None = None  # or the schedule of messages

    @property
    def is_undecided(self) -> bool:
        """Whether the recorders do not tell who of a circle has left the order."""
        return self.reason == "circle" and self.departure is None and self.missed is None


@dataclass(frozen=True)
class CollectiveFindings:
    job: TracedJob
    waits: dict[int, Wait]
    culprits: tuple[Culprit, ...]
    undecided: tuple[Wait, ...]  # one of each set of ranks that are all in, and none comes out
    mismatches: tuple[Mismatch, ...]

    @property
    def culprit_ranks(self) -> tuple[int, ...]:
        return tuple(sorted({rank for culprit in self.culprits for rank in culprit.ranks}))


def judge(
    traces: Iterable[Trace],
    why_absent: str = "it left no evidence",
    longer_than: float = SETTLED_SECONDS,
) -> CollectiveFindings:
    job = TracedJob(traces, why_absent)
    mismatches = find_mismatches(job)
    waits = find_waits(job, mismatches, longer_than)
    odd = {rank for mismatch in mismatches if mismatch.pending for rank in mismatch.odd}
    found: list[tuple[int, Reason, Wait]] = []
    undecided: list[Wait] = []
    finals = final_sets(waits)
    for final in finals:
        blamed = _culprits_of(job, final, waits, odd)
        if not blamed:
            undecided.append(waits[min(final)])
        explained = [(rank, reason, _explaining(rank, reason, waits)) for rank, reason in blamed]
        if len(blamed) == len(final) > 1 and all(reason == "circle" for _, reason in blamed):
            # Both sides are one finding, with what most ranks are in.
            most = _explaining(_most_waited_for(final, waits)[0], "circle", waits)
            explained = [(rank, reason, most) for rank, reason in blamed]
        found += explained
    culprits = _folded(job, found, waits, finals)
    return CollectiveFindings(job, waits, culprits, tuple(undecided), tuple(mismatches))


# --- which ranks at the end of a chain ----------------------------------------------------


def _culprits_of(
    job: TracedJob, final: frozenset[int], waits: dict[int, Wait], odd: set[int]
) -> list[tuple[int, Reason]]:
    if len(final) == 1:
        (rank,) = final
        return [(rank, _reason_alone(job, rank, waits, odd))]
    inside = [waits[rank] for rank in sorted(final)]
    if unstarted := _not_started(inside):
        return [(rank, "not started") for rank in unstarted]
    if lagging := _lagging(job, inside):
        return [(rank, "lagging") for rank in lagging]
    if all(wait.why == "together" for wait in inside):
        return []
    # Who came with another operation may have got through it, and wait in the next.
    different = sorted(final & odd)
    if different and len(different) * 2 < len(final):
        return [(rank, "mismatch") for rank in different]
    if all(wait.why == "mismatch" for wait in inside):
        return [(rank, "mismatch") for rank in _most_waited_for(final, waits)]
    return [(rank, "circle") for rank in _out_of_order(job, final, waits)]


def _out_of_order(job: TracedJob, final: frozenset[int], waits: dict[int, Wait]) -> Iterable[int]:
    """Of a circle. Where messages are waited for and nothing tells, all of it: one end may have
    sent too few, or the other expect too many."""
    if departure := find_departure(job, final, waits):
        return departure.ranks
    if missed := find_missed_message(job, final, waits):
        return [missed.rank]
    if any(waits[rank].operation.point_to_point for rank in final):
        return sorted(final)
    return _most_waited_for(final, waits)


def _reason_alone(job: TracedJob, rank: int, waits: dict[int, Wait], odd: set[int]) -> Reason:
    if job.traces[rank].absent:
        return "absent"
    waited_for = [wait for wait in waits.values() if rank in wait.others]
    # It may have come out of what it had in the place of what the others are in.
    if rank in odd and (rank in waits or any(wait.why == "mismatch" for wait in waited_for)):
        return "mismatch"
    return "missing" if rank not in waits or waited_for else "behind"


def _not_started(inside: Sequence[Wait]) -> list[int]:
    """Where the recorder knows when kernels start: the GPU of these has not come to it yet,
    those of the others wait inside."""
    if any(wait.why != "together" for wait in inside):
        return []
    unstarted = [wait.rank for wait in inside if wait.operation.state == "scheduled"]
    return unstarted if len(unstarted) * 2 <= len(inside) else []


def _lagging(job: TracedJob, inside: Sequence[Wait]) -> list[int]:
    """All are in the same operations, but the programs of most have gone on to issue others,
    and a few have not."""
    if any(wait.why not in ("together", "elsewhere") for wait in inside):
        return []
    ranks = {wait.rank for wait in inside}
    lagging = set()
    seen: set[tuple[ProcessGroup, bool, int]] = set()
    for wait in inside:
        for op in job.traces[wait.rank].pending():
            group = job.group(wait.rank, op.group)
            if op.point_to_point or (key := (group, op.point_to_point, op.number)) in seen:
                continue
            seen.add(key)
            others = ranks & {*group.members}
            lagging |= {other for other in others if job.entered(other, group, op) is False}
    return sorted(lagging) if len(lagging) * 2 <= len(ranks) else []


def _most_waited_for(final: frozenset[int], waits: dict[int, Wait]) -> list[int]:
    """Of a circle those for whom most ranks wait: if all but one came in one order, it is that
    one. Where this tells nothing, all of the circle."""
    counts = Counter(other for wait in waits.values() for other in wait.others if other in final)
    most = max(counts.values())
    return sorted(rank for rank in final if counts[rank] == most)


# --- and how it shows ---------------------------------------------------------------------


def _explaining(rank: int, reason: Reason, waits: dict[int, Wait]) -> Wait:
    """The operation in which most ranks wait for this one; or its own."""
    own = waits.get(rank)
    if own is not None and reason in ("behind", "not started", "lagging"):
        return own
    sizes: Counter[tuple[ProcessGroup, str, int]] = Counter()
    example: dict[tuple[ProcessGroup, str, int], Wait] = {}
    for wait in waits.values():
        if rank in wait.others:
            key = (wait.group, wait.operation.name, wait.operation.number)
            sizes[key] += 1
            example.setdefault(key, wait)
    if not sizes:
        return waits[rank]
    most = max(sizes.values())
    collectives = [k for k in sizes if sizes[k] == most and not example[k].operation.point_to_point]
    return example[(collectives or [k for k in sizes if sizes[k] == most])[0]]


def _folded(
    job: TracedJob,
    found: Sequence[tuple[int, Reason, Wait]],
    waits: dict[int, Wait],
    finals: Sequence[frozenset[int]],
) -> tuple[Culprit, ...]:
    folded: dict[tuple[Reason, ProcessGroup, str, int], list[tuple[int, Wait]]] = {}
    for rank, reason, wait in found:
        op = wait.operation
        folded.setdefault((reason, wait.group, op.name, op.number), []).append((rank, wait))
    culprits = []
    for (reason, group, name, number), members in folded.items():
        ranks = tuple(sorted(rank for rank, _ in members))
        op = members[0][1].operation
        waiting = [
            wait.rank
            for wait in waits.values()
            if (wait.group, wait.operation.name, wait.operation.number) == (group, name, number)
            and wait.rank not in ranks
        ]
        own = job.collectives(ranks[0], group).get(number) if reason == "mismatch" else None
        inside = waits.get(ranks[0])
        circle = next((s for s in finals if {*ranks} <= s), None) if reason == "circle" else None
        departure = find_departure(job, circle, waits) if circle else None
        missed = find_missed_message(job, circle, waits) if circle else None
        waits_in = tuple(sorted(waiting))
        culprits.append(Culprit(ranks, reason, group, op, waits_in, own, inside, departure, missed))
    return tuple(sorted(culprits, key=lambda c: (-len(c.waiting), c.ranks)))
