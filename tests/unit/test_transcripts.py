"""Transcripts in the documentation are made by running them: docs/make_transcripts.py knows how."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from transcripts import PAGES, load_scenario, problems  # noqa: E402, after the path to it
from transcripts.page import commands_of, parse, written  # noqa: E402
from transcripts.scenario import NotRun, assign  # noqa: E402

PAGE = """\
# A page

```toml
$ not_a_command = 1
```

```
$ rankdbg ps \\
    --all
job train

$ rankdbg why
stuck
```
"""


@pytest.mark.parametrize("name", PAGES)
def test_every_command_has_a_scenario(name: str) -> None:
    """A scene that plays it, or a reason why it cannot be run here."""
    assert problems(name) == []


@pytest.mark.parametrize("name", PAGES)
def test_reasons_are_stated(name: str) -> None:
    """Nothing is skipped silently."""
    assert all(part.reason for part in load_scenario(name) if isinstance(part, NotRun))


@pytest.mark.parametrize("path", PAGES.values())
def test_pages_are_written_as_they_were(path: str) -> None:
    """What is not played stays as it is, to the last character."""
    text = (ROOT / path).read_text()
    assert written(parse(text)) == text


def test_output_is_replaced() -> None:
    """Below its command, up to the empty line before the next one."""
    parts = parse(PAGE)
    ps, why = commands_of(parts)
    assert ps.text == "rankdbg ps \\\n    --all"
    ps.show(["job other", "RANKS"])
    why.show([])
    expected = PAGE.replace("job train", "job other\nRANKS").replace("stuck\n", "")
    assert written(parts) == expected


def test_commands_without_a_scenario() -> None:
    """The first that is missing is named, on either side."""
    commands = commands_of(parse(PAGE))
    with pytest.raises(ValueError, match="no scenario: rankdbg why"):
        assign(commands, [NotRun("for this test", ("rankdbg ps",))])
    with pytest.raises(ValueError, match="not in the page: rankdbg stacks"):
        assign(commands, [NotRun("for this test", ("rankdbg ps", "rankdbg why", "rankdbg stacks"))])
