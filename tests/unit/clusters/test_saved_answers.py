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


def test_only_the_wanted_answer_is_read(tmp_path: Path) -> None:
    """The last, or the last of the first ones; also among answers about another thing to do."""
    for number in (1, 2, 3):
        write(tmp_path, f"gpus-{number}.json", "gpus", why=str(number))
    (tmp_path / "gpus-4.json").write_text("[")
    (tmp_path / "nan-5.json").write_text('{"question": {"ask": "nan", "do": "x"}, "answer": {}}')
    (tmp_path / "nan-6.json").write_text('{"question": {"ask": "nan", "do": "y"}, "answer": {}}')
    saved = SavedFolder(tmp_path, tmp_path)
    assert [
        pair and pair[1]["why"] for pair in (saved.last_of("gpus", 1), saved.last_of("gpus", 3))
    ] == ["1", "3"]
    assert saved.last_of("vitals") is None and saved.last_of("nan") is None
    doing = [pair and pair[0]["do"] for pair in (saved.last_of("nan x"), saved.last_of("nan y"))]
    assert doing == ["x", "y"]
    with pytest.raises(DamagedSnapshot, match=r"gpus-4\.json"):
        saved.last_of("gpus")
