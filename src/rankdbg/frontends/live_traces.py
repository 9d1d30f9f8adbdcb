"""What agents said about collectives -> the traces that a verdict is made of."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.errors import BadInput
from rankdbg.types import Answer, Silence
from rankdbg.verdicts.traces import NotADump, Trace, read_trace

_NO_TORCH = "it has not loaded torch.distributed"
_NOTHING = "its recorder is empty"


def traces_of(answers: Sequence[Answer | Silence]) -> list[Trace]:
    """A rank that did not answer is evidence too."""
    traces: dict[int, Trace] = {}
    for answer in answers:
        number = answer.rank.number
        if number is None:
            continue
        if number in traces:
            raise BadInput(
                f"two ranks have the number {number}: their collectives cannot be told apart",
                hint="choose the job: --job NAME",
            )
        traces[number] = _trace(number, answer)
    return list(traces.values())


def _trace(number: int, answer: Answer | Silence) -> Trace:
    if isinstance(answer, Silence):
        return Trace(number, absent=f"it does not answer ({answer.reason})")
    value = answer.value
    if not isinstance(value, dict) or not value.get("torch"):
        return Trace(number, remark=_NO_TORCH)
    try:
        return read_trace(number, value.get("documents", []), remark=_NOTHING)
    except NotADump as error:
        return Trace(number, absent=f"its answer is damaged: {error}")
