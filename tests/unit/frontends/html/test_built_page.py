"""built/: what `make page` has made of page/, and nothing else."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from rankdbg.frontends.html import document
from rankdbg.frontends.html.page_files import BUILT

PAGE = Path(__file__).parents[4] / "page"
SETTINGS = ("build.mjs", "package-lock.json", "package.json", "tsconfig.json")


def sources() -> list[Path]:
    files = [PAGE / name for name in SETTINGS] + [*(PAGE / "src").iterdir()]
    return sorted(files, key=lambda path: path.relative_to(PAGE).as_posix())


def hash_of_sources() -> str:
    """As page/build.mjs computes it."""
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PAGE).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


BUILT_FILES = ["page.js", "live.js", "page.css"]


@pytest.mark.parametrize("name", BUILT_FILES)
def test_built_files_are_of_these_sources(name: str) -> None:
    """The first line has the hash of all sources."""
    first = (BUILT / name).read_text().partition("\n")[0]
    assert first == f"/* built from page/ by make page: {hash_of_sources()} */", "make page"


@pytest.mark.parametrize("name", BUILT_FILES)
def test_built_files_load_nothing(name: str) -> None:
    """No address but the name of the SVG namespace, no import, and nothing that makes HTML of text."""
    text = (BUILT / name).read_text()
    assert {*re.findall(r"https?://[^\"'`)\s]+", text)} <= {"http://www.w3.org/2000/svg"}
    for word in ("@import", "url(", "import(", "fetch(", "innerHTML", "insertAdjacent", "eval("):
        assert word not in text, word
    assert text.isascii() or name == "page.css"


def test_the_lock_names_versions_and_no_registry() -> None:
    """Whoever builds the page fetches packages from where they always do."""
    lock = json.loads((PAGE / "package-lock.json").read_text())
    package = json.loads((PAGE / "package.json").read_text())
    assert "http" not in (PAGE / "package-lock.json").read_text().replace("https-proxy", "")
    for name, version in package["devDependencies"].items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


def test_both_sides_know_the_same_document() -> None:
    """document.ts has the fields of document.py, in the same order."""
    script = (PAGE / "src/document.ts").read_text()
    interfaces = {
        name: re.findall(r"^  (\w+):", body, re.MULTILINE)
        for name, body in re.findall(r"export interface (\w+) \{\n(.*?)\n\}", script, re.DOTALL)
    }
    types = {
        name: [*value.__annotations__]
        for name, value in vars(document).items()
        if hasattr(value, "__total__") and name != "TypedDict"
    }
    assert interfaces == types
