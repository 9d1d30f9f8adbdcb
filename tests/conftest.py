"""Fixtures for all tests."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jobs import Job
from waiting import TEST_SECONDS

# How long an example takes says more about what else runs on the machine.
# The same examples in every run: what is red is the change.
settings.register_profile(
    "any", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any")


# What a test stands on, told by the helper that it imports: pytest -m "not slow and not ray".
ENGINES = {
    "slurm_cluster": "slurm",
    "ray_cluster": "ray",
    "monarch_cluster": "monarch",
    "kubernetes_cluster": "kubernetes",
    "real_kubernetes": "kubernetes",
    "ssh_hosts": "ssh",
}
SLOW, QUICK = 20.0, 0.5  # seconds, roughly


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads it
def pytest_configure(config: pytest.Config) -> None:
    if config.option.timeout is None:
        config.option.timeout = TEST_SECONDS
    # `make test &` in a script ignores SIGINT, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their engines, and let the files that take longest begin first: a file is one
    worker's, and all would wait for it at the end."""
    seconds: Counter[Path] = Counter()
    for item in items:
        for name in _engines(item):
            item.add_marker(name)
        seconds[item.path] += SLOW if item.get_closest_marker("slow") else QUICK
    items.sort(key=lambda item: -seconds[item.path])


def _engines(item: pytest.Item) -> set[str]:
    module = getattr(item, "module", None)
    origins = (
        {getattr(value, "__module__", "") for value in vars(module).values()} if module else ()
    )
    return {ENGINES[origin] for origin in origins if origin in ENGINES}


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
