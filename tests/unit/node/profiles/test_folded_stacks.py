"""folded_stacks: what py-spy has written -> stacks with their weights."""

from __future__ import annotations

import pytest

from rankdbg.node.profiles.folded_stacks import fold


@pytest.mark.parametrize("name", ["work", "we\rird", "two\nlines", "a\x85b\u2028c", "odd\n\n1"])
def test_names_may_hold_any_character(name: str) -> None:
    """A stack ends where the next begins, whatever the names in it hold."""
    text = (
        f"thread (7): MainThread;<module> (/x/a.py:9);{name} (/x/a.py:3) 198\n"
        f"thread (8): {name};run (/x/b.py:1) 5\n"
    )
    document = fold(text, 7, 100)
    frames = [("<module>", "/x/a.py", 9), (name, "/x/a.py", 3), ("run", "/x/b.py", 1)]
    assert document["frames"] == frames
    assert document["stacks"] == [["MainThread", True, (0, 1), 198], [name, False, (2,), 5]]
    assert document["whole"] == 198
