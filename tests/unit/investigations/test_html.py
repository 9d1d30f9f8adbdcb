"""Results as HTML: escaped, complete, and nothing from elsewhere."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser

import pytest

from rankdbg.investigations.answers import Answers
from rankdbg.investigations.html import FactTable, Paragraph, Table, TableRow, Tree, TreeLine, page
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.types import Answer, Frame, ProcessKey, Rank, Reply, Sampled, Silence, Stack
from rankdbg.wire.answers import Described

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202e'


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def rank(number: int) -> Rank:
    return Rank(ProcessKey("node", 100 + number, 0), "job", number)


def stacks(places: list[str]) -> MergedStacks:
    seen = [
        Sampled(rank(number), ((Stack("t", True, (Frame(place, "train.py", 8),)),),) * 2, "agent")
        for number, place in enumerate(places)
    ]
    all_ranks = [*(each.rank for each in seen), rank(len(places))]
    return MergedStacks(seen, [Silence(all_ranks[-1], HOSTILE)], all_ranks)


@pytest.mark.parametrize(
    "part",
    [
        Table((HOSTILE, HOSTILE), [TableRow((HOSTILE, HOSTILE), HOSTILE)]),
        Tree(HOSTILE, [TreeLine("", HOSTILE, HOSTILE, HOSTILE)]),
        FactTable([(HOSTILE, HOSTILE)]),
        Paragraph(HOSTILE),
    ],
)
def test_text_is_never_markup(part: Table | Tree | FactTable | Paragraph) -> None:
    """Only elements and attributes of ours, each closed; what turns text around is spelled out."""
    html = page(HOSTILE, [part])
    tags = Tags(html)
    assert tags.open == []
    assert tags.seen <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "span"}
    assert tags.attributes <= {"style"}
    assert "\u202e" not in html and "\\u202e" in html


def test_nothing_is_fetched_and_no_colour_is_assumed() -> None:
    """No address in it; text keeps the colour that the notebook gives it."""
    html = stacks(["step", "step", "step", "read"])._repr_html_().replace(escape(HOSTILE[:-1]), "")
    assert not re.search(r"https?:|url\(|src=|href=|@import", html)
    assert "background:none" in html and "color:inherit" in html


def test_stacks_have_groups_a_tree_and_the_odd_one() -> None:
    """The majority first, the odd one marked in the table and in the tree, the silent named."""
    html = stacks(["step", "step", "step", HOSTILE])._repr_html_()
    assert html.count("← odd one out") == 2
    assert html.index("step") < html.index("odd one out")
    assert "<script" not in html and "no response: 4" in html


def test_results_do_not_change_with_the_list_they_were_made_of() -> None:
    """A result keeps a tuple."""
    given: list[Reply[Described]] = [Answer(rank(0), Described("text", "a"))]
    answers = Answers(given, [rank(0)], "x")
    given.clear()
    assert len(answers.answered) == 1
    assert repr(answers) == "<Answers: x: 1 rank, 1 different value>"


def test_long_tables_are_cut() -> None:
    """A notebook stays usable with ten thousand groups."""
    html = Table(("a",), [TableRow((str(number),)) for number in range(10_000)]).html()
    assert html.count("<tr") == 201
    assert "and 9800 more rows: see as_json()" in html


def test_ranks_without_a_response_have_the_name_that_they_have_in_json() -> None:
    """Python and JSON agree; with no answer at all, too."""
    answers = Answers([Silence(rank(0), "stopped")], [rank(0)], "x")
    assert [silence.reason for silence in answers.no_response] == ["stopped"]
    assert [entry["rank"] for entry in answers.as_json()["no_response"]] == [0]
    assert [silence.rank.number for silence in stacks(["step"]).no_response] == [1]
