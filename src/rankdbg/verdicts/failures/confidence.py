"""How sure a verdict is: from how much it explains, and how well the order is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.explanation import Explanation
from rankdbg.verdicts.failures.findings import PYTHON_ERROR

Level = Literal["high", "medium", "low"]
MOST = 0.8  # of all events, by which a cause that explains them is a sure one


@dataclass(frozen=True)
class Confidence:
    level: Level
    reasons: tuple[str, ...]
    runner_up: str = ""  # the mode that explains nearly as much


def how_sure(
    events: Sequence[Event],
    explanation: Explanation,
    clocks: Clocks,
    by_silence: bool = False,
    all_waited: bool = False,
) -> Confidence:
    """`by_silence`: the place of the cause is known only because it says nothing. `all_waited`: it
    has none, since the ranks of all hosts waited."""
    root = events[explanation.roots[0]]
    others = [n for n in range(len(events)) if events[n].mode != root.mode]
    explained = [n for n in others if n in explanation.explained]
    doubts: list[str] = []
    if all_waited:
        doubts.append(
            "the ranks of all hosts waited and none is missing: look at the network between the hosts"
        )
    elif root.tier >= 2:
        doubts.append("only what follows from a failure is in the logs, not the failure itself")
    if by_silence:
        doubts.append("no line names the place: its ranks are those that say nothing")
    if others and len(explained) < MOST * len(others):
        doubts.append(f"{len(others) - len(explained)} of {len(others)} events are not explained")
    runner_up = ""
    if explanation.runner_up is not None:
        rival = events[explanation.runner_up]
        runner_up = rival.mode
        if not (root.comparable and rival.comparable):
            doubts.append(f"whether it was before {rival.mode} cannot be known from the clocks")
    if root.mode == PYTHON_ERROR and not others:
        doubts.append("no rule knows this error")
    level: Level = "high" if not doubts else "medium" if root.tier < 2 else "low"
    return Confidence(level, (*doubts, *_about_clocks(clocks)), runner_up)


def _about_clocks(clocks: Clocks) -> list[str]:
    """Which clocks were set right, and by what."""
    said = []
    for clock, correction in clocks.corrections.items():
        name = f"rank {clock}" if isinstance(clock, int) else clock.rpartition("/")[2]
        if correction.ahead and correction.tie == "steps":
            said.append(
                f"the clock of {name} is {_amount(correction.ahead)}, by {correction.steps} common steps"
            )
        elif correction.ahead and correction.tie == "zone":
            said.append(f"the clock of {name} is {_amount(correction.ahead)}: another time zone")
        elif correction.tie == "none":
            said.append(f"the clock of {name} cannot be compared with the others")
    return said[:3]


def _amount(ahead: float) -> str:
    word = "ahead" if ahead > 0 else "behind"
    seconds = abs(ahead)
    if seconds >= 1800:
        return f"{seconds / 3600:.4g} h {word}"
    return f"{seconds:.1f} s {word}"
