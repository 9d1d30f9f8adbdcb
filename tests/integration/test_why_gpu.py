"""`why` on ranks that share a real GPU, of which one does not come to the next collective."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from chains import verdict_when
from jobs import PROGRAMS, Job, meeting
from rankdbg.node.machine.gpus import Gpus
from rankdbg.node.probes import cudagdb
from rankdbg.verdicts.hangs.case import AT_GPU

HERE = Gpus().look(time.monotonic() + 10)
RANKS = 4

pytestmark = [
    pytest.mark.skipif(not HERE["gpus"], reason=f"no GPU on this machine: {HERE['why']}"),
    pytest.mark.skipif(cudagdb.executable() is None, reason="no cuda-gdb here"),
    pytest.mark.slow,
]


def verdict_on(job: Job, kind: str, agent: bool, until: Callable[[Any], bool]) -> Any:
    command = (sys.executable, PROGRAMS / "launch.py", RANKS, PROGRAMS / "kernels_beside_gloo.py")
    process = job.start(*command, kind, agent=agent, env={**meeting(), "GLOO_SOCKET_IFNAME": "lo"})
    ready = [process.stdout.readline() for _ in range(RANKS)]
    assert all(ready), process.stderr.read()
    for output in (process.stdout, process.stderr):
        threading.Thread(target=output.read, daemon=True).start()
    return verdict_when(job, until)


def is_stuck(verdict: Any) -> bool:
    return verdict["stuck"] and verdict["waiting"] == "0-1,3"


def has_an_opinion(verdict: Any) -> bool:
    at_gpu = {entry["ranks"] for entry in verdict["ranks"] if entry["cause"] == AT_GPU}
    return is_stuck(verdict) or at_gpu == {"2"}


with_and_without = pytest.mark.parametrize("agent", [True, False], ids=["agent", "outside"])


@with_and_without
@pytest.mark.parametrize("kind", ["never_ends", "on_another_stream"])
def test_a_kernel_that_never_ends(job: Job, kind: str, agent: bool) -> None:
    """Nothing to compare: its name, and who waits."""
    verdict = verdict_on(job, kind, agent, is_stuck)
    assert (verdict["culprit"], verdict["waiting"]) == ("2", "0-1,3"), verdict
    assert verdict["cause"] == "kernel-never-ends", verdict
    (finding,) = verdict["findings"]
    assert "where at::cuda::spin_kernel (grid 1x1x1, block 1x1x1) does not end" in finding["says"]


@with_and_without
def test_a_rank_that_polls_its_gpu(job: Job, agent: bool) -> None:
    """It sleeps; what it waits for is evidence."""
    verdict = verdict_on(job, "polled", agent, is_stuck)
    assert (verdict["culprit"], verdict["cause"]) == ("2", "sleeping"), verdict
    does_not_end = "GPU of rank 2: at::cuda::spin_kernel (grid 1x1x1, block 1x1x1) does not end"
    assert does_not_end in verdict["evidence"], verdict


@with_and_without
@pytest.mark.parametrize("kind", ["one_after_another", "graphs"])
def test_kernels_that_end(job: Job, kind: str, agent: bool) -> None:
    """The twins: the others wait, and it is at work."""
    verdict = verdict_on(job, kind, agent, has_an_opinion)
    assert verdict["state"] == "moving", verdict
