"""Answers of agents about collectives -> traces for the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
from rankdbg.session import Session
from rankdbg.types import Rank, Reply, Silence
from rankdbg.verdicts.collectives.traces import NotADump, Trace, read_trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives, judge_worlds
from rankdbg.wire.answers import Recorders, TorchWorld

_NO_TORCH = "it has not loaded torch.distributed"
_NOTHING = "its recorder is empty"


def read_collectives(
    session: Session, chosen: Sequence[Rank], all_ranks: Sequence[Rank]
) -> CollectiveWaits:
    """All are asked, whoever is to be shown: those who wait tell about the others."""
    ranks = [rank for rank in all_ranks if rank.kind == "rank"]
    answers = session.collectives(ranks)
    return CollectiveWaits(
        judge_worlds(recorded_by(answers)),
        no_response=[answer for answer in answers if isinstance(answer, Silence)],
        all_ranks=all_ranks,
        chosen=[rank.process for rank in chosen],
    )


def recorded_by(answers: Sequence[Reply[Recorders]]) -> list[RecordedCollectives]:
    """What each process told. A rank without a response is evidence too."""
    return [_recorded(answer) for answer in answers if _number(answer) is not None]


def _number(answer: Reply[Recorders]) -> int | None:
    """torch's own, where the process knows it; else that of its label."""
    told = _world(answer).rank
    return answer.rank.number if told is None else told


def _world(answer: Reply[Recorders]) -> TorchWorld:
    return TorchWorld() if isinstance(answer, Silence) else answer.value.world


def _recorded(answer: Reply[Recorders]) -> RecordedCollectives:
    world = _world(answer)
    trace = _trace(_number(answer) or 0, answer)
    return RecordedCollectives(answer.rank, trace, store=world.store, size=world.size)


def _trace(number: int, answer: Reply[Recorders]) -> Trace:
    if isinstance(answer, Silence):
        return Trace(number, absent=f"no response ({answer.reason})")
    if not answer.value.torch:
        return Trace(number, remark=_NO_TORCH)
    try:
        return read_trace(number, answer.value.documents, remark=_NOTHING)
    except NotADump as error:
        return Trace(number, absent=f"its answer is damaged: {error}")
