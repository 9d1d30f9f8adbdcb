"""ended_cards: what processes leave of themselves, and for how many."""

from __future__ import annotations

import os
from pathlib import Path

from rankdbg.process import ended_cards


def test_kept_under_pid_and_start(tmp_path: Path) -> None:
    """A later process with the same pid leaves another one."""
    for start, text in ((7, "first"), (9, "second")):
        (tmp_path / "12.json").write_text(text)
        assert ended_cards.keep(str(tmp_path / "12.json"), start)
    folder = tmp_path / ended_cards.FOLDER
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "12-7.json": "first",
        "12-9.json": "second",
    }
    assert not (tmp_path / "12.json").exists()


def test_not_more_than_some(tmp_path: Path) -> None:
    """The older half makes room."""
    folder = tmp_path / ended_cards.FOLDER
    folder.mkdir()
    for number in range(ended_cards.MOST):
        (folder / f"{number}-1.json").touch()
    (tmp_path / "5000.json").touch()
    assert ended_cards.keep(str(tmp_path / "5000.json"), 1)
    names = os.listdir(folder)
    assert len(names) == ended_cards.MOST // 2 + 1
    assert "5000-1.json" in names


def test_nothing_to_keep(tmp_path: Path) -> None:
    """The card is gone already, or there is no such directory."""
    assert not ended_cards.keep(str(tmp_path / "12.json"), 7)
    (tmp_path / "file").touch()
    assert not ended_cards.keep(str(tmp_path / "file" / "12.json"), 7)
