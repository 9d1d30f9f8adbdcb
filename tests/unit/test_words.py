"""Plain English: phrases that were given up do not come back."""

from __future__ import annotations

import ast
import re
from collections import Counter
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
    "silent for": "no output for, or: no response for",
    "whose begin": "whose start",
    "how each node does": "node health",
    "stands at a breakpoint": "is stopped at a breakpoint",
    "stands still": "makes no progress",
    "what stands in": "what is in",
    "come out of": "left",
    "come to a collective": "entered a collective",
    "makes other outputs": "returns different outputs",
    "is no input": "is not an input",
    "are no failures": "are not failures",
    "can go on": "can continue",
    "lets it go on": "resumes it",
    "came back later": "recovered later",
    "brought about": "caused",
    "started anew": "started again",
    "starts anew": "is reset",
    "comes home": "is copied here",
    "tells more": "shows more",
    "half as long again": "1.5 times as long",
}
CLASSES_GIVEN_UP = (
    "Alike|Calm|Here|Judged|Keeper|Keeping|Kept|Known|Lacking|Looking|Lying|Parted|Passed|Quiet|Ran|Rest"
    "|Several|Shared|Side|Since|Sought|Stay|Teller|Told|Troubles|Who|Wish"
)
NAMES_GIVEN_UP = re.compile(
    rf"\bclass _*(?:{CLASSES_GIVEN_UP})_*\b"
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


def test_a_class_name_means_one_thing() -> None:
    """A reader who searches for a class finds one. `_Names` belong to their module alone, and the
    demo is a program of its own."""
    names = Counter(
        name
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "demo"
        for name in re.findall(r"^\s*class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE)
    )
    assert [name for name, count in names.items() if count > 1] == []
