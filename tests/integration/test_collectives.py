"""rankdbg collectives on real gloo jobs of four ranks, live and from the dumps they write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, rankdbg
from rankdbg.investigations.collectives.live_traces import recorded_by
from rankdbg.verdicts.collectives.worlds import judge_worlds
from torch_ranks import needs_torch
from waiting import wait_for

pytestmark = [needs_torch, pytest.mark.slow]


class Hanging:
    """A job of programs/collectives_torch.py."""

    def __init__(self, job: Job, scratch: Path) -> None:
        self.job = job
        self.dumps = scratch / "dumps"
        self.dumps.mkdir()

    def start(self, function: str) -> None:
        self.job.start_torch(4, PROGRAMS / "collectives_torch.py", function, self.dumps)
        self.job.wait_for(lambda ranks: len(ranks) == 4)

    def wait_for(self, state: str) -> Any:
        """What is found, as soon as it is in this state."""
        return self._wait_until(lambda found: found["state"] == state)

    def wait_for_guilty(
        self, culprit: str, waiting: str, also: Callable[[Any], bool] = lambda found: True
    ) -> Any:
        """Ranks that come later than others may seem to be missing, for a moment, from an
        earlier operation too: `also` tells the one that is meant."""
        expected = ("held up", culprit, waiting)
        names = ("state", "culprit", "waiting")
        return self._wait_until(
            lambda found: tuple(found[name] for name in names) == expected and also(found)
        )

    def wait_for_text(self, *parts: str) -> str:
        """What is printed, as soon as all of these are in it, wherever a line ends."""
        printed: list[str] = []

        def told() -> bool:
            printed[:] = [self.job.cli("collectives").stdout]
            text = " ".join(printed[0].split())
            return all(part in text for part in parts)

        wait_for(told, lambda: printed)
        return printed[0]

    def _wait_until(self, wanted: Callable[[Any], bool]) -> Any:
        seen: list[Any] = []

        def arrived() -> Any:
            result = self.job.cli("collectives", "--json")
            if result.returncode == 2:  # no rank has joined yet
                return None
            seen[:] = [json.loads(result.stdout)]
            return seen[0] if wanted(seen[0]) and not seen[0]["no_response"] else None

        return wait_for(arrived, lambda: seen)

    def read_dumps(self) -> Any:
        (self.dumps / "go").touch()
        wait_for(lambda: len(list(self.dumps.glob("trace_*"))) == 4, "dumps of all")
        (self.dumps / "go").unlink()
        result = rankdbg("collectives", "--json", "--dumps", self.dumps)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def hanging(job: Job, tmp_path: Path) -> Hanging:
    return Hanging(job, tmp_path)


def test_one_rank_skips_a_collective(hanging: Hanging) -> None:
    """Live and by dumps the rank that left it out, with the line at which the others wait; and
    a snapshot tells the same."""
    hanging.start("skips")
    found = hanging.wait_for_guilty(
        "2", "0-1,3", lambda found: found["culprits"][0]["entered"]["number"] == 4
    )
    (culprit,) = found["culprits"]
    assert (culprit["reason"], culprit["waiting"]) == ("missing", "0-1,3")
    assert culprit["seconds"] >= 1
    waiting, missing = found["groups"][0]["ranks"]
    assert waiting["entered"]["number"] == 4
    assert waiting["entered"]["where"]["function"] == "reduce"
    assert (missing["ranks"], missing["finished"]["number"]) == ("2", 3)
    verdict = "Rank 2 holds the others up."
    text = hanging.wait_for_text(verdict, "at forever collectives_torch.py")
    assert text.startswith(verdict)
    saved = hanging.job.cli("save", hanging.dumps.parent / "snapshot")
    assert saved.returncode == 0, saved.stderr
    again = hanging.job.json("collectives", "-t", f"snapshot:{hanging.dumps.parent / 'snapshot'}")
    assert again["culprit"] == "2"
    assert hanging.read_dumps()["culprit"] == "2"


def test_one_rank_comes_with_another_operation(hanging: Hanging) -> None:
    """It is named, with what it has and what the others have; its pickle tells its line."""
    hanging.start("other_operation")
    for found in (hanging.wait_for_guilty("1", "0-3"), hanging.read_dumps()):
        (mismatch,) = found["mismatches"]
        assert (found["culprit"], mismatch["kind"], mismatch["ranks"]) == ("1", "operation", "1")
        assert mismatch["found"]["operation"] == "broadcast"
        assert mismatch["expected"]["operation"] == "all_reduce"
        assert mismatch["found"]["where"]["function"] == "other_operation"


@pytest.mark.extra
def test_one_rank_comes_with_another_shape(hanging: Hanging) -> None:
    """gloo lets it out and the others wait: it is named, with both sizes."""
    hanging.start("other_shape")
    live = hanging.wait_for_guilty("3", "0-2", lambda found: bool(found["mismatches"]))
    for found in (live, hanging.read_dumps()):
        (mismatch,) = found["mismatches"]
        assert (found["culprit"], mismatch["kind"], mismatch["ranks"]) == ("3", "size", "3")
        assert found["culprits"][0]["reason"] == "mismatch"
        assert mismatch["found"]["input_sizes"] == [[2]]
        assert mismatch["expected"]["input_sizes"] == [[4]]


def test_a_chain_over_groups(hanging: Hanging) -> None:
    """Two wait for one that waits in another group for the culprit rank."""
    hanging.start("chain")

    def in_their_groups(found: Any) -> bool:
        missing = {group["description"]: group["missing"] for group in found["groups"]}
        return (missing.get("first"), missing.get("second")) == ("3", "2")

    hanging.wait_for_guilty("2", "0-1,3", in_their_groups)
    # gloo's dumps do not say who is in a group; that 2 alone waits for nothing does.
    assert hanging.read_dumps()["culprit"] == "2"


def test_a_recv_before_the_collective(hanging: Hanging) -> None:
    """gloo does not record send and recv: the agent sees who is in one, and from whom."""
    hanging.start("sends")

    def of_rank_3(found: Any) -> Any:
        rows = {row["ranks"]: row for row in found["groups"][0]["ranks"]}
        return rows.get("3", {}).get("entered") or {}

    found = hanging.wait_for_guilty(
        "2", "0-1,3", lambda found: of_rank_3(found).get("operation") == "recv"
    )
    assert of_rank_3(found)["peer"] == 2


def test_nothing_but_a_recv(hanging: Hanging) -> None:
    """Whoever does not send is named."""
    hanging.start("only_receives")
    hanging.wait_for_guilty("1", "0")


def test_healthy_training_is_not_accused(hanging: Hanging) -> None:
    """Collectives come and go, and no rank waits; asked often."""
    hanging.start("trains")
    hanging.wait_for("no rank waits")
    with hanging.job.session(20.0) as session:
        ranks = session.job(hanging.job.name)
        looks = [judge_worlds(recorded_by(session.collectives(ranks))) for _ in range(10)]
        accused = [world.findings.culprit_ranks for (world,) in looks]
    # A rank that gets no CPU for a second lets the others wait, on a machine that is busy.
    assert accused.count(()) >= 8, accused


@pytest.mark.parametrize(
    "roles", [("Rollout", "Trainer"), pytest.param(("", ""), marks=pytest.mark.extra)]
)
def test_two_worlds_in_one_job(job: Job, tmp_path: Path, roles: tuple[str, str]) -> None:
    """Two groups of processes with equal numbers are two worlds: the process that is missing in
    one of them is named, the other one trains on, and `why` names the same process."""
    for function, role in zip(("skips", "trains"), roles, strict=True):
        (tmp_path / function).mkdir()
        words = (PROGRAMS / "collectives_torch.py", function, tmp_path / function)
        job.start_torch(4, *words, env={"RANKDBG_ROLE": role})
    job.wait_for(lambda ranks: len(ranks) == 8)
    last: list[Any] = []

    def is_found() -> bool:
        """On a busy machine a rank of the other world may be late for a moment."""
        last[:] = [job.json("collectives")]
        return len(last[0]["processes"]) == 1 and last[0]["processes"][0]["rank"] == 2

    wait_for(is_found, lambda: last)
    (process,) = last[0]["processes"]
    assert process["role"] == roles[0]
    (words,) = job.json("ask", f"pid={process['pid']}", "__import__('sys').argv")["groups"]
    assert "'skips'" in words["value"]
    assert {group["world"] for group in last[0]["groups"]} == {0, 1}

    def is_judged() -> bool:
        last[:] = [job.json("why")]
        return [each["pid"] for each in last[0]["processes"]] == [process["pid"]]

    wait_for(is_judged, lambda: last)


def test_a_job_without_torch(job: Job) -> None:
    """Its ranks say so, and the exit status is 1."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    result = job.cli("collectives")
    assert result.returncode == 1
    assert "empty: 0-1  (it has not loaded torch.distributed)" in result.stdout
