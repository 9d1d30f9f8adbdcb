"""Loss and gradients that are no numbers: at which step, on which rank first.

A loss that is nan on one rank makes the reduced gradients of all ranks nan in the same step, and
their losses in the next one: clocks cannot tell who was first, steps can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.failures.findings import Finding
from rankdbg.verdicts.rules import clues

LOSS, GRADIENTS = "nan_loss", "nan_grad_norm"
_STEP = re.compile(
    r"(?i)(?<![a-z])(?:global_?step|steps?|iterations?|iter|update)\W{0,3}[=:# ]\s*\[?(\d{1,9})(?![\d.])"
    r"|(?<![a-z])iteration\s+(\d{1,9})"
)
_BAD = re.compile(
    r"(?i)(?<![a-z_])(?:\w{1,12}[ _])?(?:loss|grad(?:ient)?[ _]?norm|gnorm)['\"]?\W{1,6}(?:tensor\()?[+-]?"
    r"(?:nan|inf(?:inity)?)(?![a-z])"
)
_GOOD = re.compile(r"(?i)(?<![a-z_])(?:\w{1,12}[ _])?loss['\"]?\W{1,6}(?:tensor\()?[+-]?\d")


def step_in(text: str) -> int | None:
    found = _STEP.search(text)
    return int(found[1] or found[2]) if found else None


def is_bad(text: str) -> bool | None:
    """Whether a line about a step has a loss or gradients that are no number; None: it has none."""
    if _BAD.search(text):
        return True
    return False if _GOOD.search(text) else None


def where_it_began(findings: Sequence[Finding], last_good: int | None) -> list[Finding]:
    """Of lines with such values, only those of the first step that has them, and of these, those
    about the loss; all other findings unchanged. `last_good`: the last step with a number; lines
    without a step are then kept, because they may be about a later failure."""
    values = [finding for finding in findings if finding.mode in (LOSS, GRADIENTS)]
    steps = {id(f): step for f in values if (step := step_in(f.text)) is not None}
    if not steps:
        return [*findings]
    lasting = {step for step in steps.values() if last_good is None or step > last_good}
    first = min(lasting or steps.values())
    begun = [f for f in values if steps.get(id(f)) == first]
    losses = [finding for finding in begun if finding.mode == LOSS] or begun
    kept = {id(finding) for finding in losses}
    if not lasting:
        kept |= {id(finding) for finding in values if id(finding) not in steps}
    return [f for f in findings if f.mode not in (LOSS, GRADIENTS) or id(f) in kept]


@dataclass(frozen=True)
class BadValues:
    """Since when a job has trained with values that are no numbers, and what it has saved since."""

    step: int | None
    poisoned: tuple[int, ...] = ()  # steps of checkpoints
    last_good: int | None = None  # the checkpoint before


def bad_values(first: Finding, scans: Sequence[FileScan]) -> BadValues | None:
    """`first`: the line that shows the cause; None if it is not about such a value."""
    if first.mode not in (LOSS, GRADIENTS):
        return None
    step = step_in(first.text)
    saved = {
        (int(found["step"] or found["number"]), scan.path == first.path, hit.offset)
        for scan in scans
        for hit in scan.hits
        if hit.pattern == clues.CHECKPOINT and (found := clues.find(clues.SAVED, hit.text))
    }
    if step is not None:
        bad = {number for number, _, _ in saved if number >= step}
    else:
        bad = {number for number, here, offset in saved if here and offset > first.offset}
    good = {number for number, _, _ in saved} - bad
    return BadValues(step, tuple(sorted(bad)), max(good, default=None))
