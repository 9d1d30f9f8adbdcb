"""The pictures of pages in docs/images, of simulated jobs: `make screenshots`.

report-page.png    why --html: 512 ranks, of which one holds up the others
live-page.png      the same job in rankdbg web
doctor-page.png    doctor --html: a rank that gets slower, and runs out of memory
nodes-of-a-page.png    the nodes of the first job, of which some do not do well
profile-page.png   profile --html: a rank that loads data while the others wait
"""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests/support")]

from chromium_browser import Browser, OpenedPage, started_browser  # noqa: E402
from rankdbg.frontends.html.job_document import document_of  # noqa: E402
from rankdbg.frontends.html.log_document import document_of_logs  # noqa: E402
from rankdbg.frontends.html.page_files import write_page  # noqa: E402
from rankdbg.frontends.html.page_origin import PageOrigin  # noqa: E402
from rankdbg.frontends.html.profile_document import document_of_profile  # noqa: E402
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis  # noqa: E402
from rankdbg.investigations.logs.log_sources import given_logs  # noqa: E402
from rankdbg.verdicts.rules.log_rules import load_rules  # noqa: E402
from simulated_jobs import job_of, stuck_job  # noqa: E402
from simulated_nodes import troubled  # noqa: E402
from simulated_profiles import profiled  # noqa: E402
from stories import Story  # noqa: E402
from web_servers import always, served_here  # noqa: E402

IMAGES = HERE / "images"
SIZES, CULPRIT = {"pp": 4, "dp": 16, "tp": 8}, 317
TIME = "2026-11-18T03:11:26+00:00"
WIDTH, HEIGHT = 1280, 900
HOSTS = tuple(f"gpu-{number:02d}" for number in range(1, 5))
STEPS, SLOW, MEMORY = 500, 19, 3.0


def logged_job() -> Story:
    """Rank 19 gets slower while its memory runs out; then the others wait for it."""
    story = Story((), hosts=HOSTS)
    dice = random.Random(7)
    for rank in range(story.world):
        second = 60.0
        for step in range(1, STEPS + 1):
            late = 3.6 * max(0.0, step - 400) / 100 if rank == SLOW else 0.0
            second += 6.0 + 3.6 * max(0.0, step - 400) / 100
            loss = 1.9 + 6 * math.exp(-step / 90) + dice.gauss(0, 0.02)
            line = (
                f" [{story.at(second):%Y-%m-%d %H:%M:%S}] iteration {step:8}/    9000 | consumed samples: "
                f"{step * 512:12} | elapsed time per iteration (ms): {6000 + 1000 * late + dice.gauss(0, 40):.1f}"
                f" | learning rate: 1.0E-04 | global batch size:   512 | lm loss: {loss:.6E} | loss scale: 1.0 |"
            )
            story.put(story.out(rank), second, line)
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    story.traceback(SLOW, second + MEMORY, error)
    for rank in story.others(SLOW):
        story.timeout(rank, second + MEMORY + 600)
    return story


def take(opened: OpenedPage, name: str, height: int = HEIGHT) -> None:
    opened.page.set_viewport_size({"width": WIDTH, "height": height})
    opened.page.wait_for_timeout(300)  # the page draws itself anew
    opened.page.screenshot(path=str(IMAGES / name))
    sys.stdout.write(f"docs/images/{name}\n")


def take_nodes(browser: Browser, folder: Path) -> None:
    found = stuck_job(SIZES, CULPRIT)
    file = folder / "nodes.html"
    page = document_of(
        replace(found, nodes=troubled(found.all_ranks)),
        PageOrigin("rankdbg why", "slurm:88213", TIME),
    )
    write_page(page, str(file))
    with browser.opened(file, width=WIDTH) as opened:
        opened.page.locator("#nodes").screenshot(path=str(IMAGES / "nodes-of-a-page.png"))
        sys.stdout.write("docs/images/nodes-of-a-page.png\n")


def take_profile(browser: Browser, folder: Path) -> None:
    file = folder / "profile.html"
    found = profiled(job_of(SIZES), slow=[CULPRIT])
    write_page(
        document_of_profile(found, PageOrigin("rankdbg profile", "slurm:88213", TIME)), str(file)
    )
    with browser.opened(file, width=WIDTH) as opened:
        take(opened, "profile-page.png", 900)


def take_all(browser: Browser, folder: Path) -> None:
    found = stuck_job(SIZES, CULPRIT)
    report = folder / "report.html"
    write_page(document_of(found, PageOrigin("rankdbg why", "slurm:88213", TIME)), str(report))
    with browser.opened(report, width=WIDTH) as opened:
        take(opened, "report-page.png", 880)
    with served_here(always(found)) as server, browser.at(server.link, width=WIDTH) as opened:
        opened.page.wait_for_selector(".grid canvas")
        take(opened, "live-page.png")
    logged_job().write(folder / "logs")
    rules = load_rules()
    os.chdir(folder)  # the picture shows the paths
    scans = given_logs(["logs"], rules.patterns()).scan()
    page = document_of_logs(
        LogDiagnosis.of(scans, rules, None), PageOrigin("rankdbg doctor", "logs", TIME)
    )
    doctor = folder / "doctor.html"
    write_page(page, str(doctor))
    with browser.opened(doctor, width=WIDTH) as opened:
        take(opened, "doctor-page.png", 1420)
    take_nodes(browser, folder)
    take_profile(browser, folder)


if __name__ == "__main__":
    with started_browser() as browser, tempfile.TemporaryDirectory() as place:
        take_all(browser, Path(place))
