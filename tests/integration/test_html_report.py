"""`why --html`: the report of a real job, opened in a real browser without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium_browser import Browser, check_slowed_node, started_browser
from fake_nvml import build_fake_nvml
from jobs import Job, start_demo
from rankdbg import selection
from rankdbg.errors import SelectionError
from rankdbg.frontends.html.job_document import document_of
from rankdbg.frontends.html.page_files import write_page
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from simulated_jobs import HOSTILE, actors_job, hostile_job, moving_job, stuck_job
from waiting import wait_for

SIZES = {"pp": 3, "dp": 4, "tp": 4}
CULPRIT = 23


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all: it takes a second to start."""
    with started_browser() as browser:
        yield browser


def report(found: JobVerdict, place: Path) -> Path:
    file = place / "report.html"
    write_page(
        document_of(found, PageOrigin("rankdbg why", "local", "2026-11-18T03:11:26Z")), str(file)
    )
    return file


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    return report(stuck_job(SIZES, CULPRIT), tmp_path)


def test_a_real_job_and_its_snapshot(job: Job, tmp_path: Path, browser: Browser) -> None:
    """The verdict is shown, the culprit's cell stands out, and what is selected in one view is
    selected in the other. `save` and a snapshot of the job make the same page, with the job's node."""
    start_demo(job, tmp_path, options=("--mesh", "dp=4,tp=2"))
    job.environment["LD_LIBRARY_PATH"] = str(build_fake_nvml(tmp_path))
    first, second, third = (tmp_path / f"{name}.html" for name in ("why", "save", "again"))

    def written() -> bool:
        result = job.cli("why", "--html", first, "--longest", "20")
        assert result.returncode == 0, result.stderr
        assert f"report: {first}\n" in result.stderr
        return "culprit     rank 5" in result.stdout

    wait_for(written, first.read_text)
    saved = job.cli("save", tmp_path / "snapshot", "--html", second)
    assert saved.returncode == 0 and "report: " in saved.stderr, saved.stderr
    again = job.cli("why", "-t", f"snapshot:{tmp_path / 'snapshot'}", "--html", third)
    assert again.returncode == 0, again.stderr
    for file in (first, second, third):
        with browser.opened(file) as opened:
            page = opened.page
            assert page.text_content("h1") == "Rank 5 holds up the other 7 ranks."
            assert page.locator(".tag").first.text_content() == " [waits-for-file]"
            assert page.locator(".node.culprit .title").text_content() == "rank 5"
            spots = opened.orange_spots()
            assert spots
            page.mouse.click(*spots[len(spots) // 2])
            assert opened.selection == "5"
            page.keyboard.press("Escape")
            assert opened.selection == ""
            page.get_by_role("button", name=re.compile("^read_shard ")).first.click()
            assert opened.selection == "5"
            assert page.locator(".frame.miss").count() > 0
            page.keyboard.press("Escape")
            check_slowed_node(opened)
    check_stacks(job, tmp_path / "stacks.html", browser)


def check_stacks(job: Job, file: Path, browser: Browser) -> None:
    """The page of `stacks` has no verdict, and marks the odd one."""
    result = job.cli("stacks", "--html", file)
    assert result.returncode == 0 and f"report: {file}\n" in result.stderr, result.stderr
    with browser.opened(file) as opened:
        assert opened.page.text_content("h1").startswith("8 ranks, 3 samples")
        assert opened.page.locator(".facts dt").count() == 0
        opened.page.mouse.move(*opened.orange_spots()[0])
        assert opened.page.text_content("#tip b") == "rank 5"


def test_a_frame_selects_its_ranks_and_ranks_their_frames(stuck: Path, browser: Browser) -> None:
    """In both directions, and the chain and the legend too."""
    with browser.opened(stuck) as opened:
        page = opened.page
        page.get_by_role("button", name=re.compile("^gather_from_tp ")).click()
        assert opened.selection == "20-22"
        assert page.text_content(".selection output") == "3 ranks"
        opened.select("dp=1")
        missed = page.locator(".frame.miss").all_text_contents()
        assert any("reduce_gradients" in text for text in missed)
        assert not any("gather_from_tp" in text for text in missed)
        page.locator(".node", has_text="36 ranks").click()
        assert opened.selection == "dp=(0,2-3)"
        page.locator(".legend tr", has_text="next_batch").click()
        assert opened.selection == "23"
        page.wait_for_url("**/report.html#ranks=23")
        page.fill("input[type=search]", "all_gather")
        page.press("input[type=search]", "Enter")
        assert opened.selection == "20-22"


def test_dragging_and_keys_in_the_grid(stuck: Path, browser: Browser) -> None:
    """A band selects the cells that it touches; arrows move from the culprit, Shift adds."""
    with browser.opened(stuck) as opened:
        page = opened.page
        x, y = opened.orange_spots()[0]
        page.mouse.move(x - 1, y - 1)
        page.mouse.down()
        page.mouse.move(x + 30, y + 4, steps=3)
        page.mouse.up()
        picked = selection.pick(
            selection.parse(opened.selection), stuck_job(SIZES, CULPRIT).all_ranks
        )
        assert 1 < len(picked) < 10 and CULPRIT in [rank.number for rank in picked]
        page.keyboard.press("Escape")
        page.focus(".grid canvas")
        page.keyboard.press("Space")
        assert opened.selection == "23"
        page.keyboard.press("Shift+ArrowUp")
        assert opened.selection == "22-23"
        assert "rank 22" in page.text_content("[aria-live]")


SELECTIONS = [
    "all", "3", "0-6,9", "1:10:2", ":", "tp=0", "pp=2,dp=(1,3),tp=2:8", "ranks(pp=1, tp=1:4:2)",
    "host=node-0[12]", "host=node-01,8-9", "state=running", "pid=4003", "rank=3,dp=0", "tp=0; pp=1,dp=2",
]  # fmt: skip
OF_ROLES = [
    "driver", "Trainer 0-1,3", "driver, Rollout 0-3", "role=Roll*", "Rollout", "0-1, driver",
    "role=(driver,Trainer)", '"Rollout" 1:4', "Trainer; pid=9", "rank=0", "host=R,2",
]  # fmt: skip
INVALID = ["dq=1", "tp=", "99", "tp=9", "3-", "tp=0,1", "tp=0,tp=1", "ranks(3", "0-3,", "5-2", "'a"]


@pytest.mark.parametrize(
    ("found", "texts"),
    [(stuck_job(SIZES, CULPRIT), SELECTIONS), (actors_job(), OF_ROLES)],
    ids=["mesh", "roles"],
)
def test_the_box_has_the_grammar_of_the_command_line(
    found: JobVerdict, texts: list[str], tmp_path: Path, browser: Browser
) -> None:
    """It picks what selection/ picks, names it so that selection/ picks the same, and refuses what
    selection/ refuses, with a caret."""

    def picked(text: str) -> list[int]:
        return [rank.pid for rank in selection.pick(selection.parse(text), found.all_ranks)]

    with browser.opened(report(found, tmp_path)) as opened:
        for text in texts:
            opened.select(text)
            assert picked(opened.selection or "all") == picked(text), text
        for text in INVALID:
            with pytest.raises(SelectionError):
                picked(text)
            opened.select(text)
            assert "^" in opened.page.text_content("#selection-error"), text
            assert opened.page.is_visible("#selection-error"), text


def test_a_job_that_makes_progress_has_no_orange(tmp_path: Path, browser: Browser) -> None:
    """The same page, in which nothing stands out."""
    with browser.opened(report(moving_job(SIZES), tmp_path), dark=True, width=1280) as opened:
        assert opened.page.text_content("h1") == "The job is moving."
        assert opened.orange_spots() == []
        assert opened.page.locator(".hot, .fill-hot, .group-hot").count() == 0


def test_hostile_names_do_nothing(tmp_path: Path, browser: Browser) -> None:
    """Of functions, files, threads, hosts, jobs and roles: they are shown as they are."""
    found = hostile_job()
    with browser.opened(report(found, tmp_path)) as opened:
        page = opened.page
        page.mouse.move(
            *page.locator(".grid canvas").evaluate(
                "c => { const b = c.getBoundingClientRect(); return [b.left + 60, b.top + 30] }"
            )
        )
        assert page.locator("script").count() == 2 and page.locator("img").count() == 0
        assert HOSTILE in page.text_content("header")
        assert HOSTILE in page.text_content(".icicle")
