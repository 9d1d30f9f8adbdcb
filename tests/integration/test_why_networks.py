"""`why` on ranks that meet, and cannot reach each other over the network that they then use."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from chains import verdict_when
from jobs import PROGRAMS, Job
from two_networks import DATA, MEETING, lose, missing, two_hosts

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.slow,
]
PORT = "29500"  # the networks are the test's own


def start_ranks(job: Job, hosts: list[list[str]], agent: bool) -> list[Any]:
    ranks = []
    for rank, enter in enumerate(hosts):
        told = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": f"{MEETING}.1"}
        env = {**told, "MASTER_PORT": PORT, "GLOO_SOCKET_IFNAME": "data", "OMP_NUM_THREADS": "1"}
        ranks.append(job.start(*enter, sys.executable, PROGRAMS / "meets.py", agent=agent, env=env))
    for process in ranks:
        assert process.stdout.readline() == "started\n"
    return ranks


@pytest.mark.parametrize(
    "agent", [True, pytest.param(False, marks=pytest.mark.extra)], ids=["agent", "outside"]
)
def test_an_interface_that_does_not_reach_the_other_node(job: Job, agent: bool) -> None:
    with two_hosts(loses=True) as hosts:
        start_ranks(job, hosts, agent)
        verdict = verdict_when(job, lambda seen: seen["stuck"] and seen["culprit"])
        assert (verdict["culprit"], verdict["cause"]) == ("1", "rank-unreachable"), verdict
        assert verdict["waiting"] == "0", verdict
        (finding,) = verdict["findings"]
        assert f"gets no answer from rank 0 at {DATA}.1:" in finding["says"], verdict
        job.end()


def test_a_link_that_goes_down(job: Job) -> None:
    """And before that, the twin."""
    with two_hosts(loses=False) as hosts:
        for process in start_ranks(job, hosts, agent=True):
            assert process.stdout.readline() == "met\n"
        verdict = verdict_when(job, lambda seen: seen["state"] in ("moving", "stuck"))
        assert verdict["state"] == "moving", verdict
        lose(hosts)
        # In the first second nothing tells lost packets from those on their way.
        verdict = verdict_when(job, lambda seen: seen["cause"] == "rank-unreachable")
        assert verdict["culprit"] in ("0", "1", "0-1"), verdict  # whoever has sent something last
        assert f" at {DATA}." in verdict["findings"][0]["says"], verdict
        job.end()
