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
# What users read, and the words that replace it (docs/design.md has the glossary).
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
    "is no JSON": "is not JSON",
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
NAMES_GIVEN_UP = {
    *(
        "Alike",
        "Calm",
        "Here",
        "Judged",
        "Keeper",
        "Keeping",
        "Kept",
        "Known",
        "Lacking",
        "Looking",
    ),
    *("Lying", "Parted", "Passed", "Quiet", "Ran", "Rest", "Several", "Shared", "Side", "Since"),
    *("Sought", "Stay", "Teller", "Told", "Troubles", "Who", "Wish"),
}
FUNCTIONS_GIVEN_UP = re.compile(r"_?(meet|mourn|bury|hope|last_words)(_|$)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def phrases_in(text: str) -> list[str]:
    plain = " ".join(text.split())
    return [p for p in GIVEN_UP if re.search(rf"\b{re.escape(p)}(?!\w)", plain, re.IGNORECASE)]


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
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name.strip("_") in NAMES_GIVEN_UP:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: class {node.name}")
            if isinstance(node, ast.FunctionDef) and FUNCTIONS_GIVEN_UP.match(node.name):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}()")
    assert found == []


def test_a_class_name_means_one_thing() -> None:
    """A reader who searches for a class finds one. `_Names` belong to their module alone, and the
    demo is a program of its own."""
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "demo"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
