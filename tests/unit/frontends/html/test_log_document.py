"""log_document.py: what logs tell -> what the page is given."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from rankdbg.frontends.html.document import PageDocument
from rankdbg.frontends.html.log_document import document_of_logs, document_of_phases
from rankdbg.frontends.html.page_files import page_text
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.investigations.logs.job_files import JobState
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.investigations.logs.rank_phases import RankPhases
from rankdbg.verdicts.failures.done_steps import LoggedStep
from rankdbg.verdicts.failures.job_phases import Course, RankPhase
from rankdbg.verdicts.failures.log_lines import Origin
from rankdbg.verdicts.failures.root_causes import Diagnosis
from rankdbg.verdicts.rules.log_rules import PhaseRule, load_rules
from stories import Story

ORIGIN = PageOrigin("rankdbg doctor", "logs", "2026-11-18T03:11:26+00:00")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 3 has a total capacity of 79.11 GiB."
RULES = load_rules()
SECRET = "hf_" + "a1B2c3D4e5" * 4


def failed() -> Story:
    """Rank 3 is out of memory; the others wait for it until they time out."""
    story = Story(("cuda_oom",), rank=3)
    story.steps(400.0)
    story.traceback(3, 402.0, f"{OOM} token={SECRET}")
    for rank in story.others(3):
        story.timeout(rank, 1003.0)
    return story


def healthy() -> Story:
    story = Story(())
    story.steps(400.0)
    return story


def page_of(story: Story, folder: Path) -> PageDocument:
    story.write(folder)
    scans = given_logs([str(folder)], RULES.patterns()).scan()
    return document_of_logs(LogDiagnosis.of(scans, RULES, None), ORIGIN)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> PageDocument:
    return page_of(failed(), tmp_path_factory.mktemp("failed"))


def test_the_verdict(page: PageDocument) -> None:
    """What the terminal says, and what follows from it as boxes with an arrow to the cause."""
    verdict = page["verdict"]
    assert verdict["title"] == "The job failed: cuda_oom on rank 3 (node-1)."
    assert verdict["says"].endswith("32 files read") and "(zone unknown)" in verdict["says"]
    assert [fact["name"] for fact in verdict["facts"]] == ["cause", "next"]
    assert verdict["facts"][0]["tag"] == "cuda_oom"
    assert verdict["facts"][0]["more"].endswith("3/stderr.log:6")
    assert verdict["confidence"] == "high"
    assert (verdict["culprits"], verdict["mark"]) == ("3", "failed first")
    *follow, cause = verdict["nodes"]
    assert (cause["role"], cause["title"], cause["hot"]) == ("cause", "cuda_oom", True)
    assert {node["ranks"] for node in follow} == {"0-2,4-15"}
    assert {edge["target"] for edge in verdict["edges"]} == {len(follow)}
    assert "10 min later" in {edge["label"] for edge in verdict["edges"]}


def test_ranks(page: PageDocument) -> None:
    """Each has the failure that is nearest to the cause, and its last phase."""
    assert page["ranks"]["numbers"] == [*range(16)]
    assert page["ranks"]["hosts"] == ["node-1", "node-2"]
    failure, phase = page["colourings"]
    assert (failure["name"], phase["name"]) == ("failure", "last phase")
    *others, first = failure["classes"]
    assert (first["text"], first["ranks"], first["odd"]) == ("cuda_oom", "3", True)
    assert [each["ranks"] for each in others] == ["0-2,4-15"]
    assert {each["says"] for each in others} == {"follows from it"}


def test_time(page: PageDocument) -> None:
    """Marks for the failures, and charts of what the steps print, on one clock: that of the logs."""
    times = page["times"]
    assert times is not None
    cause, *follow = times["marks"]
    assert (cause["kind"], cause["ranks"]) == ("cause", "3")
    assert {mark["kind"] for mark in follow} == {"follows"}
    assert {chart["name"] for chart in times["charts"]} == {"throughput", "loss", "gradient norm"}
    loss = next(chart for chart in times["charts"] if chart["name"] == "loss")
    assert (loss["count"], loss["of"]) == (16, "ranks")
    assert [line["name"] for line in loss["lines"] if line["odd"]] == ["rank 3"]
    # 9:30 and 60 s, as it is printed, whatever the zone of this machine.
    assert loss["times"][0] % 86400 == 9 * 3600 + 31 * 60
    assert times["begin"] <= loss["times"][0] < cause["time"] < times["end"]


def test_secrets_are_masked(page: PageDocument) -> None:
    assert "CUDA out of memory" in page["findings"]
    assert SECRET not in json.dumps(page)


def test_secrets_in_notes_are_masked() -> None:
    """They name files and processes, in the list of notes and in the text of all findings."""
    state = JobState(notes=[f"events of the pods could not be read: HF_TOKEN={SECRET}"])
    page = document_of_logs(LogDiagnosis.of([], RULES, state), ORIGIN)
    assert "events of the pods" in page["verdict"]["notes"][0]
    assert "events of the pods" in page["findings"]
    assert SECRET not in json.dumps(page)


def test_a_job_that_has_not_failed(tmp_path: Path) -> None:
    """Nothing stands out, and the numbers of its steps are there."""
    page = page_of(healthy(), tmp_path)
    verdict = page["verdict"]
    assert (verdict["title"], verdict["facts"], verdict["culprits"]) == (
        "Nothing has failed.",
        [],
        "",
    )
    assert not any(each["odd"] for c in page["colourings"] for each in c["classes"])
    times = page["times"]
    assert times is not None and times["marks"] == []
    assert not any(row["stalled"] for row in times["rows"])
    assert not any(line["odd"] for chart in times["charts"] for line in chart["lines"])


STEPS = PhaseRule((), stack="megatron", phase="step", repeats=True, quiet=600.0)
START = PhaseRule((), stack="megatron", phase="model")


@cache
def course(
    rank: int | None, silent: float = 1.0, actor: str = "", pid: int | None = None
) -> Course:
    stays = (
        RankPhase(START, 1000.0, 1060.0, False, None, "model"),
        RankPhase(STEPS, 1060.0, 1400.0, False, 12, "step"),
    )
    return Course(Origin(rank=rank, actor=actor, pid=pid), f"{actor}{rank}.log", stays, silent)


def test_phases() -> None:
    """Ranks that went the same way are one row; those that are overdue are the first."""
    courses = [course(n, 900.0 if n == 5 else 1.0) for n in range(8)]
    page = document_of_phases(RankPhases(courses), ORIGIN)
    assert page["verdict"]["title"] == "Rank 5 has logged nothing for too long."
    times = page["times"]
    assert times is not None and times["phases"] == ["model", "step"]
    overdue, others = times["rows"]
    assert (overdue["ranks"], overdue["stalled"], overdue["silent"]) == ("5", True, 900.0)
    assert (others["ranks"], others["stalled"]) == ("0-4,6-7", False)
    assert [stay["text"] for stay in others["stays"]] == ["model", "step 12"]
    assert (page["verdict"]["culprits"], page["verdict"]["mark"]) == ("5", "overdue")


def test_no_rank_is_overdue() -> None:
    page = document_of_phases(RankPhases([course(n) for n in range(4)]), ORIGIN)
    assert page["verdict"]["title"] == "No rank is overdue."
    assert page["verdict"]["culprits"] == ""


def test_actors_with_the_same_numbers() -> None:
    """A number alone is that of the class with most ranks."""
    courses = [course(n, 1.0, "Rollout") for n in range(4)]
    courses += [course(n, 1.0, "Trainer") for n in range(2)]
    courses.append(course(7))
    page = document_of_phases(RankPhases(courses), ORIGIN)
    ranks = page["ranks"]
    names = [
        (ranks["roles"][role], n) for role, n in zip(ranks["role"], ranks["numbers"], strict=True)
    ]
    assert names == [
        *(("Rollout", n) for n in (0, 1, 2, 3, 7)),
        *(("Trainer", n) for n in range(2)),
    ]
    assert [each["ranks"] for each in page["colourings"][0]["classes"]] == ["0-6"]


def test_ten_thousand_ranks() -> None:
    """The page stays small: a chart has as many points for any number of ranks and steps."""
    steps = [
        LoggedStep(f"{rank}.log", number, rank, str(number), 1000.0 + number, True, f"step {number} loss: {rank}")
        for rank in range(10_000)
        for number in range(16)
    ]  # fmt: skip
    courses = [course(rank, 900.0 if rank == 77 else 1.0) for rank in range(10_000)]
    found = LogDiagnosis([], courses, Diagnosis((), (), steps=steps))
    page = document_of_logs(found, ORIGIN)
    assert len(page_text(page)) < 1_000_000
    assert page["times"] is not None and len(page["times"]["rows"]) == 2
