"""profile_document.py: profiles of many ranks -> what the page is given."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from rankdbg.frontends.html import profile_document
from rankdbg.frontends.html.document import Colouring, PageDocument, ProfileView
from rankdbg.frontends.html.page_files import page_text
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.profile_document import document_of_profile
from rankdbg.investigations.profiles.job_profiles import JobProfile
from rankdbg.investigations.profiles.profiling import RecordedFiles
from rankdbg.profiles.documents import Profile, Weighted
from rankdbg.types import Frame, Silence
from simulated_jobs import job_of
from simulated_profiles import profiled

ORIGIN = PageOrigin("rankdbg profile", "local", "2026-11-18T03:11:26+00:00")
RANKS = job_of({"dp": 4, "tp": 2})


@cache
def slow() -> PageDocument:
    return document_of_profile(profiled(RANKS, slow=[5]), ORIGIN)


def classes(colouring: Colouring) -> dict[str, str]:
    return {each["text"]: each["ranks"] for each in colouring["classes"]}


def flame_of(page: PageDocument) -> ProfileView:
    assert page["profile"] is not None
    return page["profile"]


def shares_of(view: ProfileView, function: str) -> list[int]:
    """Those of the first frame of that name, looked up at its parents where they are the same."""
    names = [view["frames"][number]["function"] for number in view["frame"]]
    node = names.index(function)
    while (shares := view["shares"][node]) is None:
        node = view["parents"][node]
    return shares


def test_the_slowest_rank() -> None:
    """The others wait for it, and what it does more is beside it."""
    verdict = slow()["verdict"]
    assert verdict["title"].startswith("Rank 5 is the slowest: it waits 1.")
    assert (verdict["culprits"], verdict["mark"]) == ("5", "the slowest")
    (fact,) = verdict["facts"]
    assert fact["name"] == "more of" and fact["text"].startswith("next_batch data.py:36")
    assert "all_reduce" in slow()["findings"]


def test_ranks_are_coloured_by_their_phases() -> None:
    """Those that are alike; then the share of each large phase, and of waiting."""
    alike, *others = slow()["colourings"]
    assert {each["ranks"] for each in alike["classes"]} == {"0-4,6-7", "5"}
    assert "data 27 %" in alike["classes"][1]["says"]
    named = {each["name"]: classes(each) for each in others}
    assert list(named) == ["backward", "forward", "communication", "optimizer", "waiting"]
    assert named["communication"] == {"25-50 %": "0-4,6-7", "under 5 %": "5"}
    assert named["waiting"] == named["communication"]


def test_no_rank_is_the_slowest_where_all_are_alike() -> None:
    page = document_of_profile(profiled(RANKS), ORIGIN)
    assert page["verdict"]["title"].startswith("Ranks 0-7: 10.0 s of the main thread")
    assert (page["verdict"]["culprits"], page["verdict"]["facts"]) == ("", [])
    assert classes(page["colourings"][0]) == {"backward 39 %": "0-7"}


def test_the_flame_graph() -> None:
    """A call tree with a share of each rank; one that is the same as the parent's is not repeated."""
    view = flame_of(slow())
    assert view["ranks"] == [*range(8)] and view["unit"] == "time" and view["least"] == 0
    assert view["parents"][0] == -1
    assert all(parent < node for node, parent in enumerate(view["parents"]))
    loads = shares_of(view, "next_batch")
    assert loads[5] > 250 and max(loads[:5] + loads[6:]) < 40
    assert shares_of(view, "MainThread") == shares_of(view, "main") == [1000] * 8
    assert view["shares"].count(None) > len(view["shares"]) / 3


def test_two_sides() -> None:
    """Ranks that were not profiled have a cell; the profiles are in the order of the recording."""
    two = [RANKS[6], RANKS[1]]
    page = document_of_profile(profiled(two, RANKS, slow=[6], diff=([1], [0])), ORIGIN)
    view = flame_of(page)
    assert view["ranks"] == [6, 1]
    assert [(side["name"], side["ranks"]) for side in view["sides"]] == [("1", "1"), ("6", "6")]
    sides, *phases = page["colourings"]
    assert sides["name"] == "sides"
    assert classes(sides) == {"not profiled": "0,2-5,7", "first side": "1", "second side": "6"}
    assert all(classes(each)["not profiled"] == "0,2-5,7" for each in phases)


def test_a_profile_without_phases() -> None:
    """Of memory: no phase and no slowest rank are known."""
    stack = Weighted("MainThread", True, (Frame("load", "/job/data.py", 3),), 4096.0)
    profile = Profile(RANKS[0], "bytes", 4096.0, (stack,))
    found = JobProfile("memory", 0, RecordedFiles(10.0), [profile], RANKS[:2], Path("profile"), [])
    page = document_of_profile(found, ORIGIN)
    assert flame_of(page)["unit"] == "memory"
    assert classes(page["colourings"][0]) == {"profiled": "0", "not profiled": "1"}


def test_nothing_was_recorded() -> None:
    """A page with a sentence."""
    recorded = RecordedFiles(0.0, no_response=[Silence(RANKS[0], "it is gone")])
    found = JobProfile("cpu", 100, recorded, [], RANKS[:1], Path("profile"), [])
    page = document_of_profile(found, ORIGIN)
    assert page["profile"] is None
    assert page["verdict"]["title"] == "Nothing was recorded of 1 rank."
    assert "it is gone" in page["findings"]


def test_frames_that_take_least_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a page has at most so many numbers; which ones is said."""
    monkeypatch.setattr(profile_document, "MOST_NUMBERS", 2 * 150)
    stacks = tuple(
        Weighted("MainThread", True, (Frame(f"layer_{n}", "/job/model.py", n),), 100.0 + n)
        for n in range(200)
    )
    whole = sum(stack.weight for stack in stacks)
    profiles = [Profile(rank, "samples", whole, stacks, 100.0) for rank in RANKS[:2]]
    found = JobProfile("cpu", 100, RecordedFiles(10.0), profiles, RANKS[:2], Path("profile"), [])
    view = flame_of(document_of_profile(found, ORIGIN))
    assert len(view["parents"]) == 150 and view["least"] == 0.38
    names = {view["frames"][number]["function"] for number in view["frame"]}
    assert "layer_199" in names and "layer_0" not in names


def test_ten_thousand_ranks_fit_into_a_mail() -> None:
    """A number for each rank and frame."""
    ranks = job_of({"dp": 1250, "tp": 8})
    page = document_of_profile(profiled(ranks, slow=[317]), ORIGIN)
    assert page["verdict"]["title"].startswith("Rank 317 is the slowest")
    assert len(page_text(page)) < 2_000_000
