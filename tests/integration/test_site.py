"""The documentation as a site, and the commands in it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankdbg.frontends.cli import VERBS, verb_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_site(tmp_path: Path) -> None:
    """It is built without a warning: each page has its place, each link leads to a page and a
    heading; and its search knows every guide."""
    pytest.importorskip("material", reason="needs mkdocs-material")
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "-d",
        tmp_path / "site",
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    index = json.loads((tmp_path / "site/search/search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    guides = {f"guides/{path.stem}/" for path in (ROOT / "docs/guides").glob("*.md")}
    assert guides | {"", "reference/verbs/", "gallery/", "changes/", "security/"} <= found
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.search(r'<(script|link)[^>]+(src|href)="https?:', page.read_text()), page


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_can_be_run(page: Path) -> None:
    """Each `$ rankdbg …` is one that the command line takes: the verb and its options exist."""
    wrong = [command for command in commands(page.read_text()) if not is_taken(command)]
    assert wrong == []


def commands(text: str) -> Iterator[str]:
    """In code blocks behind a prompt, lines that end in a backslash joined."""
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.lstrip().startswith("$ rankdbg "):
                yield line.lstrip().removeprefix("$ ")


def is_taken(command: str) -> bool:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if set(word) <= set("&|;<>"):
            break
        words.append(word)
    verb, *rest = words[1:]
    if verb in ("--version", "--help"):
        return True
    if verb not in VERBS:
        return False
    options = {option for action in verb_parser(verb)._actions for option in action.option_strings}
    ours = rest[: rest.index("--")] if "--" in rest else rest
    given = {word.partition("=")[0] for word in ours if re.match(r"--?[a-z]", word)}
    return given <= options
