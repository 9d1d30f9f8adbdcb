"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import Job


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    name = "".join(c for c in request.node.name if c.isalnum() or c in "-_")[:40]
    job = Job(f"{name}-{os.urandom(3).hex()}", tmp_path)
    yield job
    job.end()
