"""What does not fit is left out, counted, and reached by a cursor."""

from __future__ import annotations

import pytest

from rankdbg.errors import BadInput
from rankdbg.frontends.mcp.pages import (
    CURSOR_SECONDS,
    MOST_CURSORS,
    Cursors,
    fitted,
    page_of,
    size_of,
)


def test_what_fits_stays() -> None:
    """Nothing is cut, and nothing is said to be missing."""
    document = {"groups": [{"ranks": "0-3", "frames": [1, 2]}], "why": "a text"}
    assert fitted(document, 1000) == (document, {})


def test_lists_are_cut_alike_and_counted() -> None:
    """Also lists in lists, and mappings by rank; objects keep their keys."""
    document = {
        "groups": [{"ranks": str(n), "frames": list(range(50))} for n in range(30)],
        "sources": {str(n): "agent" for n in range(500)},
    }
    cut, left_out = fitted(document, 2000)
    assert size_of(cut) <= 2000
    assert left_out["sources"] == 500 - len(cut["sources"]) > 0
    assert left_out["groups"] == 30 - len(cut["groups"])
    frames = sum(50 - len(group["frames"]) for group in cut["groups"])
    assert left_out["groups[].frames"] == frames
    assert all({"ranks", "frames"} == {*group} for group in cut["groups"])


def test_a_page_is_not_cut_again() -> None:
    """Else what the cursor skips would be lost."""
    document = {"lines": list(range(300)), "files": list(range(300))}
    cut, left_out = fitted(document, 1500, "lines")
    assert cut["lines"] == list(range(300)) and [*cut] == ["lines", "files"]
    assert "lines" not in left_out and left_out["files"] > 0


@pytest.mark.parametrize("from_end", [False, True])
def test_pages_have_every_item_once(from_end: bool) -> None:
    """Of a log the last come first; the order in a page stays."""
    items = [{"n": n, "text": "x" * (n % 37)} for n in range(200)]
    place, pages = 0, []
    while place < len(items):
        page, place = page_of(items, place, 500, from_end)
        pages.append(page)
        assert page and size_of(page) < 700
    together = [item for page in (pages[::-1] if from_end else pages) for item in page]
    assert together == items


def test_an_item_without_room_is_a_page() -> None:
    """A page is never empty: the cursor always advances."""
    assert page_of(["x" * 9000, "y"], 0, 100, False) == (["x" * 9000], 1)


def test_room_is_that_of_what_will_be_shown() -> None:
    """Long texts are cut later: several of them make a page."""
    assert page_of(["x" * 9000] * 9, 0, 2000, False)[1] == 4


def test_cursors_expire() -> None:
    """By time, by number, and they belong to their tool."""
    now = [0.0]
    cursors = Cursors(lambda: now[0])
    token = cursors.keep("stacks", {"groups": []}, 3)
    assert cursors.take("stacks", token).place == 3
    with pytest.raises(BadInput, match="one of stacks"):
        cursors.take("logs", token)
    now[0] = CURSOR_SECONDS + 1
    with pytest.raises(BadInput, match="expired"):
        cursors.take("stacks", token)
    first = cursors.keep("stacks", {}, 1)
    for _ in range(MOST_CURSORS):
        last = cursors.keep("stacks", {}, 1)
    with pytest.raises(BadInput, match="unknown"):
        cursors.take("stacks", first)
    assert cursors.take("stacks", last)
