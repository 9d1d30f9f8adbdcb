"""The documents of HTML reports, made of snapshots and logs in which anything may stand; and what a tab
of the live page sends."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from browser_tabs import refusals_of
from fuzzing import Target, check_visible, short_form, shown_by
from mutations import HOSTILE, changed_json
from page_elements import Elements, refuse_constant
from recorded_snapshot import FILES, SNAPSHOT

# From which a page is made; the others are those of `rankdbg why`.
PAGES = {"collectives": "collectives", "history": "history", "roster": "diverge"}


@cache
def usual_tags() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        shown_by("why", "-t", f"snapshot:{SNAPSHOT}", "--html", Path(folder, "page.html"))
        return Elements(Path(folder, "page.html").read_text()).tags


def snapshots(random: Random) -> bytes:
    """The name of one file of a snapshot, and its content with hostile names everywhere."""
    name = random.choice([name for name in FILES if "/" in name])
    content = FILES[name].decode()
    for _ in range(random.randint(1, 4)):
        word = random.choice(
            ["reduce", "MainThread", "default_pg", "fuzzed", "/job", "running", "gloo"]
        )
        content = content.replace(
            f'"{word}', json.dumps(word + random.choice([HOSTILE, "<", "&amp;"]))[:-1]
        )
    changed = changed_json(random, [json.loads(content)], random.choice((0, 1, 2)))
    return name.encode() + b"\n" + changed


def check_page(data: bytes) -> None:
    """No element more, and a document that is JSON as browsers read it, without hidden characters."""
    name, _, content = data.partition(b"\n")
    kind = name.decode().rpartition("/")[2].partition("-")[0]
    with tempfile.TemporaryDirectory() as folder:
        for other, valid in FILES.items():
            path = Path(folder, "snapshot", other)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if other.encode() == name else valid)
        page = Path(folder, "page.html")
        for verb in {"why", PAGES.get(kind.removesuffix(".json"), "why")}:
            shown_by(verb, "-t", f"snapshot:{folder}/snapshot", "--html", page)
            if page.exists():
                check_elements(page.read_text())


def check_elements(page: str) -> None:
    elements = Elements(page)
    assert elements.tags == usual_tags()
    assert not {*elements.document} & {*"<>&\u2028\u2029"}
    document = json.loads(elements.document, parse_constant=refuse_constant)
    check_visible(json.dumps(document, ensure_ascii=False))


# --- the live page ------------------------------------------------------------------------

SAID = [
    *({"pace": 2.0}, {"pace": 0}, {"ask": "loss"}, {"ask": "self.name"}),
    *({"logs": {"ranks": "0-1", "grep": "step"}}, {"logs": {"ranks": "", "grep": ""}}),
]


def check_tab(data: bytes) -> None:
    """A message that is none closes the connection, with the code for that."""
    messages = data.decode("utf-8", "replace").split("\n")
    assert refusals_of(messages, f"snapshot:{SNAPSHOT}") in (["EOFError"], ["InvalidMessage"])


def tab_messages(random: Random) -> bytes:
    return b"\n".join(changed_json(random, SAID, 2) for _ in range(random.randint(1, 4)))


TARGETS = [
    Target("pages", snapshots, check_page, 20),
    Target("tabs", tab_messages, check_tab, 60),
]
test_pages, test_tabs = map(short_form, TARGETS)
