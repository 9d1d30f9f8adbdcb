"""Jobs of which no process is left, from the cards in a directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rankdbg.node.machine.processes import read_stat
from rankdbg.node.roster import ended_jobs
from rankdbg.process import ended_cards, rendezvous

LONG_AGO = 1_000_000_000.0
DEAD = 2**22 + 1  # no process has this pid, or one above it


class Left:
    """An agents' directory, and what processes have left there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "agents"
        self.directory.mkdir(0o700)
        self.log = directory / "log"
        self.log.touch()
        self._pid = DEAD

    def leave(self, rank: int, ppid: int = 7, written: float | None = None, **changes: Any) -> int:
        self._pid += 1
        labels = {"job": "train", "rank": rank, "source": "torchrun"}
        card = {
            "pid": self._pid,
            "start": 100,
            "ppid": ppid,
            "pid_namespace": rendezvous.pid_namespace(),
            "python": "3.11",
            "command": ["python", "train.py"],
            "labels": labels,
            "outputs": {"stdout": str(self.log)},
            **changes,
        }
        path = self.directory / f"{card['pid']}.json"
        path.write_text(json.dumps(card))
        if written is not None:
            os.utime(path, (written, written))
        assert ended_cards.keep(str(path), card["start"])
        return int(card["pid"])

    def found(self) -> set[int]:
        return {process.pid for process in ended_jobs.find([str(self.directory)], {})}


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def test_ranks(left: Left) -> None:
    """All of them, and not their children that have inherited a number."""
    ranks = {left.leave(rank) for rank in (0, 1)}
    left.leave(0, ppid=min(ranks))
    assert left.found() == ranks


def test_job_that_was_started_twice(left: Left) -> None:
    """The ranks of the later launcher; of one launcher, those of all attempts."""
    left.leave(0, ppid=5, written=LONG_AGO)
    attempts = {left.leave(0), left.leave(0)}
    assert left.found() == attempts


def test_logs_are_gone(left: Left) -> None:
    """The job is forgotten."""
    left.leave(0)
    left.log.unlink()
    assert left.found() == set()
    assert os.listdir(left.directory / ended_cards.FOLDER) == []


def test_process_that_has_not_ended_yet(left: Left) -> None:
    """One that exits leaves its card a moment before."""
    here = read_stat(os.getpid())
    assert here is not None
    left.leave(0, pid=os.getpid(), start=here.start)
    assert left.found() == set()
    assert len(os.listdir(left.directory / ended_cards.FOLDER)) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_file_that_is_no_card(left: Left, text: str) -> None:
    """Is removed, and the others are read."""
    rank = left.leave(0)
    folder = left.directory / ended_cards.FOLDER
    (folder / "1-1.json").write_text(text)
    assert left.found() == {rank}
    assert len(os.listdir(folder)) == 1


def test_card_of_another_namespace(left: Left) -> None:
    """Of a container with the same directory: it is not ours to judge, or to remove."""
    left.leave(0, pid_namespace="pid:[1]")
    assert left.found() == set()
    assert len(os.listdir(left.directory / ended_cards.FOLDER)) == 1


def test_folder_that_is_a_link(left: Left, tmp_path: Path) -> None:
    """Is not followed."""
    left.leave(0)
    folder = left.directory / ended_cards.FOLDER
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert left.found() == set()
