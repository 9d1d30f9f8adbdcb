"""Plain English: phrases that were given up do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/rankdbg"
# What users read, in small letters, and the words that replace it (docs/design.md has the glossary).
GIVEN_UP = {
    "the begin": "the start",
    "guilty": "culprit",
    "victims": "waiting",
    "come on for": "made progress for",
    "comes on": "makes progress",
    "come on": "make progress",
    "for ever": "forever, or: has no timeout",
    "not come back": "not returned",
    "stands in the debugger": "is stopped",
    "how the nodes do": "node health",
    "are said twice": "given twice",
    "is no regular expression": "invalid regular expression",
    "is no time": "invalid time",
    "is no json": "is not JSON",
    "shall end": "terminates",
    "shall not": "cancel",
    "whose user cannot be told": "whose user cannot be determined",
    "every so often": "every SECONDS",
    "put that right": "fix",
    "being reached again": "reconnecting",
    "without a word": "without output",
    "without blanks": "must not contain spaces",
    "server well?": "server reachable?",
    "told no step": "reported no step",
    "give no batch": "return no batch",
    "nobody is accused": "there is no culprit",
}
NAMES_GIVEN_UP = re.compile(
    r"\bclass _*(?:Wish|Known|Kept|Told|Looking)_*\b"
    r"|\bdef _?(?:meet|mourn|bury|hope|last_words)(?:_\w*)?(?=\W)"
)
# One expression for all: thousands of texts are searched.
_PHRASES = re.compile(
    rf"\b(?:{'|'.join(map(re.escape, sorted(GIVEN_UP, key=len, reverse=True)))})(?!\w)",
    re.IGNORECASE,
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def phrases_in(text: str) -> list[str]:
    return [found.lower() for found in _PHRASES.findall(" ".join(text.split()))]


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """What a module can show to a user: its strings, docstrings of verbs among them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_messages() -> None:
    """No string of the code, and no rule, has one of them."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}; better: {GIVEN_UP[phrase]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in texts_of(path)
        for phrase in phrases_in(text)
    ]
    found += [
        f"{path.relative_to(ROOT)}: {phrase!r}; better: {GIVEN_UP[phrase]}"
        for path in sorted(SOURCE.rglob("*.toml"))
        for phrase in phrases_in(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    """Nor has a page of the documentation."""
    assert phrases_in(page.read_text()) == []


def test_names() -> None:
    """Classes and functions have names that a reader would search for."""
    found = [
        f"{path.relative_to(ROOT)}: {name[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in NAMES_GIVEN_UP.finditer(path.read_text())
    ]
    assert found == []


def test_the_check_sees_names() -> None:
    assert all(map(NAMES_GIVEN_UP.search, ["class _Kept:", "    def _meet_ray(x):", "def hope():"]))
    assert not any(
        map(NAMES_GIVEN_UP.search, ["class KeptHashes:", "def meeting():", "def knows():"])
    )
