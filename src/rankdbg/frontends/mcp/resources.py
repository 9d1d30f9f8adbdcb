"""What can be read without asking a job: guides, causes, saved snapshots and reports.

documents/ has links to the pages of docs/; a wheel has the pages themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdbg.errors import BadInput, shortened
from rankdbg.files import foreign_files
from rankdbg.frontends.mcp import job_text, pages, text_parts, texts

SCHEME = "rankdbg://"
DOCUMENTS = Path(__file__).with_name("documents")
MARKDOWN, PLAIN, JSON = "text/markdown", "text/plain", "application/json"
MOST_SAVED = 100
LARGEST = 16 << 20
ROOM = 20_000
_MARKS = ("report.json", "report.txt", "snapshot.json")  # a folder with one of them is listed
_TEXTS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "rankdbg.why/1": texts.why,
    "rankdbg.doctor/1": texts.doctor,
}


@dataclass(frozen=True)
class Resource:
    uri: str
    title: str
    kind: str
    read: Callable[[], str]


def find_resources(saved: Path) -> list[Resource]:
    found = [
        Resource(f"{SCHEME}guide/agents", "How an agent uses rankdbg", MARKDOWN, _agents),
        Resource(f"{SCHEME}causes", "All causes of hangs, by name", PLAIN, _causes),
        *(_guide(page) for page in sorted((DOCUMENTS / "guides").glob("*.md"))),
    ]
    for folder in _saved_folders(saved):
        found += _of_folder(folder)
    return found


TEMPLATES = (
    (f"{SCHEME}cause/{{cause}}", "A cause of hangs: what it means and what to do", MARKDOWN),
    (f"{SCHEME}guide/{{name}}", "A guide", MARKDOWN),
    (f"{SCHEME}snapshot/{{name}}", "The report of a saved snapshot", PLAIN),
)


def read_resource(uri: str, saved: Path) -> tuple[str, str]:
    """Its type and its text. Raises BadInput."""
    cause = uri.removeprefix(f"{SCHEME}cause/")
    if cause != uri:
        return MARKDOWN, _cause(cause)
    for resource in find_resources(saved):
        if resource.uri == uri:
            try:
                return resource.kind, resource.read()
            except OSError as error:
                raise BadInput(f"cannot read {shortened(uri)}: {error.strerror}") from None
    raise BadInput(f"unknown resource {shortened(uri)}", hint="resources/list names all")


def _guide(page: Path) -> Resource:
    title = page.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
    return Resource(
        f"{SCHEME}guide/{page.stem}", title, MARKDOWN, lambda: page.read_text(encoding="utf-8")
    )


def _agents() -> str:
    return (DOCUMENTS / "agents.md").read_text(encoding="utf-8")


def _sections() -> dict[str, str]:
    """The causes of the reference, by name."""
    page = (DOCUMENTS / "causes.md").read_text(encoding="utf-8")
    parts = re.split(r"^(?=##+ )", page, flags=re.MULTILINE)
    return {
        part.split("\n", 1)[0].lstrip("# "): part.strip() + "\n"
        for part in parts
        if part.startswith("### ")
    }


def _causes() -> str:
    """A line for each."""
    lines = []
    for name, text in _sections().items():
        said = re.search(r"^- \*(.+?)\*", text, re.MULTILINE)
        lines.append(f"{name}: {said[1] if said else ''}")
    return "\n".join([*lines, "", f"more: {SCHEME}cause/NAME", ""])


def _cause(name: str) -> str:
    sections = _sections()
    if name not in sections:
        raise BadInput(f"unknown cause {shortened(name)!r}", hint=f"{SCHEME}causes lists all")
    return sections[name]


# --- snapshots and reports ----------------------------------------------------------------


def _saved_folders(saved: Path) -> list[Path]:
    """The newest first."""
    try:
        folders = [path for path in saved.iterdir() if not path.name.startswith(".")]
        known = [path for path in folders if any((path / mark).is_file() for mark in _MARKS)]
        return sorted(known, key=lambda path: -path.stat().st_mtime)[:MOST_SAVED]
    except OSError:  # there is none yet
        return []


def _of_folder(folder: Path) -> Iterator[Resource]:
    uri = f"{SCHEME}snapshot/{job_text.clean_text(folder.name)}"
    yield Resource(uri, f"Saved: {folder.name}", PLAIN, lambda: _report(folder))
    if (folder / "report.json").is_file():
        yield Resource(
            f"{uri}/report.json",
            f"Saved as JSON: {folder.name}",
            JSON,
            lambda: _report_json(folder),
        )


def _report(folder: Path) -> str:
    lines = []
    if (folder / "report.json").is_file():
        document = _document(folder)
        make = _TEXTS.get(str(document.get("schema")))
        try:
            lines += make(document) if make else []
        except (KeyError, TypeError, AttributeError):  # an older or a foreign report
            lines += ["the report is not in a form that this version knows"]
    elif (folder / "report.txt").is_file():
        text = foreign_files.read_bytes(folder / "report.txt", LARGEST).decode(errors="replace")
        lines += [job_text.clean_text(line) for line in text.splitlines()]
    if (folder / "snapshot.json").is_file():
        lines.append(f"ask more with target snapshot:{folder}")
    return text_parts.fit(lines, ROOM) + "\n"


def _report_json(folder: Path) -> str:
    return json.dumps(_document(folder), indent=1, ensure_ascii=False) + "\n"


def _document(folder: Path) -> dict[str, Any]:
    data = foreign_files.read_bytes(folder / "report.json", LARGEST)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise BadInput(f"the report in {folder.name} is not JSON")
    fitted, left_out = pages.fitted(document, ROOM)
    return {**job_text.clean(fitted), "left_out": left_out}
