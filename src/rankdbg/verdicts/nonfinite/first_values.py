"""What ranks say about nan and inf -> which is the first, where it comes from, and which tensors count.

inf in a buffer is no fault: masks of attention are made of it. Nor are gradients that overflow under a
loss scaler whose scale is above 1: it skips that step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankdbg.types import ProcessKey, Rank
from rankdbg.wire.nan_answers import NanFinding, NanReport, NanTensor

Counts = tuple[int, int]  # nan, inf


@dataclass(frozen=True)
class BadTensor:
    """`groups`: ranks with the same counts, those that are finite too; the largest group first."""

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    groups: tuple[tuple[Counts, tuple[Rank, ...]], ...]

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """Those in which it is not finite."""
        return tuple(rank for counts, ranks in self.groups if any(counts) for rank in ranks)


def is_fault(tensor: NanTensor, report: NanReport) -> bool:
    if tensor.kind == "buffer":
        return tensor.nan > 0
    return not (tensor.kind == "gradient" and report.scale is not None and report.scale > 1)


def find_bad(
    ranks: Sequence[Rank], reports: Mapping[ProcessKey, NanReport], faults: bool = True
) -> list[BadTensor]:
    """In the order of the model; those that are no faults if `faults` is false."""
    found: dict[tuple[str, str], dict[ProcessKey, NanTensor]] = {}
    for rank in ranks:
        report = reports[rank.process]
        for tensor in report.tensors:
            if is_fault(tensor, report) == faults:
                found.setdefault((tensor.kind, tensor.name), {})[rank.process] = tensor
    return [_bad(kind, name, ranks, of) for (kind, name), of in found.items()]


def _bad(
    kind: str, name: str, ranks: Sequence[Rank], of: Mapping[ProcessKey, NanTensor]
) -> BadTensor:
    groups: dict[Counts, list[Rank]] = {}
    for rank in ranks:
        tensor = of.get(rank.process)
        counts = (tensor.nan, tensor.inf) if tensor is not None else (0, 0)
        groups.setdefault(counts, []).append(rank)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    first = next(iter(of.values()))
    return BadTensor(
        kind,
        name,
        first.shape,
        first.dtype,
        tuple((counts, tuple(members)) for counts, members in ordered),
    )


def first_of(found: Sequence[tuple[Rank, NanFinding]]) -> list[tuple[Rank, NanFinding]]:
    """By step, then by the clocks of the ranks; those without a step last."""

    def order(each: tuple[Rank, NanFinding]) -> tuple[float, float]:
        finding = each[1]
        return float("inf") if finding.step is None else finding.step, finding.time

    return sorted(found, key=order)


def origin_sentence(found: NanFinding) -> str:
    """Where the value comes from."""
    users = ", ".join(found.users)
    own = [each for each in found.tensors if each.role == "parameter"]
    bad = ", ".join(each.name for each in own if each.figures.nan or each.figures.inf)
    return {
        ("forward", "module"): _made_here(found),
        ("forward", "before"): f"it was already in the input: made after the output of "
        f"{found.previous}, which was finite, by operations outside of modules",
        ("forward", "data"): "it was already in the input, and no module ran before: it is in "
        "what the model was given",
        ("forward", "parameters"): f"its parameters were not finite ({bad}): an earlier step of "
        "the optimizer, or the loading of a checkpoint, made that",
        ("backward", "module"): f"the backward pass of {found.module} made it: the gradient of its "
        "output was finite, that of its input is not",
        ("backward", "one of"): f"the backward pass of one of {users} made it, which all use the "
        f"{found.which} of {found.module}",
        ("backward", "operations"): f"the backward pass of operations outside of modules made it, "
        f"after the {found.which} of {found.module}: often the loss",
        ("optimizer", "gradients"): "the gradients of all outputs of modules were finite: the "
        "gradient comes from another rank, or from the backward pass of this module",
    }.get(
        (found.phase, found.origin),
        "not known: the inputs were gone when the GPU was asked; the outputs of all modules before "
        "it were finite",
    )


def _made_here(found: NanFinding) -> str:
    if not any(each.role == "input" and each.figures.inf for each in found.tensors):
        return f"{found.module} made it: its inputs and its parameters were finite"
    since = f", since the output of {found.infinite}" if found.infinite else ""
    return f"{found.module} made it of inf: its inputs had inf{since}, but no nan"
