"""Steps in lines of logs."""

from __future__ import annotations

import re

import pytest

from rankdbg.investigations.logs.logged_steps import STEP, step_in


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step 12 loss 0.31", 12),
        ("[titan] step:  5  loss:  8.1", 5),
        ("{'loss': 0.3, 'step': 40}", 40),
        ('{"global_step": 41, "loss": 0.3}', 41),
        ("global_step=42, SamplesPerSec=3", 42),
        (" iteration       100/  500 | consumed samples: 800", 100),
        ("Epoch 2 Iter 17: 0.2 s", 17),
        ("epoch 1, steps=1_000", None),
        (" 12%|█▏        | 120/1000 [00:31<03:51,  3.81it/s]", 120),
        ("step 7 of 9 took 0.2 s", 7),
        ("step 1.5 s", None),
        ("a footstep 3", None),
        ("stepping 4", None),
        ("loading shard 3/8", None),
        ("step " + "9" * 30, None),
    ],
)
def test_step_in_a_line(line: str, step: int | None) -> None:
    """The expression that nodes search with finds at least these lines."""
    assert step_in(line) == step
    assert step is None or re.search(STEP, line)
