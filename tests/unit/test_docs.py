"""The documentation cannot rot: what there is stands in the reference."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

from rankdbg import errors
from rankdbg.clusters import CLUSTERS
from rankdbg.frontends.cli import VERBS, verb_parser
from rankdbg.investigations.connection import JobConnection, connect
from rankdbg.investigations.job_view import JobView
from rankdbg.investigations.results import Result
from rankdbg.investigations.watch.watch_settings import WatchSettings
from rankdbg.node.probes import PROBES
from rankdbg.verdicts.hangs.hang_rules import ROLES, WORDS, HangRule, load_hang_rule_file
from rankdbg.verdicts.rules.log_rules import load_rule_file

ROOT = Path(__file__).parents[2]
REFERENCE = {path.name: path.read_text() for path in (ROOT / "docs/reference").glob("*.md")}
VERBS_TEXT = REFERENCE["verbs.md"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_in_the_reference(verb: str) -> None:
    """A heading for the verb, and each option in its section or among the shared ones."""
    assert f"\n## {verb}\n" in VERBS_TEXT
    section = VERBS_TEXT.split(f"\n## {verb}\n")[1].split("\n## ")[0]
    shared = VERBS_TEXT.split("## Options that verbs share")[1].split("\n## ")[0]
    for action in verb_parser(verb)._actions:
        for option in action.option_strings:
            assert re.search(rf"{re.escape(option)}\b", section + shared), option


def test_every_cluster_is_in_the_reference() -> None:
    """A row in the table of targets."""
    targets = REFERENCE["targets.md"]
    assert all(re.search(rf"^\| `{name}", targets, re.MULTILINE) for name in CLUSTERS)


def test_every_probe_is_in_the_reference() -> None:
    """A row in the table of probes."""
    probes = [kind.module for kind in PROBES.values()]
    assert probes
    assert all(f"| `{name}`" in VERBS_TEXT for name in probes)


def test_every_error_is_in_the_reference() -> None:
    """Each class of errors.py is named."""
    names = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert len(names) > 10
    assert all(f"`{name}`" in VERBS_TEXT for name in names)


def test_every_environment_variable_is_in_the_reference() -> None:
    """Each RANKDBG_… that the code reads is in the table."""
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"\"(RANKDBG(?:_[A-Z]+)?)\"", source))
    assert {"RANKDBG", "RANKDBG_DIR"} <= names
    assert all(f"| `{name}` |" in REFERENCE["environment.md"] for name in names)


def test_every_schema_is_in_the_reference() -> None:
    """Each document that --json prints is described."""
    source = "".join(p.read_text() for p in (ROOT / "src/rankdbg/frontends/cli").glob("*.py"))
    kinds = set(re.findall(r"print_json\(\"(\w+)\"", source))
    assert kinds
    assert all(f"`rankdbg.{kind}/1`" in REFERENCE["json.md"] for kind in kinds)


@pytest.mark.parametrize("page", ["causes", "failures", "phases", "mcp"])
def test_pages_are_those_of_the_rules(page: str) -> None:
    """The page is as docs/make_reference.py writes it."""
    made = runpy.run_path(str(ROOT / "docs/make_reference.py"))[page]()
    assert REFERENCE[f"{page}.md"] == made, "make reference"


def test_every_cause_is_in_the_reference() -> None:
    """Also those that no rule names, but the comparison of ranks."""
    folder = ROOT / "src/rankdbg/verdicts/hangs"
    source = "".join((folder / f"{name}.py").read_text() for name in ("culprits", "ray_causes"))
    names = set(re.findall(r"\"([a-z]+(?:-[a-z]+)+)\"", source))
    assert {"rank-died", "collective-mismatch"} <= names
    assert all(f"\n### {name}\n" in REFERENCE["causes.md"] for name in names)


def test_every_key_and_word_of_hang_rules_is_in_the_reference() -> None:
    """A row for each key and role, and each word that texts may name."""
    text = REFERENCE["rules.md"].split("## `[[hang]]`")[1]
    names = [*(field.name for field in fields(HangRule)), *ROLES, *WORDS]
    assert [name for name in names if f"`{name}`" not in text and f"`{{{name}}}`" not in text] == []


def test_rules_in_the_reference_can_be_used(tmp_path: Path) -> None:
    """Each example is a file of rules of logs or of hangs."""
    texts = REFERENCE["rules.md"] + (ROOT / "docs/guides/add-a-rule.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", texts, re.DOTALL)
    file = tmp_path / "example.toml"
    for example in examples:
        file.write_text(example)
        assert load_rule_file(str(file)).names() or load_hang_rule_file(str(file))
    assert len(examples) == 3


def test_every_method_of_a_connection_is_in_the_reference() -> None:
    """A row for each method, with its arguments; each argument of connect(); and what results
    have in common."""
    text = REFERENCE["python.md"]
    rows = dict(re.findall(r"^\| `(\w+)(.*)$", text, re.MULTILINE))
    methods = {
        name: value
        for kind in (JobConnection, JobView)
        for name, value in vars(kind).items()
        if not name.startswith("_")
    }
    assert {"ranks", "why", "watch", "close"} <= methods.keys()
    for name, method in methods.items():
        arguments = [] if isinstance(method, property) else [*signature(method).parameters][1:]
        assert [a for a in arguments if not re.search(rf"\b{a}\b", rows[name])] == [], name
    assert all(f"`{name}" in text for name in [*signature(connect).parameters][2:])
    shared = [name for name in vars(Result) if not name.startswith("_")]
    assert [name for name in shared if f"| `{name}()` |" not in text] == []


def test_every_setting_of_watch_is_in_the_guide() -> None:
    """A row in its table."""
    guide = (ROOT / "docs/guides/watch-overnight.md").read_text()
    assert [f.name for f in fields(WatchSettings) if f"| `{f.name}` |" not in guide] == []


def test_a_newcomer_finds_every_place() -> None:
    """What the table in CONTRIBUTING names is there: folders, files, and the names in them."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where does it go?")[2]
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    source = ROOT / "src/rankdbg"
    places = {place for row in rows for place in re.findall(r"`([\w/]+(?:/|\.py))`", row)}
    assert len(rows) > 10 and [place for place in places if not (source / place).exists()] == []
    named = [each for row in rows for each in re.findall(r"`([A-Z]+)` in `([\w/.]+)`", row)]
    assert len(named) > 4
    for name, file in named:
        assert re.search(rf"^ *{name}\b.* = ", (source / file).read_text(), re.MULTILINE), (
            name,
            file,
        )


def test_every_target_of_make_is_phony() -> None:
    """Else a folder of its name (docs) makes it `Nothing to be done`."""
    text = (ROOT / "Makefile").read_text()
    targets = {*re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE)}
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert "docs" in targets and phony is not None and targets - {*phony[1].split()} == set()


def test_links_lead_somewhere() -> None:
    """Each relative link in README and docs names a file."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
