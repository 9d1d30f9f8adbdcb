"""The files of a snapshot: each is read when its answer is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rankdbg.clusters.snapshot.saved_answers import SavedFolder
from rankdbg.errors import DamagedSnapshot


def write(folder: Path, name: str, ask: str, **fields: Any) -> None:
    answer = {"gpus": [], "driver": "", "why": "", "pids": "", **fields}
    (folder / name).write_text(json.dumps({"question": {"ask": ask}, "answer": answer}))


def test_files_are_read_when_they_are_needed(tmp_path: Path) -> None:
    """In the order of their numbers; what is damaged is said when it is asked for."""
    for number in (10, 2):
        write(tmp_path, f"gpus-{number}.json", "gpus", why=str(number))
    (tmp_path / "stacks-3.json").write_text("[")
    saved = SavedFolder(tmp_path, tmp_path)
    assert saved.kinds() == {"gpus", "stacks"}
    assert [answer["why"] for _, answer in saved.of("gpus")] == ["2", "10"]
    assert saved.of("vitals") == []
    for read in (lambda: saved.of("stacks"), saved.all):
        with pytest.raises(DamagedSnapshot, match=r"stacks-3\.json"):
            read()


def test_file_with_another_answer(tmp_path: Path) -> None:
    """A file has the name of its question."""
    write(tmp_path, "stacks-1.json", "gpus")
    with pytest.raises(DamagedSnapshot, match=r"stacks-1\.json contains the answer to another"):
        SavedFolder(tmp_path, tmp_path).of("stacks")
