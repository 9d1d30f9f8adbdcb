"""A rank that waits in a send or recv for one that is in a collective: who has left the schedule?

In each round, between two collectives of all, a stage of a pipeline sends as many messages to the
next one. Whoever has a round with another number is the one that has left the schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rankdbg.verdicts.collectives.process_groups import ProcessGroup, TracedJob
from rankdbg.verdicts.collectives.traces import Operation
from rankdbg.verdicts.collectives.waits import Wait

_ENOUGH = 2  # earlier rounds tell what is usual


@dataclass(frozen=True)
class MissedMessage:
    """A rank that has sent or received another number of messages in the last round."""

    rank: int
    other: int  # the rank at the other end
    call: str  # send or recv
    messages: int  # in the last round
    usual: int
    before: Wait  # the collective that ends the round


def find_missed_message(
    job: TracedJob, circle: Iterable[int], waits: Mapping[int, Wait]
) -> MissedMessage | None:
    """None if the histories do not tell, or are too short."""
    for rank in sorted(circle):
        wait = waits[rank]
        if not wait.operation.point_to_point:
            continue
        for other in wait.others:
            there = waits.get(other)
            if there is not None and not there.operation.point_to_point:
                found = _compare(job, wait, there)
                if found is not None:
                    return found
    return None


def _compare(job: TracedJob, sends: Wait, there: Wait) -> MissedMessage | None:
    """One end has not done what was usual, or the other one does more."""
    calls = ("recv", "send") if sends.operation.name == "send" else ("send", "recv")
    for wait, other, call in ((there, sends, calls[0]), (sends, there, calls[1])):
        rounds = _rounds(job, wait.rank, there.group, sends.group, sends.operation, call)
        *earlier, last = rounds
        usual = earlier[-1] if len(earlier) >= _ENOUGH and len({*earlier}) == 1 else 0
        left = last < usual if wait is there else last > usual
        if usual and left:
            return MissedMessage(wait.rank, other.rank, call, last, usual, there)
    return None


def _rounds(
    job: TracedJob,
    rank: int,
    of_rounds: ProcessGroup,
    of_messages: ProcessGroup,
    message: Operation,
    call: str,
) -> list[int]:
    """How many of these messages it has between each two collectives; the first, of which a part
    may be unknown, is left out. The last is the present one."""
    counts: list[int] = []
    for op in job.traces[rank].operations:
        group = job.group(rank, op.group)
        if not op.point_to_point and group == of_rounds and op.finished:
            counts.append(0)
        elif counts and (op.ends, op.name) == (message.ends, call) and group == of_messages:
            counts[-1] += 1
    return counts or [0]
