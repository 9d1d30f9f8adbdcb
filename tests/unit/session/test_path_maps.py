"""Folders here and folders where the ranks run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankdbg.errors import BadInput
from rankdbg.session import path_maps


def test_there_and_back(tmp_path: Path) -> None:
    """A file below a mapped folder has its other name; the most exact map counts."""
    (tmp_path / "src" / "deep").mkdir(parents=True)
    maps = path_maps.parse([f"{tmp_path}/src=/job/src/", f"{tmp_path}/src/deep=/other"])
    assert maps.remote(f"{tmp_path}/src/train.py") == "/job/src/train.py"
    assert maps.remote(f"{tmp_path}/src/deep/a.py") == "/other/a.py"
    assert maps.local("/job/src/x/train.py") == f"{tmp_path}/src/x/train.py"
    assert maps.remote("/elsewhere/train.py") == "/elsewhere/train.py"
    assert maps.local("/job/srcs/train.py") == "/job/srcs/train.py"


@pytest.mark.parametrize("text", ["", "x", "=/a", "/tmp=", "/tmp=relative", "/no/such/folder=/a"])
def test_bad_maps(text: str) -> None:
    """What is not LOCAL=REMOTE, or is not there, is refused."""
    with pytest.raises(BadInput):
        path_maps.parse([text])
