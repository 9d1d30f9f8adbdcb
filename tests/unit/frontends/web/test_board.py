"""board.py and looking.py: a job is looked at for its tabs, and for nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from rankdbg.errors import NoJob
from rankdbg.frontends.web import looking
from rankdbg.frontends.web.board import Board
from rankdbg.investigations.watch.live_looks import LiveLook
from simulated_jobs import stuck_job
from waiting import wait_for

FOUND = stuck_job({"pp": 1, "dp": 2, "tp": 2}, 3)
TAB, OTHER = "a tab", "another tab"


class Looks:
    """Counts them; each waits until it is let through."""

    def __init__(self) -> None:
        self.count = 0
        self.may = threading.Semaphore(0)

    def __call__(self) -> LiveLook:
        self.may.acquire()
        self.count += 1
        if self.count == 2:
            raise NoJob("no job 'train'")
        return LiveLook(FOUND, is_new=True)


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def board(looks: Looks) -> Iterator[Board]:
    board = Board()
    looking.start(board, looks, "local")
    yield board
    board.end()
    looks.may.release(100)


def told() -> tuple[list[str], Callable[[], None]]:
    news: list[str] = []
    return news, lambda: news.append("")


def test_one_look_serves_all_tabs(looks: Looks, board: Board) -> None:
    """Each is told of it."""
    (first, wake), (second, wake_other) = told(), told()
    board.set_pace(TAB, 3600.0, wake)
    board.set_pace(OTHER, 3600.0, wake_other)
    looks.may.release(5)
    wait_for(lambda: first and second, "both are told")
    assert looks.count == 1 and board.shown.status == "live"


def test_nothing_is_looked_at_without_a_tab(looks: Looks, board: Board) -> None:
    """Neither before one opens, nor when all have closed or paused."""
    looks.may.release(100)
    assert board._seconds_left(None) is None
    board.set_pace(TAB, 3600.0, lambda: None)
    wait_for(lambda: board.shown.document, "a first look")
    board.set_pace(TAB, 0.0, lambda: None)
    assert board._seconds_left(0.0) is None
    board.leave(TAB)
    assert board._seconds_left(0.0) is None and board.tabs == 0 and looks.count == 1


def test_the_tab_in_the_greatest_hurry_decides() -> None:
    """A look that is newer than its pace serves it, too."""
    board = Board()
    board.show(document={})
    board.set_pace(TAB, 3600.0, lambda: None)
    board.set_pace(OTHER, 5.0, lambda: None)
    board.set_pace("paused", 0.0, lambda: None)
    left = board._seconds_left(0.0)
    assert board._seconds_left(None) == 0.0 and left is not None and left <= 5.0


def test_a_job_that_is_gone_leaves_its_last_state(looks: Looks, board: Board) -> None:
    """With the reason, until a look succeeds again."""
    board.set_pace(TAB, 1.0, lambda: None)
    looks.may.release()
    document = wait_for(lambda: board.shown.document, "a first look")
    looks.may.release()
    wait_for(lambda: board.shown.status == "lost", "the second look fails")
    assert board.shown.problem == "No job 'train'." and board.shown.document is document
    looks.may.release()
    wait_for(lambda: board.shown.status == "live", "the third succeeds")
    assert board.shown.problem == ""
