"""Which frames are the user's own code."""

from __future__ import annotations

import pytest

from rankdbg.user_code import innermost_user_frame, is_user_code

LIBRARY = "/usr/lib/python3.11/threading.py"
TORCH = "/venv/lib/python3.11/site-packages/torch/nn/module.py"
MINE = "/home/me/train.py"


@pytest.mark.parametrize("file", [LIBRARY, TORCH, "<frozen importlib._bootstrap>"])
def test_libraries(file: str) -> None:
    """The standard library, installed packages and frozen modules are not the user's."""
    assert not is_user_code(file)


@pytest.mark.parametrize("file", [MINE, "<stdin>", "/workspace/lib/data.py", "train.py"])
def test_user_code(file: str) -> None:
    """Everything else is."""
    assert is_user_code(file)


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ([LIBRARY, TORCH, MINE, MINE], 2),
        ([MINE], 0),
        ([LIBRARY, TORCH], 0),
        (["<string>", LIBRARY, MINE], 2),
        (["<string>", MINE], 0),
        ([LIBRARY, "<string>", MINE], 1),
        ([LIBRARY, "<string>"], 1),
        ([LIBRARY, "<string>", "<string>"], 1),
        ([LIBRARY, "<string>", LIBRARY, "<string>"], 1),
        (["<string>", LIBRARY, "<stdin>"], 2),
        (["<eval_with_key>.0", TORCH, MINE], 2),
        ([], 0),
    ],
)
def test_innermost(files: list[str], place: int) -> None:
    """Generated code counts where the user's own code runs it, or nothing else does."""
    assert innermost_user_frame(files) == place
