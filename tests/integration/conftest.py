"""Fixtures for tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import Programs
from breaking import PYTHONS, Running
from jobs import Job
from tiers import chiefly_two
from tmux_screen import OpenTop


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


@pytest.fixture(params=chiefly_two(sorted(PYTHONS)))
def running(job: Job, request: pytest.FixtureRequest) -> Iterator[Running]:
    """In each Python that is here."""
    running = Running(job, request.param)
    yield running
    running.close()


@pytest.fixture
def running_here(job: Job) -> Iterator[Running]:
    """Where the Python in the ranks does not matter."""
    running = Running(job)
    yield running
    running.close()


@pytest.fixture
def open_top(tmp_path: Path) -> Iterator[OpenTop]:
    opened = OpenTop(tmp_path)
    yield opened
    opened.close()
