"""Logs of a framework that rankdbg does not know, and rules for them: those in the page."""

from __future__ import annotations

import re
from pathlib import Path

from transcripts.machine import CHECKOUT
from transcripts.scenario import Play, Scene

PAGE = CHECKOUT / "docs/guides/add-a-rule.md"
BROKEN = ("will (try|ask) again", "will (try|ask again")


def rules_for_logs(play: Play) -> None:
    write_logs()
    (rules,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    play.run("python_error on rank 2")
    Path("rollout.toml").write_text(rules)
    play.run("reward_model_lost: 3 lines")
    Path("rollout.toml").write_text(rules.replace(*BROKEN))
    play.run("unterminated subpattern")
    Path("rollout.toml").write_text(rules)
    play.run("reward_model_lost on rank 2")


def write_logs() -> None:
    Path("logs").mkdir()
    for rank in range(4):
        lines = ["2026-03-01 10:00:00 rollout: collecting 512 episodes"]
        for step in range(3):
            lines.append(f"2026-03-01 10:0{5 + step}:00 rollout: update {step} loss 0.31")
        if rank == 1:
            lines.append("2026-03-01 10:08:10 rollout: batch is short (480 of 512)")
        if rank == 2:
            lines += FAILURE
        Path(f"logs/rank_{rank}.log").write_text("\n".join(lines) + "\n")


FAILURE = [
    "2026-03-01 10:08:20 reward: no answer after 10 s, will ask again",
    "2026-03-01 10:09:20 reward: no answer after 60 s",
    "Traceback (most recent call last):",
    '  File "/job/rollout/reward.py", line 41, in score',
    '    raise RewardError("reward model went away")',
    "rollout.errors.RewardError: reward model went away",
]

SCENARIO = [
    Scene(
        rules_for_logs,
        (
            "rankdbg doctor logs",
            "rankdbg rules check rollout.toml logs",
            "rankdbg rules check rollout.toml",
            "rankdbg doctor logs --rules rollout.toml",
        ),
    )
]
