"""rankdbg stacks: one tree of all ranks, through agents and from outside."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from jobs import Job
from waiting import PATIENCE, wait_for


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def innermost(group: dict) -> str:
    return group["frames"][0]["function"]


def test_one_tree_and_the_odd_one_out(job: Job) -> None:
    """Each branch has its ranks; the smallest group comes first and is named."""
    job.start_ranks("waits", "waits", "waits_elsewhere", "waits")
    job.wait_at("waits", "waits", "waits_elsewhere", "waits")
    result = job.cli("stacks")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "4 ranks, 3 samples, nothing moved"
    assert any("waits_elsewhere behave.py" in line and line.endswith(" 2") for line in lines)
    assert any("waits behave.py" in line and line.endswith(" 0-1,3") for line in lines)
    assert any(line.startswith("2 ") and line.endswith("<- odd one out") for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_json(job: Job) -> None:
    """Groups have ranks as text, count, frames innermost first and moving; smallest first."""
    job.start_ranks("waits", "waits", "waits_elsewhere", "waits")
    job.wait_at("waits", "waits", "waits_elsewhere", "waits")
    document = job.json("stacks")
    assert document["schema"] == "rankdbg.stacks/1"
    smallest, largest = document["groups"]
    assert (smallest["ranks"], smallest["count"], smallest["moving"]) == ("2", 1, False)
    assert (largest["ranks"], largest["count"], largest["moving"]) == ("0-1,3", 3, False)
    user = [frame["function"] for frame in largest["frames"] if "behave" in frame["file"]]
    assert user == ["waits", "<module>"]
    assert set(largest["frames"][0]) == {"function", "file", "line"}
    assert document["odd"] == ["2"]
    assert document["no_response"] == []
    (root,) = document["tree"][0]["nodes"]
    assert root["ranks"] == "0-3"
    assert sorted(child["ranks"] for child in root["children"]) == ["0-1,3", "2"]


def test_what_moves_and_what_stands_still(job: Job) -> None:
    """A rank in a loop is moving, and ranks that move in the same function are one group."""
    job.start_ranks("loops", "waits", "loops")
    there = {"loops", "one", "other", "waits"}
    job.wait_for(lambda ranks: [r.where and r.where.function in there for r in ranks] == [True] * 3)
    # The loop is in one of two functions for half of its time each: that one rank is seen in
    # the same of them in all samples, and is said to move in that, happens once in 30,000.
    groups = job.json("stacks", "--samples", 16)["groups"]
    found = {g["ranks"]: (g["moving"], g["frames"][0]["function"]) for g in groups}
    assert {ranks: moving for ranks, (moving, _) in found.items()} == {"0,2": True, "1": False}
    assert found["0,2"] == (True, "loops")


def test_from_outside_sees_the_same(job: Job) -> None:
    """py-spy's stacks and the agents' are the same, so that they merge into one tree."""
    job.start_ranks("waits", "waits_elsewhere")
    job.wait_at("waits", "waits_elsewhere")
    inside = job.stacks_seen_by({"0": "agent", "1": "agent"})
    outside = job.stacks_seen_by({"0": "py-spy", "1": "py-spy"}, "--outside")
    assert inside["groups"] == outside["groups"]


def test_all_threads(job: Job) -> None:
    """--threads all shows each thread by its name; the agent's own are not shown."""
    job.start_ranks("with_threads", "with_threads")
    job.wait_at("with_threads", "with_threads")
    for way in ((), ("--outside",)):
        threads = {g["thread"] for g in job.json("stacks", "--threads", "all", *way)["groups"]}
        assert threads == {"main thread", "pump-north", "pump-south"}


def test_locals(job: Job) -> None:
    """--locals shows the variables of the user's frames, bounded."""
    job.start_ranks("waits")
    job.wait_at("waits")

    def variables(*way: str) -> Any:
        """Left out by an agent that gets no processor in time."""
        (group,) = job.json("stacks", "--locals", *way)["groups"]
        frames = group.get("locals", {}).get("0", [])
        return next((values for values in frames if "loss" in values), None)

    for way in ((), ("--outside",)):
        values = wait_for(lambda way=way: variables(*way))
        assert values["loss"] == "2.5"
        assert len(values["text"]) < 200

    def shown() -> str | None:
        text = job.cli("stacks", "--locals").stdout
        return text if "loss = 2.5" in text else None

    assert "rank 0 in waits behave.py" in wait_for(shown)


@pytest.mark.slow
def test_stopped_and_blocked_ranks_are_read_from_outside(job: Job, tmp_path) -> None:
    """SIGSTOP, state D and a held GIL: their stacks are there, with the reason, and no target
    is left in another state."""
    behaviours = ("waits", "waits", "in_state_d", "holds_gil")
    job.start_ranks(*behaviours, env={"BEHAVE_SCRATCH": str(tmp_path)})
    ranks = job.wait_at(*behaviours)
    wait_for(lambda: state_of(ranks[2].pid) == "D", "its library is made")
    os.kill(ranks[1].pid, signal.SIGSTOP)
    job.wait_for(lambda ranks: any(rank.state == "stopped" for rank in ranks))
    sources = {"0": "agent", "1": "py-spy", "2": "py-spy", "3": "py-spy"}
    assert job.stacks_seen_by(sources)["no_response"] == []
    states = [state_of(rank.pid) for rank in ranks]
    assert states[1:3] == ["T", "D"]
    assert states[0] in "SR"
    text = job.cli("stacks").stdout
    assert "state D" in text
    assert "holds the GIL" in text
    assert f"kill -CONT {ranks[1].pid}" in text


def test_a_rank_that_dies_between_listing_and_asking(job: Job) -> None:
    """It comes back as a silence with the reason; the others answer."""
    job.start_ranks("waits", "waits", "waits")
    ranks = job.wait_at("waits", "waits", "waits")
    with job.session() as session:
        listed = session.job(job.name)
        os.kill(ranks[1].pid, signal.SIGKILL)
        while state_of(ranks[1].pid) != "Z":
            pass
        seen, silent = session.stacks(listed)
        assert {sampled.rank.number for sampled in seen} == {0, 2}
        assert [silence.rank.number for silence in silent] == [1]
        assert "zombie" in silent[0].reason
        values = session.evaluate(listed, "loss")
        assert "zombie" in next(v for v in values if v.rank.number == 1).reason


def test_deep_recursion_is_bounded(job: Job) -> None:
    """Of 5,000 frames both ends are shown, and how many were left out."""
    job.start_ranks("recurses")
    job.wait_at("recurses")
    (group,) = job.json("stacks", "--samples", 1)["groups"]
    assert len(group["frames"]) < 1100
    assert any("frames left out" in frame["function"] for frame in group["frames"])


@pytest.mark.extra
@pytest.mark.slow
def test_one_mute_rank_does_not_hold_up_the_others(job: Job) -> None:
    """All answer within --timeout and the grace, however long one of them says nothing."""
    job.start_ranks("waits", "holds_gil", "waits")
    job.wait_at("waits", "holds_gil", "waits")
    begun = time.monotonic()
    document = job.json("ask", "all", "loss", "--timeout", "3")
    assert time.monotonic() - begun < 3 + PATIENCE
    assert document["groups"][0]["ranks"] == "0,2"
    assert [silence["rank"] for silence in document["no_response"]] == [1]
    assert "GIL" in document["no_response"][0]["reason"]
