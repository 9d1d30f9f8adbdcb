"""Nodes and GPUs on the page of `--html` and of `rankdbg web`, in a real browser."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chromium_browser import Browser, check_slowed_node, started_browser
from fake_nvml import build_fake_nvml
from jobs import Job, start_demo
from rankdbg.errors import NodeFailed
from rankdbg.frontends.html.job_document import document_of
from rankdbg.frontends.html.page_files import write_page
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.wire.node_answers import Disk
from simulated_jobs import HOSTILE, stuck_job
from simulated_nodes import figures, troubled, well
from web_servers import always, served_here

ROWS = "#nodes tbody tr"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all: it takes a second to start."""
    with started_browser() as browser:
        yield browser


def stuck() -> JobVerdict:
    """On eight nodes; the culprit's is the third from the end, and does well."""
    found = stuck_job({"pp": 2, "dp": 4, "tp": 8}, 43)
    return replace(found, nodes=troubled(found.all_ranks))


def report(found: JobVerdict, place: Path) -> Path:
    file = place / "report.html"
    write_page(
        document_of(found, PageOrigin("rankdbg why", "local", "2026-11-18T03:11:26Z")), str(file)
    )
    return file


def test_the_page_of_doctor(job: Job, tmp_path: Path, browser: Browser) -> None:
    """The node of a job that runs, with its three GPUs, which are slowed. test_html_report.py has
    those of `why`, `save` and a snapshot."""
    with (tmp_path / "job.log").open("wb") as log:
        start_demo(job, tmp_path, stdout=log, stderr=log)
    job.environment["LD_LIBRARY_PATH"] = str(build_fake_nvml(tmp_path))
    file = tmp_path / "doctor.html"
    result = job.cli("doctor", "--html", file)
    assert f"report: {file}\n" in result.stderr, result.stderr
    with browser.opened(file) as opened:
        check_slowed_node(opened)


def test_the_odd_ones_are_on_top(tmp_path: Path, browser: Browser) -> None:
    """Nodes that do well are one row; a row selects its ranks, and a selection leaves their nodes."""
    with browser.opened(report(stuck(), tmp_path)) as opened:
        page = opened.page
        rows = page.locator(ROWS).all_text_contents()
        assert len(rows) == 6
        assert "no response" in rows[0] and "slowed by heat" in rows[1] and "is full" in rows[2]
        assert "GPU use 0 %, of most nodes 97 %" in rows[3]
        assert rows[4].startswith("node-05") and "healthy ← culprit here" in rows[4]
        assert rows[5].startswith("3 nodes") and rows[5].endswith("healthy")
        page.locator(ROWS, has_text="slowed by heat").click()
        assert opened.selection == "pp=0,dp=1"
        assert page.locator(ROWS).count() == 1
        assert page.locator(f"{ROWS}.on").count() == 1
        page.keyboard.press("Escape")
        assert page.locator(ROWS).count() == 6
        opened.select("pp=1,tp=0")
        assert page.locator(ROWS).count() == 4
        says = page.text_content("#nodes .says")
        assert says.startswith("of the selected ranks: 3 of 4 nodes healthy; 32 × ")
        page.locator(ROWS).first.focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.closest('#nodes') !== null")
        page.keyboard.press("Escape")
        page.get_by_role("radio", name="each").check()
        assert page.locator(ROWS).count() == 8
        page.wait_for_url("**#nodes=each")
        page.get_by_label("GPU use", exact=True).check(force=True)
        legend = page.locator(".legend tbody tr").all_text_contents()
        assert [row.partition(" ")[0] for row in legend] == ["4875-100", "8not", "8under"]


def test_a_job_whose_nodes_do_well(tmp_path: Path, browser: Browser) -> None:
    """No mark of a complaint anywhere, and none of a node without a figure."""
    found = stuck_job({"pp": 2, "dp": 4, "tp": 8}, 43)
    with browser.opened(report(replace(found, nodes=well(found.all_ranks)), tmp_path)) as opened:
        page = opened.page
        assert page.text_content("#nodes .says").startswith("8 nodes, healthy; 64 × ")
        assert page.locator("#nodes .fill-warn, #nodes .hollow, #nodes .empty").count() == 0
    with browser.opened(report(found, tmp_path)) as opened:
        assert not opened.page.is_visible("#nodes")


def test_hostile_names_do_nothing(tmp_path: Path, browser: Browser) -> None:
    """Of hosts, disks, GPUs and reasons: they are shown as they are."""
    found = stuck()
    states = well(
        [replace(found.all_ranks[0], process=found.all_ranks[0].process._replace(host=HOSTILE))]
    )
    lost = {HOSTILE: figures(1, [Disk(HOSTILE, why=HOSTILE)]), "b": NodeFailed(HOSTILE)}
    found = replace(found, nodes=NodeStates(lost, states.gpus))
    with browser.opened(report(found, tmp_path)) as opened:
        page = opened.page
        assert page.text_content("#nodes").count(HOSTILE) >= 4
        page.locator(ROWS).last.hover()
        assert HOSTILE in page.text_content("#tip")
        assert page.locator("script").count() == 2 and page.locator("img").count() == 0


def test_the_live_page_draws_what_has_passed(browser: Browser) -> None:
    """One look is a bar; of several there is a line, also in a row that is made anew."""
    with served_here(always(stuck())) as server, browser.at(server.link) as opened:
        page = opened.page
        page.wait_for_selector("#nodes .level")
        page.wait_for_selector("#nodes .spark .line", state="attached")
        assert "10 min" in page.text_content("#nodes thead")
        opened.select("8-15")
        assert page.locator("#nodes .spark .line").count() == 5 + 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_use_it(tmp_path: Path, browser: Browser, dark: bool) -> None:
    """axe-core has no finding, with and without a selection."""
    pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    axe = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
    with browser.opened(report(stuck(), tmp_path), dark) as opened:
        opened.page.evaluate(axe)
        for selected in ("", "tp=1"):
            opened.select(selected)
            told = opened.page.evaluate("() => axe.run(document)")
            assert told["passes"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in told["violations"]] == []
