"""page_files.py: one file that loads nothing, and in which text of a job is text."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rankdbg.errors import BadInput
from rankdbg.frontends import cli
from rankdbg.frontends.html.job_document import document_of
from rankdbg.frontends.html.page_files import check_place, embedded, page_text, write_page
from rankdbg.frontends.html.page_origin import PageOrigin
from simulated_jobs import stuck_job

ORIGIN = PageOrigin("rankdbg why", "slurm:4711", "2026-11-18T03:11:26+00:00")
HOSTILE = "</script><!--<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b]52;"


def document(**changes: Any) -> Any:
    return {**document_of(stuck_job({"pp": 1, "dp": 2, "tp": 2}, 3), ORIGIN), **changes}


class Elements(HTMLParser):
    """What a browser would take for elements, and what is inside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open, []).append(data)


def test_text_of_a_job_ends_no_element() -> None:
    """Neither in the title nor in the document; and it arrives as it was, made visible."""
    made = document(job=HOSTILE, target=HOSTILE)
    text = page_text(made)
    assert [tag for tag, _ in Elements(text).tags] == [
        tag for tag, _ in Elements(page_text(document())).tags
    ]
    inside = embedded(made)
    assert not re.search(r"[<>&\u2028\u2029]", inside)
    shown = json.loads(inside)["job"]
    assert shown == HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")


def test_the_policy_allows_this_script_and_style_alone() -> None:
    """By their hashes: no other script runs, and nothing is loaded."""
    elements = Elements(page_text(document()))
    (policy,) = [
        attributes["content"] or ""
        for tag, attributes in elements.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy

    def hashed(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert f"script-src 'sha256-{hashed(elements.texts['script'][-1])}'" in policy
    assert f"style-src 'sha256-{hashed(elements.texts['style'][0])}'" in policy
    for tag, attributes in elements.tags:
        assert not {"src", "href", "style"} & attributes.keys(), tag


def test_numbers_that_json_has_not() -> None:
    """nan and inf are text: JSON.parse would refuse the whole report."""
    assert '"nan"' in embedded(document(samples=float("nan")))


def test_the_file_is_whole_and_private(tmp_path: Path) -> None:
    """It replaces what was there, can be read by its owner alone, and nothing is left beside it."""
    place = tmp_path / "report.html"
    place.write_text("old")
    write_page(document(), str(place))
    assert place.read_text().startswith("<!doctype html>")
    assert place.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "expected the name of a file"),
        ("-", "expected the name of a file"),
        ("folder", "it is a directory"),
        ("missing/report.html", "there is no directory"),
        ("a" * 300, "File name too long"),
        ("/proc/report.html", "cannot write /proc/report.html: "),
    ],
)
def test_a_place_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    """It is refused before anything is asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInput, match=why):
        check_place(name)


def test_a_link_that_lies_where_others_may_write(tmp_path: Path) -> None:
    """Another user has laid one for this process, under a name that could be guessed."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / f".rankdbg-page-{os.getpid()}.partial").symlink_to(precious)
    write_page(document(), str(tmp_path / "report.html"))
    assert precious.read_text() == "precious"


def test_a_disk_that_is_full() -> None:
    """One sentence, and what it needs."""
    with pytest.raises(BadInput, match="cannot write /dev/full: No space left on device"):
        write_page(document(), "/dev/full")


def test_why_refuses_before_it_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2 and one sentence; a target that cannot be reached is not even tried."""
    missing = tmp_path / "missing" / "report.html"
    assert cli.main(["why", "-t", "ssh:nowhere.invalid", "--html", str(missing)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: cannot write {missing}: there is no directory")
