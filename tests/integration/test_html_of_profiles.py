"""`profile --html` and the flame graph of `profile`, in a real browser without a network."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chromium_browser import Browser, OpenedPage, started_browser
from jobs import Job, rankdbg, start_demo
from rankdbg.frontends.html.page_files import write_page
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.profile_document import document_of_profile
from rankdbg.investigations.profiles.job_profiles import JobProfile
from rankdbg.profiles import flame, tree
from rankdbg.profiles.documents import Weighted
from rankdbg.types import Frame
from simulated_jobs import HOSTILE, job_of
from simulated_profiles import profiled

ORIGIN = PageOrigin("rankdbg profile", "local", "2026-11-18T03:11:26+00:00")
RANKS = job_of({"dp": 4, "tp": 2})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all: it takes a second to start."""
    with started_browser() as browser:
        yield browser


def report(found: JobProfile, place: Path) -> Path:
    file = place / "report.html"
    write_page(document_of_profile(found, ORIGIN), str(file))
    return file


def frame_of(opened: OpenedPage, function: str, tint: str = "") -> str:
    """The class of a frame, and what it says."""
    frame = opened.page.locator(f"#profile .frame{tint}", has_text=function).first
    return f"{frame.get_attribute('class')}: {frame.text_content()}"


def test_a_real_job(job: Job, tmp_path: Path, browser: Browser) -> None:
    """The page of the command, and the flame graph in its folder; both open, and load nothing."""
    start_demo(job, tmp_path, options=("--mesh", "dp=4,tp=2"))
    file = tmp_path / "profile.html"
    words = ("--seconds", "1", "--output", tmp_path / "profile", "--html", file)
    result = job.cli("profile", *words)
    assert result.returncode == 0 and f"report: {file}\n" in result.stderr, result.stderr
    with browser.opened(file) as opened:
        assert opened.page.is_visible("#profile .frame:has-text('train')")
        assert opened.page.locator(".grid canvas").count() == 1
        assert "rankdbg profile --html" in opened.page.text_content(".foot")
    with browser.opened(tmp_path / "profile/flame.html") as opened:
        assert opened.page.is_visible(".frame:has-text('train')")


def test_nsys_has_a_viewer_of_its_own(tmp_path: Path) -> None:
    """It is refused before anything is recorded."""
    result = rankdbg("profile", "--kind", "nsys", "--html", tmp_path / "profile.html")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--html does not work with --kind nsys" in result.stderr


def test_the_slowest_rank_against_the_others(tmp_path: Path, browser: Browser) -> None:
    """What it does more and less, by colour and sign; a frame selects the ranks that do more of it,
    and a selection is compared with the others."""
    with browser.opened(report(profiled(RANKS, slow=[5]), tmp_path)) as opened:
        page = opened.page
        assert page.text_content("#profile .says") == "rank 5 against the others"
        assert re.search(r"more-3: .* \+2\d", frame_of(opened, "next_batch"))
        assert re.search(r"less-3: .* −2\d", frame_of(opened, "all_reduce"))
        assert frame_of(opened, "train_step").startswith("frame: ")
        page.locator("#profile .frame", has_text="next_batch").click()
        assert opened.selection == "5"
        page.keyboard.press("Escape")
        opened.select("dp=0")
        assert page.text_content("#profile .says") == "ranks dp=0 against the others"
        assert page.locator("#profile .more-3").count() == 0
        page.focus("#selection")
        page.fill("#selection", "")
        page.press("#selection", "Enter")
        page.get_by_role("radio", name="all", exact=True).check()
        assert "where one differs" in page.text_content("#profile .says")
        page.get_by_role("radio", name="heartbeat").check()
        assert page.is_visible("#profile .frame:has-text('beat')")
        page.wait_for_url("**#thread=heartbeat&flame=all")


