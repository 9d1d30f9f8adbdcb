"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jobs import Job

# How long an example takes says more about what else runs on the machine.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


# A file is one worker's: those that take longest begin first, or all wait for them at the end.
LONGEST = [
    "why", "cluster_slurm", "cluster_ray", "hold_timeouts", "cluster_ssh", "dap", "doctor_ray",
    "uncaught", "profile", "ray_nsight", "sources", "cluster_k8s", "cluster_monarch",
    "doctor_clusters", "run_multiprocessing", "run_launchers", "stops", "collectives", "logs",
    "breaks",
]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """On CI everything is installed: a test that is skipped for want of an engine has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
        if "needs" in reason:
            report.outcome = "failed"
            report.longrepr = f"{reason}, and CI has it"
    return report


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    name = "".join(c for c in request.node.name if c.isalnum() or c in "-_")[:40]
    job = Job(f"{name}-{os.urandom(3).hex()}", tmp_path)
    yield job
    job.end()
