"""`rankdbg web`: real jobs in a real browser, which is told what changes."""

from __future__ import annotations

import contextlib
import http.client
import importlib.resources
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from chromium_browser import Browser, OpenedPage, started_browser
from jobs import PROGRAMS, Job, rankdbg, start_demo
from rankdbg.errors import NoJob
from rankdbg.frontends.web import server as web_server
from rankdbg.investigations.watch.live_looks import LiveLook
from simulated_jobs import HOSTILE, hostile_job, moving_job, stuck_job
from waiting import PATIENCE, wait_for
from web_servers import always, served, served_here

HANGS = "Rank 5 holds up the other 7 ranks."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all: it takes a second to start."""
    with started_browser() as browser:
        yield browser


def wait_for_title(opened: OpenedPage, title: str) -> None:
    with contextlib.suppress(Exception):  # the failure says what is there instead
        opened.page.wait_for_function(
            "title => document.querySelector('h1').textContent === title", arg=title
        )
    assert opened.page.text_content("h1") == title


def test_a_job_that_hangs_recovers_and_ends(job: Job, tmp_path: Path, browser: Browser) -> None:
    """Its verdict is shown and its culprit stands out. When it makes progress, the same page says so
    and keeps the selection; when it is gone, the page says so and keeps the last state."""
    start_demo(job, tmp_path, options=("--mesh", "dp=4,tp=2"))
    wait_for(lambda: (tmp_path / "meeting/shard-0007").exists(), "rank 5 waits")
    with served(job, "--every", "1") as server, browser.at(server.link) as opened:
        page = opened.page
        assert "token" not in page.url
        wait_for_title(opened, HANGS)
        assert page.locator(".tag").first.text_content() == " [waits-for-file]"
        assert page.locator("#nodes tbody tr").count() == 1
        spots = opened.orange_spots()
        assert spots
        page.mouse.click(*spots[len(spots) // 2])
        assert opened.selection == "5"
        page.wait_for_url(f"{page.url.partition('#')[0]}#ranks=5")
        page.evaluate("window.first = document.querySelector('#selection')")
        (tmp_path / "meeting/shard-0007").write_text("1.0\n")
        wait_for_title(opened, "The job is moving.")
        assert opened.selection == "5" and opened.orange_spots() == []
        job.end_ranks()
        page.wait_for_selector(".notice:not([hidden])")
        assert re.search(
            r" This is the state at \d\d:\d\d:\d\d UTC\.$", page.text_content(".notice")
        )
        assert page.text_content("h1") == "The job is moving."
        assert page.evaluate("window.first === document.querySelector('#selection')")


def test_the_grid_is_painted_by_an_answer(job: Job, tmp_path: Path, browser: Browser) -> None:
    """The odd one out is orange, what does more than look is refused, and the address asks again."""
    start_demo(job, tmp_path, options=("--mesh", "dp=4,tp=2"))
    wait_for(lambda: (tmp_path / "meeting/shard-0007").exists(), "rank 5 waits")
    with served(job, "--every", "1") as server, browser.at(server.link) as opened:
        page = opened.page
        wait_for_title(opened, HANGS)
        page.fill(".ask input", "print(1)")
        page.press(".ask input", "Enter")
        page.wait_for_selector("text=refused: it calls print()")
        page.fill(".ask input", "WORLD")
        page.press(".ask input", "Enter")
        page.wait_for_selector(".legend th:has-text('WORLD')")
        rows = page.locator(".legend tbody tr").all_text_contents()
        assert (
            rows[0].startswith("78 int") and rows[1].startswith("1") and "← odd one out" in rows[1]
        )
        page.wait_for_url("**#colour=ask+WORLD&ask=WORLD")
        other = page.context.new_page()
        other.goto(page.url)
        other.wait_for_selector(".legend th:has-text('WORLD')")
        assert other.get_by_label("ask WORLD", exact=True).is_checked()


def test_logs_follow_the_selection(job: Job, tmp_path: Path, browser: Browser) -> None:
    """Messages of all ranks, then of those that are selected; new ones come without a reload, text
    stays text, and secrets are masked."""
    folder = tmp_path / "logs"
    folder.mkdir()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    writes = PROGRAMS / "writes_logs.py"
    job.start(sys.executable, PROGRAMS / "launch.py", 4, writes, folder, **quiet)
    wait_for(lambda: len([*folder.glob("ready-*")]) == 4, "all ranks have written")
    with served(job, "--every", "1") as server, browser.at(server.link) as opened:
        page = opened.page
        page.locator("#logs").scroll_into_view_if_needed()
        page.wait_for_selector("#logs td:has-text('gradients 1000')")
        assert "a batch was empty, key ***" in page.text_content("#logs")
        opened.select("3")
        page.wait_for_selector("#logs td:has-text('gradients 1000')", state="detached")
        page.wait_for_selector("#logs td:has-text('gradients 1003')")
        (folder / "new").write_text(HOSTILE)
        (folder / "new").rename(folder / "say")
        page.wait_for_function(
            "text => document.querySelector('#logs').textContent.includes(text)", arg=HOSTILE
        )
        page.fill("#logs input", "grad[")
        page.wait_for_selector("#logs:has-text('invalid regular expression')")
        page.fill("#logs input", "gradients")
        page.wait_for_function("() => document.querySelectorAll('#logs td').length === 3")
        assert page.locator("img").count() == 0


def test_a_snapshot_looks_the_same(job: Job, tmp_path: Path, browser: Browser) -> None:
    """It is looked at once, and has neither age nor pause. Several tabs show it, at the address of
    one of them."""
    start_demo(job, tmp_path, options=("--mesh", "dp=4,tp=2"))
    wait_for(lambda: (tmp_path / "meeting/shard-0007").exists(), "rank 5 waits")
    saved = tmp_path / "snapshot"
    assert job.cli("save", saved).returncode == 0
    job.end_ranks()
    with served(job, "-t", f"snapshot:{saved}") as server:
        with browser.at(server.link) as opened:
            wait_for_title(opened, HANGS)
            assert opened.page.text_content(".freshness") == "saved"
            assert not opened.page.is_visible("text=Pause")
            opened.select("tp=1")
            opened.page.wait_for_url("**#ranks=tp%3D1")
            other = opened.page.context.new_page()
            other.goto(opened.page.url)
            other.wait_for_selector("main .foot")
            assert other.input_value("#selection") == "tp=1"
            assert other.text_content("h1") == HANGS
        assert server.end() == (-signal.SIGINT, "")


def test_the_opened_link_works_once(job: Job, tmp_path: Path) -> None:
    """Every user can read it in the command line of the browser."""
    told = tmp_path / "told"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {told}.new && mv {told}.new {told}\n')
    browser.chmod(0o700)
    job.environment["BROWSER"] = str(browser)
    with served(job, "--open") as server:
        link = wait_for(lambda: told.exists() and told.read_text(), "the browser is started")
        assert link.partition("token=")[0] == server.link.partition("token=")[0]
        assert link != server.link
        statuses = []
        for each in (link, link, server.link, server.link):
            place = urlsplit(each)
            client = http.client.HTTPConnection(place.netloc, timeout=PATIENCE)
            client.request("GET", f"/?{place.query}")
            statuses.append(client.getresponse().status)
        assert statuses == [200, 403, 200, 200]


def test_it_ends_by_sigterm_without_a_job(job: Job) -> None:
    """There is none yet: it says so, and serves. With an open tab too it ends at once."""
    with served(job) as server:
        status, errors = server.end(signal.SIGTERM)
    assert status == -signal.SIGTERM
    assert errors.count("\n") == 1 and "the page will show it once it runs" in errors


def test_hostile_names_do_nothing(browser: Browser) -> None:
    """They are shown as they are, and a page that is told of them again stays whole."""
    calm, found = stuck_job({"pp": 1, "dp": 2, "tp": 2}, 3), hostile_job()
    looks = [found, calm, found]

    def look() -> LiveLook:
        if not looks:
            raise NoJob(HOSTILE)
        return LiveLook(looks.pop(0), is_new=True)

    with served_here(look) as server, browser.at(server.link) as opened:
        page = opened.page
        page.wait_for_selector(".notice:not([hidden])")
        assert HOSTILE in page.text_content(".notice")
        assert HOSTILE in page.text_content("header")
        assert HOSTILE in page.text_content(".icicle")
        assert page.locator("script").count() == 2 and page.locator("img").count() == 0


def test_a_change_leaves_what_the_user_does(browser: Browser) -> None:
    """What is typed, searched, chosen and focused stays, also in views that are made anew; a paused
    page waits, and a page that goes on shows the newest state."""
    sizes = {"pp": 1, "dp": 4, "tp": 2}
    shown = [stuck_job(sizes, 5)]

    def look() -> LiveLook:
        return LiveLook(shown[0], is_new=True)

    with served_here(look) as server, browser.at(server.link) as opened:
        page = opened.page
        page.get_by_label("ranks", exact=True).check(force=True)  # the width of frames
        page.get_by_label("state", exact=True).check(force=True)
        page.fill("#selection", "tp=")
        page.focus("input[type=search]")
        page.keyboard.type("main")
        before = page.text_content("h1")
        shown[0] = moving_job(sizes)
        wait_for_title(opened, "The job is moving.")
        page.keyboard.type("x")
        assert page.input_value("input[type=search]") == "mainx"
        assert page.get_by_label("ranks", exact=True).is_checked()
        assert page.get_by_label("state", exact=True).is_checked()
        page.keyboard.press("Escape")
        page.keyboard.press("p")
        page.wait_for_selector("text=Continue")
        assert page.text_content(".freshness").startswith("paused: data ")
        shown[0] = stuck_job(sizes, 5)
        wait_for(lambda: server.board.shown.found is shown[0] or _ask_for_a_look(server.board))
        assert page.text_content("h1") == "The job is moving."
        page.keyboard.press("p")
        wait_for_title(opened, before)


def _ask_for_a_look(board: object) -> bool:
    """Another tab wants one."""
    board.set_pace("another tab", 1.0, lambda: None)  # type: ignore[attr-defined]
    return False


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_use_the_page(browser: Browser, dark: bool) -> None:
    """axe-core has no finding, with and without a selection, and after a list of choices and a problem
    have appeared."""
    pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
    found = stuck_job({"pp": 4, "dp": 4, "tp": 2, "ep": 2}, 23)
    with served_here(always(found)) as server, browser.at(server.link, dark) as opened:
        opened.page.evaluate(axe)
        for selected in ("", "dp=1", "dp="):
            opened.select(selected)
            told = opened.page.evaluate("() => axe.run(document)")
            assert told["passes"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in told["violations"]] == []


def test_a_browser_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds no more than a message, and the others are told as before."""
    monkeypatch.setattr(web_server, "MOST_SECONDS_UNREAD", 0.5)
    with served_here(always(stuck_job({"pp": 1, "dp": 64, "tp": 16}, 5))) as server:
        document = wait_for_document(server)
        with server.open_tab(receives=4096) as stalled:
            wait_for(lambda: server.board.tabs == 1, "it is let in")
            server.board.show(document={**document, "sentences": ["x" * 8_000_000]})
            wait_for(lambda: server.board.tabs == 0, "it is dropped")
            assert stalled.fileno() >= 0


def wait_for_document(server: object) -> dict[str, object]:
    from rankdbg.frontends.web.board import Board

    board: Board = server.board  # type: ignore[attr-defined]
    board.set_pace("first", 3600.0, lambda: None)
    document = wait_for(lambda: board.shown.document, "a first look")
    board.leave("first")
    return {**document}


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """And the exit status is 2."""
    (tmp_path / "uvicorn.py").write_text("raise ImportError('none', name='uvicorn')")
    result = rankdbg("web", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "error: rankdbg web needs the package uvicorn, which is not installed here",
        "  hint: pip install 'rankdbg[web]'",
    ]
