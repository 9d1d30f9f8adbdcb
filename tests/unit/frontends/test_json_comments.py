"""Changes in JSON with comments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdbg.frontends import json_comments
from rankdbg.frontends.json_comments import NotJson, with_entry

ENTRY = {"name": "ours", "port": 5678, "deep": {"a": [1, 2]}}

HAND_WRITTEN = """\
// my own settings
{
  "version": "0.2.0", /* as VS Code wants it */
  "configurations": [
    { // the one I use
      "name": "mine",
      "args": ["--url", "http://x/"], // no comment in there
    },
  ],
}
"""


def plain(text: str) -> Any:
    return json_comments._plain(json_comments.parse(text))


def test_entry_is_added_and_all_else_stays() -> None:
    """Comments, trailing commas and other entries are as they were."""
    changed = with_entry(HAND_WRITTEN, "configurations", "name", ENTRY)
    assert plain(changed)["configurations"][0]["args"] == ["--url", "http://x/"]
    assert plain(changed)["configurations"][1] == ENTRY
    for line in HAND_WRITTEN.splitlines():
        assert line in changed


def test_second_time_changes_nothing() -> None:
    """What is there already is not written anew."""
    once = with_entry(HAND_WRITTEN, "configurations", "name", ENTRY)
    assert with_entry(once, "configurations", "name", ENTRY) == once


def test_entry_that_is_there_is_updated() -> None:
    """Values that differ are replaced, keys that are new added; what the user put in stays."""
    text = """{"configurations": [{"name": "ours", // hello
        "port": 1, "justMyCode": false /* mine */}]}"""
    changed = with_entry(text, "configurations", "name", ENTRY)
    assert plain(changed) == {
        "configurations": [
            {"name": "ours", "port": 5678, "justMyCode": False, "deep": {"a": [1, 2]}}
        ]
    }
    assert "// hello" in changed and "/* mine */" in changed


@pytest.mark.parametrize(
    "text", ["", "  // nothing yet\n", "{}", "{ // empty\n}", '{"configurations": []}']
)
def test_file_without_entries_gets_one(text: str) -> None:
    """Empty, or with nothing but comments."""
    changed = with_entry(text, "configurations", "name", ENTRY)
    assert plain(changed)["configurations"] == [ENTRY]
    if "//" in text:
        assert text.partition("//")[2].split("\n")[0] in changed


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", 1),
        ("{\n'a': 1}", 2),
        ('{"configurations": 3}', 1),
        ("[]", 1),
        ('{"a": 1}\nx', 1),
        ('{"a":\n\n?}', 3),
    ],
)
def test_what_is_no_json_is_said_with_its_line(text: str, line: int) -> None:
    """And nothing is changed."""
    with pytest.raises(NotJson) as error:
        with_entry(text, "configurations", "name", ENTRY)
    assert error.value.line == line


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=3), st.sampled_from([None, 2])
)
def test_any_entries_stay(entries: list[dict[str, Any]], indent: int | None) -> None:
    """Whatever they hold."""
    others = [entry for entry in entries if entry.get("name") != "ours"]
    text = json.dumps({"x": 1, "configurations": others}, indent=indent)
    assert plain(text)["configurations"] == others
    assert plain(with_entry(text, "configurations", "name", ENTRY))["configurations"] == [
        *others,
        ENTRY,
    ]


def test_byte_order_mark_stays() -> None:
    """Before anything else in the file, as some editors of Windows write it."""
    changed = with_entry("\ufeff" + HAND_WRITTEN, "configurations", "name", ENTRY)
    assert changed == "\ufeff" + with_entry(HAND_WRITTEN, "configurations", "name", ENTRY)
