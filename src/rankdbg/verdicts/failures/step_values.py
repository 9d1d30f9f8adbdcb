"""The numbers in the lines about steps: loss, gradient norm, throughput and step time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Measure = Literal["loss", "gradient norm", "throughput", "step time"]
Series = list[tuple[int, float]]  # steps and values, in the order of the steps

_NUMBER = r"([+-]?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\d.]*[/\w])"
_BETWEEN = r"['\"]?\s{0,8}[:=|]?\s{0,8}['\"]?(?:tensor\()?"
# Losses of reinforcement learning (pg_loss, kl_loss) are about zero and mean something else.
_READERS: dict[Measure, list[re.Pattern[str]]] = {
    "loss": [re.compile(rf"(?i)(?<![\w-])(?:lm |train(?:ing)?[_ ])?loss{_BETWEEN}{_NUMBER}")],
    "gradient norm": [
        re.compile(rf"(?i)(?<!clip_)(?<!max_)(?:grad(?:ient)?[ _]norm|gnorm){_BETWEEN}{_NUMBER}")
    ],
    "throughput": [
        re.compile(rf"(?i)(?<![\w])(?:tps|tokens/s\S{{0,12}}|samples/s\S{{0,12}})\s?[:=]\s*{_NUMBER}"),
        re.compile(rf"(?i)\bthroughput[^|:=]{{0,40}}[:=]\s*{_NUMBER}"),
        re.compile(r"(?i)(?<![\d.,])(\d[\d,]*(?:\.\d+)?) ?(?:tok(?:ens)?|samples)/s"),
    ],
    "step time": [
        re.compile(rf"(?i)elapsed time per iteration \(ms\)\s*:\s*{_NUMBER}"),
        re.compile(rf"(?i)(?:step|iter(?:ation)?)[ _]time(?:\((?:ms|s)\)|_ms|_s)?{_BETWEEN}{_NUMBER}"),
        re.compile(rf"(?i)timing_s/step:{_NUMBER}"),
    ],
}  # fmt: skip
_EVALUATION = re.compile(r"(?i)(?<![a-z])(val|valid|validation|eval\w*|test)(?![a-z])")


@dataclass(frozen=True)
class StepLine:
    """A line that says that a step is done. `who`: a rank, or the file if its rank is not known."""

    who: int | str
    step: int
    text: str


def series_of(lines: Iterable[StepLine]) -> dict[Measure, dict[int | str, Series]]:
    """By measure and rank. A step that was done again after a restart has its last value."""
    found: dict[Measure, dict[int | str, dict[int, float]]] = {name: {} for name in _READERS}
    for line in lines:
        if _EVALUATION.search(line.text):
            continue
        for name in _READERS:
            if (value := _value(name, line.text)) is not None:
                found[name].setdefault(line.who, {})[line.step] = value
    return {
        name: {who: sorted(values.items()) for who, values in by_rank.items()}
        for name, by_rank in found.items()
    }


def _value(name: Measure, text: str) -> float | None:
    for pattern in _READERS[name]:
        if match := pattern.search(text):
            value = float(match[1].replace(",", ""))
            return value if math.isfinite(value) else None
    return None
