"""What is typed at a prompt: where the selection ends and the command begins."""

from __future__ import annotations

import pytest

from rankdbg.frontends.commands.commands import split_selection


@pytest.mark.parametrize(
    ("line", "ranks", "rest"),
    [
        ("all p x", "all", "p x"),
        ("0-3 5", "0-3", "5"),
        ("ranks(tp=0, dp=1) p x", "ranks(tp=0, dp=1)", "p x"),
        ("driver p x", "driver", "p x"),
        ("Rollout 0-3 p x", "Rollout 0-3", "p x"),
        ("driver, Rollout 0-3,5, Trainer p x", "driver, Rollout 0-3,5, Trainer", "p x"),
        ('"my role" 0-3 p "a b"', '"my role" 0-3', 'p "a b"'),
        ("2, thread=trainer p x", "2, thread=trainer", "p x"),
        ('thread="Thread-7 (pump)" n', 'thread="Thread-7 (pump)"', "n"),
        ("Rollout 1; pid=4711 n", "Rollout 1; pid=4711", "n"),
        ("all", "all", ""),
    ],
)
def test_split(line: str, ranks: str, rest: str) -> None:
    """What rankdbg prints for ranks can be pasted before a command."""
    assert split_selection(line) == (ranks, rest)
