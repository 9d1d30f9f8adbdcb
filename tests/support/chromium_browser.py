"""Debian's Chromium without a window, and with the network switched off: what a page does there."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from waiting import PATIENCE


class OpenedPage:
    """A file in the browser, with all that it said and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, file: Path) -> None:
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("main .foot")

    @property
    def selection(self) -> str:
        return str(self.page.input_value("#selection"))

    def select(self, text: str) -> None:
        self.page.fill("#selection", text)
        self.page.press("#selection", "Enter")

    def orange_spots(self) -> list[tuple[float, float]]:
        """Where the grid is as orange as a culprit is: places in the page, in steps of 4 pixels."""
        found: list[list[float]] = self.page.evaluate(
            """() => {
              const canvas = document.querySelector('.grid canvas');
              const {width, height} = canvas;
              const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
              const box = canvas.getBoundingClientRect(), spots = [];
              for (let y = 0; y < height; y += 4) for (let x = 0; x < width; x += 4) {
                const [r, g, b] = data.subarray(4 * (y * width + x));
                if (r > 200 && g > 50 && g < 130 && b < 70)
                  spots.push([box.left + x / width * box.width, box.top + y / height * box.height]);
              }
              return spots;
            }"""
        )
        return [(x, y) for x, y in found]


def check_slowed_node(opened: OpenedPage) -> None:
    """One node, with the three GPUs of tests/fakes/nvml.c."""
    (row,) = opened.page.locator("#nodes tbody tr").all()
    assert "slowed by heat, by the hardware" in row.text_content()
    label = row.locator("[role=img]").get_attribute("aria-label")
    assert label.startswith("GPU 0: 0 %, with a complaint, GPU 1: 10 %"), label
    assert "3 × Fake" in opened.page.text_content("#nodes .says")


class Browser:
    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium

    @contextlib.contextmanager
    def opened(self, file: Path, dark: bool = False, width: int = 1440) -> Iterator[OpenedPage]:
        """It must neither complain nor ask for anything but the file itself."""
        context = self._chromium.new_context(
            offline=True,
            color_scheme="dark" if dark else "light",
            viewport={"width": width, "height": 900},
        )
        try:
            opened = OpenedPage(context.new_page())
            opened.open(file)
            yield opened
            assert opened.complaints == []
            assert {*opened.requests} == {file.as_uri()}
        finally:
            context.close()

    @contextlib.contextmanager
    def at(self, link: str, dark: bool = False, width: int = 1440) -> Iterator[OpenedPage]:
        """A page of a server, which must neither complain nor ask another one for anything."""
        context = self._chromium.new_context(
            color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}
        )
        context.set_default_timeout(1000 * PATIENCE)
        try:
            opened = OpenedPage(context.new_page())
            opened.page.on("websocket", lambda socket: opened.requests.append(socket.url))
            opened.page.goto(link)
            opened.page.wait_for_selector("main .foot")
            yield opened
            assert opened.complaints == []
            assert {urlsplit(url).netloc for url in opened.requests} == {urlsplit(link).netloc}
        finally:
            context.close()


@contextlib.contextmanager
def started_browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        # Root, as in a container, has no sandbox; what is opened is what the tests have made. A GPU
        # that is imitated takes more processor time than drawing without one.
        words = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]
        chromium = driver.chromium.launch(executable_path=program, args=words)
        try:
            yield Browser(chromium)
        finally:
            chromium.close()
