"""`doctor --html`, `phases --html` and `collectives --html`, opened in a real browser without a network."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chromium_browser import Browser, started_browser
from jobs import rankdbg
from simulated_jobs import HOSTILE
from stories import Story
from waiting import wait_for

HOST = "node-2"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


def out_of_memory() -> Story:
    """Rank 11 fails; the others wait for it until they time out."""
    story = Story(("cuda_oom",), rank=11)
    for rank in range(story.world):
        for number in range(1, 601):
            second = 5.0 * number
            line = (
                f" [{story.at(second):%Y-%m-%d %H:%M:%S}] iteration {number:8}/    9000 | consumed samples: "
                f"{number * 512:12} | elapsed time per iteration (ms): {5000 + rank}.0 | learning rate: "
                f"1.0E-04 | global batch size:   512 | lm loss: {3 - number * 0.001:.4E} | loss scale: 1.0 |"
            )
            story.put(story.out(rank), second, line)
    error = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. {HOSTILE}"
    story.traceback(11, 3002.0, error)
    for rank in story.others(11):
        story.timeout(rank, 3603.0)
    return story


Written = Callable[..., Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The page of a verb, from the logs of that job."""
    logs = tmp_path_factory.mktemp("logs")
    out_of_memory().write(logs)

    def write(verb: str, *arguments: str | Path) -> Path:
        file = logs.parent / f"{verb}.html"
        result = rankdbg(verb, *(arguments or (logs,)), "--html", file)
        assert result.returncode in (0, 1), result.stderr
        assert f"report: {file}\n" in result.stderr
        return file

    return write


def test_doctor(written: Written, browser: Browser) -> None:
    """The cause, with what follows from it; its rank in the grid; and its mark in the time."""
    with browser.opened(written("doctor")) as opened:
        page = opened.page
        assert page.text_content("h1") == f"The job failed: cuda_oom on rank 11 ({HOST})."
        assert page.locator(".node.culprit .title").text_content() == "cuda_oom"
        spots = opened.orange_spots()
        page.mouse.click(*spots[len(spots) // 2])
        assert opened.selection == "11"
        assert page.locator(".times .miss").count() >= 1
        page.keyboard.press("Escape")
        page.get_by_role(
            "button", name=re.compile("nccl_watchdog_timeout.* on ranks 0-10,12-15")
        ).click()
        assert opened.selection == "0-10,12-15"
        assert page.is_visible("text=All findings, as text")
        page.click("summary")
        assert "nccl_watchdog_timeout" in page.text_content("#findings pre")
        assert HOSTILE in page.text_content(".said")
        assert page.locator("script").count() == 2 and page.locator("img").count() == 0


def test_a_part_of_the_time(written: Written, browser: Browser) -> None:
    """By a button, by dragging, and by the address that results."""
    file = written("doctor")
    with browser.opened(file) as opened:
        page = opened.page
        event = page.get_by_role("button", name=re.compile("cuda_oom on rank 11"))
        before = event.bounding_box()["x"]
        page.get_by_role("radio", name="10 min").check()
        wait_for(lambda: "time=" in page.evaluate("location.hash"))
        assert event.bounding_box()["x"] != before
        page.get_by_role("radio", name="all").check()
        wait_for(lambda: "time=" not in page.evaluate("location.hash"))
        chart = page.locator(".times .cover").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + 40, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + 140, box["y"] + 20, steps=5)
        page.mouse.up()
        wait_for(lambda: page.locator(".times [aria-label*=cuda_oom]").count() == 0)
        wait_for(lambda: "time=" in page.evaluate("location.hash"))
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector(".times svg")
        assert page.locator(".times [aria-label*=cuda_oom]").count() == 0
        opened.requests[:] = [
            url.partition("#")[0] for url in opened.requests if "blank" not in url
        ]


def test_a_point_of_a_chart(written: Written, browser: Browser) -> None:
    """The pointer shows step, clock and values."""
    with browser.opened(written("doctor")) as opened:
        opened.page.locator(".times .cover").first.hover()
        tip = opened.page.text_content("#tip")
        assert re.search(r"step time, step \d+", tip)
        assert re.search(r"09:\d\d:\d\d|10:\d\d:\d\d", tip) and "rank 11 5,011" in tip


def test_phases(written: Written, browser: Browser) -> None:
    with browser.opened(written("phases"), width=1280) as opened:
        page = opened.page
        assert page.text_content("h1") == "Rank 11 has logged nothing for too long."
        first = page.get_by_role("button", name=re.compile("^rank 11: step 600"))
        first.focus()
        page.keyboard.press("Enter")
        assert opened.selection == "11"
        assert page.locator(".times .row.miss").count() == 1


def test_collectives(written: Written, browser: Browser, tmp_path: Path) -> None:
    """Of dumps: the rank that is missing stands out."""
    for rank in range(4):
        entries = [
            {
                "process_group": ("0", "default_pg"),
                "collective_seq_id": number,
                "p2p_seq_id": 0,
                "op_id": number,
                "is_p2p": False,
                "profiling_name": "nccl:all_reduce",
                "input_sizes": [[8]],
                "input_dtypes": ["Float"],
                "output_sizes": [[8]],
                "output_dtypes": ["Float"],
                "state": "completed" if number < 3 else "started",
                "time_created_ns": number,
                "frames": [],
            }
            for number in range(1, 3 if rank == 2 else 4)
        ]
        dump = {
            "version": "2.9",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "entries": entries,
        }
        (tmp_path / f"dump_{rank}.json").write_text(json.dumps(dump))
    with browser.opened(written("collectives", "--dumps", tmp_path)) as opened:
        assert opened.page.text_content("h1") == "Rank 2 holds the others up."
        spots = opened.orange_spots()
        opened.page.mouse.click(*spots[len(spots) // 2])
        assert opened.selection == "2"
        assert "no process" not in opened.page.text_content("main")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_use_the_page(written: Written, browser: Browser, dark: bool) -> None:
    """axe-core has no finding, with and without a selection."""
    pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
    with browser.opened(written("doctor"), dark) as opened:
        opened.page.evaluate(axe)
        opened.page.click("summary")
        for selected in ("", "11"):
            opened.select(selected)
            told = opened.page.evaluate("() => axe.run(document)")
            assert told["passes"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in told["violations"]] == []


@pytest.mark.parametrize("verb", ["doctor", "phases"])
def test_a_page_shows_one_moment(verb: str, tmp_path: Path) -> None:
    """--follow has no end; and the place is checked before any log is read."""
    (tmp_path / "a.log").write_text("step 1\n")
    both = rankdbg(verb, tmp_path, "--follow", "--html", tmp_path / "a.html")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--html and --follow cannot be used together" in both.stderr
    nowhere = rankdbg(verb, tmp_path, "--html", tmp_path / "no/a.html")
    assert nowhere.returncode == 2 and "there is no directory" in nowhere.stderr
    assert not (tmp_path / "a.html").exists()
