"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from jobs import Job
from leftovers import computing_threads
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
    "chromium_browser": "browser",
}
SLOW, QUICK = 20.0, 0.5  # seconds of a test with real jobs, roughly

# What the tests take over from the shell that starts them. The rest may be of a job, a cluster or an
# editor in which they are started, and would be taken for what a test has made.
KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|PWD|TMPDIR|TZ|LANG|LC_\w+"
    r"|CI|PYTEST_\w+|COV\w+|RANKDBG_TEST\w+|RECORD_ROSTERS|PYTHONDONTWRITEBYTECODE|PYENV_ROOT"
    r"|LD_LIBRARY_PATH|(CUDA|NVIDIA|NVPL)_\w+"
    r"|(PIP|UV|NPM)_\w+|\w*PROXY|\w*CERTS?(_\w+)?|\w*CA_BUNDLE",
    re.IGNORECASE,
)


_LOADS_TORCH = re.compile(r"^(?:import|from) torch\b|^torch\b.* = ", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-torch",
        action="store_true",
        help="leave out files that load torch: that takes longer than all other unit tests",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_test = collection_path.match("test_*.py") and config.getoption("without_torch")
    return True if is_test and _LOADS_TORCH.search(collection_path.read_text()) else None


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads it
def pytest_configure(config: pytest.Config) -> None:
    if config.option.timeout is None:
        config.option.timeout = TEST_SECONDS
    for name in [name for name in os.environ if not KEPT.fullmatch(name)]:
        del os.environ[name]
    # `make test &` in a script ignores SIGINT, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Each worker runs in a corner of its own, where that is possible."""
    isolate = Path(__file__).with_name("isolate")
    if subprocess.run([isolate, "true"], capture_output=True, check=False).returncode == 0:
        for spec in specs:
            spec.python = shlex.join([str(isolate), sys.executable])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their engines, and let the files that take longest begin first: a file is one
    worker's, and all would wait for it at the end."""
    seconds: Counter[Path] = Counter()
    for item in items:
        for name in _engines(item):
            item.add_marker(name)
        slow = item.get_closest_marker("slow") and "integration" in item.path.parts
        seconds[item.path] += SLOW if slow else QUICK
    items.sort(key=lambda item: -seconds[item.path])


def pytest_collection_finish() -> None:
    """What is loaded by now stays: half a million objects that the garbage collector of each worker
    would go through again and again."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture(autouse=True, scope="module")
def no_thread_computes_on() -> Iterator[None]:
    """Of a file whose tests have ended: it would slow down all tests that this worker has yet to run."""
    yield
    computing = computing_threads()
    assert not computing, f"these threads compute on after their tests: {', '.join(computing)}"


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    name = "".join(c for c in request.node.name if c.isalnum() or c in "-_")[:40]
    job = Job(f"{name}-{os.urandom(3).hex()}", tmp_path)
    yield job
    job.end()