def test_two_sides(tmp_path: Path, browser: Browser) -> None:
    """Their difference first; Enter and arrows work, and the search counts."""
    found = profiled([RANKS[0], RANKS[5]], RANKS, slow=[5], diff=([0], [1]))
    with browser.opened(report(found, tmp_path)) as opened:
        page = opened.page
        assert page.text_content("#profile .says") == "ranks 5 against 0"
        page.locator("#profile .frame", has_text="train_step").focus()
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.className").startswith("frame")
        page.keyboard.press("f")
        page.keyboard.type("linear")
        assert page.text_content("#profile [role=status] >> nth=1") == "2 frames"


def test_ranks_that_are_alike(tmp_path: Path, browser: Browser) -> None:
    """Nothing is coloured, in the grid or in the graph."""
    with browser.opened(report(profiled(RANKS), tmp_path)) as opened:
        assert opened.orange_spots() == []
        assert opened.page.locator("#profile [class*=more-], #profile [class*=less-]").count() == 0


def hostile(found: JobProfile) -> JobProfile:
    stack = Weighted(HOSTILE, True, (Frame(HOSTILE, f"/job/{HOSTILE}.py", 1),), 100.0)
    profiles = [replace(each, stacks=(*each.stacks, stack)) for each in found.profiles]
    return replace(found, profiles=profiles)


def test_hostile_names_do_nothing(tmp_path: Path, browser: Browser) -> None:
    """Of threads, functions and files."""
    with browser.opened(report(hostile(profiled(RANKS)), tmp_path)) as opened:
        page = opened.page
        page.get_by_role("radio", name=HOSTILE).check()
        page.locator("#profile .frame").last.hover()
        assert HOSTILE in page.text_content("#tip")
        assert HOSTILE in page.text_content("#profile .icicle")
        assert page.locator("script").count() == 2 and page.locator("img").count() == 0


def findings_of_axe(opened: OpenedPage) -> Sequence[object]:
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
    opened.page.evaluate(axe)
    told = opened.page.evaluate("() => axe.run(document)")
    assert told["passes"]
    return [(each["id"], each["nodes"][0]["html"]) for each in told["violations"]]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_use_it(tmp_path: Path, browser: Browser, dark: bool) -> None:
    """axe-core has no finding, with and without a selection."""
    pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    with browser.opened(report(profiled(RANKS, slow=[5]), tmp_path), dark) as opened:
        assert findings_of_axe(opened) == []
        opened.select("tp=1")
        assert findings_of_axe(opened) == []


def flame_graph(place: Path, slow: Sequence[int] = ()) -> Path:
    """The file that `profile` leaves in its folder, of a job with hostile names."""
    file = place / "flame.html"
    found = hostile(profiled(RANKS, slow=slow)).profiles
    sides = {"0-4,6-7": [0, 1, 2, 3, 4, 6, 7], "5": [5]}
    names = [str(rank.number) for rank in RANKS]
    file.write_text(flame.page(tree.grow(found), names, HOSTILE, "time", sides))
    return file


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_flame_graph_of_the_folder(tmp_path: Path, browser: Browser, dark: bool) -> None:
    """By keys alone, with signs beside the colours, and without a finding of axe-core."""
    pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    with browser.opened(flame_graph(tmp_path, [5]), dark) as opened:
        page = opened.page
        loads = page.locator(".frame", has_text="next_batch")
        assert "more-3" in loads.get_attribute("class")
        assert re.fullmatch(r"next_batch.*\+2\d", loads.text_content())
        page.keyboard.press("f")
        page.keyboard.type("linear")
        assert page.text_content("#hits") == "2 frames"
        page.keyboard.press("Escape")
        loads.focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        assert page.locator(".frame").first.text_content().startswith("train_step")
        page.keyboard.press("Escape")
        assert page.locator(".frame").first.text_content().startswith("all")
        assert HOSTILE in page.text_content("#graph") and page.text_content("h1") == HOSTILE
        assert page.locator("script").count() == 2 and page.locator("img").count() == 0
        assert findings_of_axe(opened) == []


def test_a_flame_graph_of_ranks_that_are_alike(tmp_path: Path, browser: Browser) -> None:
    """No more colour than chance gives a rank."""
    with browser.opened(flame_graph(tmp_path)) as opened:
        assert opened.page.locator(".more-2, .more-3, .less-2, .less-3").count() == 0
