"""Jobs that really crashed: the cause and its rank are found in what they left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crashing_clusters import CLUSTER_JOBS, ClusterJob
from crashing_hosts import GROUP_JOBS, HOSTS_JOBS, missing, run_in_group
from crashing_jobs import JOBS, RECORDS, Job, run
from crashing_pods import PODS_JOBS
from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.verdicts.failures.root_causes import diagnose
from rankdbg.verdicts.rules.log_rules import load_rules

RULES = load_rules()
ALL: dict[str, Job | ClusterJob] = {
    **JOBS,
    **CLUSTER_JOBS,
    **PODS_JOBS,
    **HOSTS_JOBS,
    **GROUP_JOBS,
}
EVERY_ONE = os.environ.get("RANKDBG_TEST_HANGS") == "all"
ANEW = ("exception", "segfault", "full_disk", "finished")


def check(job: Job | ClusterJob, folder: Path) -> None:
    found = diagnose(given_logs([str(folder)], RULES.patterns()).scan(), RULES)
    roots = [failure for failure in found.failures if failure.role == "root"]
    if not job.modes:
        assert [(failure.mode, failure.ranks) for failure in roots] == []
        return
    assert roots[0].mode in job.modes
    assert job.rank is None or roots[0].ranks == (job.rank,)
    host = job.host if isinstance(job, ClusterJob) else ""
    assert not host or roots[0].host == host


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_recorded(name: str) -> None:
    """The verdict on the recorded logs of a job that crashed is what was done to it."""
    check(ALL[name], RECORDS / name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANEW)
def test_anew(tmp_path: Path, name: str) -> None:
    """The same job, run here, gets the same verdict."""
    run(JOBS[name], tmp_path)
    check(JOBS[name], tmp_path)


# Other tests' kills are in the kernel's log too, and a limit cannot be set everywhere.
@pytest.mark.slow
@pytest.mark.skipif(
    not EVERY_ONE or bool(missing()), reason="made anew with RANKDBG_TEST_HANGS=all"
)
def test_memory_limit_anew(tmp_path: Path) -> None:
    """A rank that its group's limit kills, and the kernel's messages of this machine about it."""
    run_in_group(GROUP_JOBS["group_limit"], tmp_path)
    check(GROUP_JOBS["group_limit"], tmp_path)
