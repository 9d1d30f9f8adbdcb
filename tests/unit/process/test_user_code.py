"""Which frames are the user's own code."""

from __future__ import annotations

import pytest

from rankdbg.process.user_code import innermost_user_frame, is_user_code, plumbing

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


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/usr/lib/python3.11/asyncio/base_events.py", "asyncio"),
        ("/venv/lib/python3.11/site-packages/ray/_private/worker.py", "ray"),
        ("/venv/lib/python3.11/site-packages/monarch/_src/actor/actor_mesh.py", "monarch"),
        ("/venv/lib/python3.11/site-packages/rankdbg/agent/entries.py", "rankdbg"),
        ("/home/me/src/rankdbg/agent/entries.py", "rankdbg"),
        ("/home/me/asyncio/train.py", ""),
        ("/home/me/ray/train.py", ""),
        ("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", ""),
        ("/usr/lib/python3.11/threading.py", ""),
        ("train.py", ""),
    ],
)
def test_plumbing(file: str, owner: str) -> None:
    """Whose frames lie between functions of the user's; a user's own folder of that name is not."""
    assert plumbing(file) == owner
